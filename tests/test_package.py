"""Modules import only what they may; names of modules and classes are unique."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from aiohttp import abc, test_utils, web

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "registry"


def test_imports_keep_the_contracts_in_pyproject() -> None:
    command = (Path(sys.executable).with_name("lint-imports"), "--no-cache")
    result = subprocess.run(  # noqa: S603 - a program of the checks
        command, cwd=TESTS.parent, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout


def public_classes() -> Iterator[str]:
    """The names of classes and type aliases, with repetitions."""
    for path in PACKAGE.glob("**/*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
                name = ast.unparse(node.target)
            else:
                continue
            if not name.startswith("_"):
                yield name


def test_no_two_modules_have_the_same_name() -> None:
    counts = Counter(path.name for path in PACKAGE.glob("**/*.py"))
    assert {name for name, count in counts.items() if count > 1} == {"__init__.py"}


def test_no_two_classes_have_the_same_name() -> None:
    counts = Counter(public_classes())
    assert [name for name, count in counts.items() if count > 1] == []


def private_names(path: Path) -> set[str]:
    """The private attributes, methods and functions that a module of aiohttp has or uses."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    names |= {node.name for node in nodes if isinstance(node, functions)}
    names -= {"_replace", "_asdict"}  # of named tuples, which are public
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def private_names_of_bases(node: ast.ClassDef) -> set[str]:
    """Those of the modules that define the classes of aiohttp which a class extends."""
    bases = [ast.unparse(base).removeprefix("web.") for base in node.bases]
    sources = (web, test_utils, abc)
    found = [getattr(source, base) for base in bases for source in sources if hasattr(source, base)]
    modules = {each.__module__ for base in found for each in base.__mro__}
    files = [Path(sys.modules[name].__file__ or "") for name in modules if "aiohttp" in name]
    return set().union(*map(private_names, files))


def test_no_private_part_of_aiohttp_is_used() -> None:
    """Neither of its objects, nor in the classes that extend its own."""
    private = set().union(*map(private_names, Path(web.__file__).parent.glob("*.py")))
    assert {"_messages", "_parser", "_make_runner"} <= private
    for path in (*PACKAGE.glob("**/*.py"), *TESTS.glob("*.py"), *TESTS.glob("http/*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in {"self", "cls"}:
                assert node.attr not in private, f"{path}:{node.lineno}"
            if isinstance(node, ast.ClassDef) and (inherited := private_names_of_bases(node)):
                own = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
                own |= {each.name for each in node.body if hasattr(each, "name")}
                assert not own & inherited, f"{path}:{node.lineno}"


def test_no_test_module_imports_another() -> None:
    pattern = re.compile(r"^(?:from|import) (tests\.[\w.]*\btest_\w+)", re.MULTILINE)
    found = {path: pattern.findall(path.read_text()) for path in TESTS.glob("**/*.py")}
    assert {path: modules for path, modules in found.items() if modules} == {}
