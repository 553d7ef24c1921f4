"""The list of statements of JSON:API names tests that exist and run."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent

STATEMENT = re.compile(r"- \*\*([A-Z ]+)\*\* `[^`]+`: (.*?)(?=\n- |\n\n|\n*\Z)", re.DOTALL)


@cache
def function_names(path: Path) -> set[str]:
    """Return the names of the test functions of a module."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, functions)}


def test_each_statement_names_tests_that_exist() -> None:
    text = (TESTS / "statements.md").read_text()
    statements = STATEMENT.findall(text)
    assert len(statements) == text.count("\n- ") > 150
    for level, statement in statements:
        named = re.findall(r"`(\w+/\w+\.py)::(test_\w+)`", statement)
        is_excused = level == "MAY" or re.search(r"\((.|\n)*\)", statement)
        assert named or is_excused, statement
        assert statement.count(".py") == len(named), statement
        for path, test in named:
            assert test in function_names(TESTS / path), (path, test)
