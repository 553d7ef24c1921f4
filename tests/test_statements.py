"""The list of statements names tests that exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parent


def test_the_tests_that_the_list_names_exist() -> None:
    text = (TESTS / "statements.md").read_text()
    named = re.findall(r"`(\w+/\w+\.py)(?:::(\w+))?`", text)
    assert len(named) > 200
    for path, test in named:
        assert f"def {test}" in (TESTS / path).read_text(), (path, test)
