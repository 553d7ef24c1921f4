"""Modules import only the layers below them; class names are unique."""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import abc, test_utils, web

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "registry"

LAYERS = [
    *["program", "offloading", "protocol"],
    *["client", "metrics", "model", "resources", "access", "jsonapi", "csv_format", "settings"],
    *["capacity", "supervision", "mongod", "storage", "operations", "compound", "http"],
    *["transfer", "web", "openapi", "app", "testing", "pytest_plugin"],
    *["processes", "commands", "__main__"],
]
"""From the bottom up: a layer may import those before it."""

STORAGE_LAYERS = [
    {"errors", "bulkheads", "records"},
    {"mongo"},
    {"indexes", "validators", "counters", "last_backup"},
    {"reads"},
    {"writes"},
    {"index_builds"},
    {"repository", "tokens"},
]
"""The layers of `registry.storage`, from the bottom up."""


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def imports(path: Path) -> Iterator[str]:
    """Yield the modules, and the names that are imported from them."""
    yield from imported_modules(path)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(layer: str) -> list[Path]:
    return sorted((PACKAGE / layer).glob("**/*.py")) or [PACKAGE / f"{layer}.py"]


def names_in(package: Path) -> set[str]:
    return {path.stem for path in package.iterdir()} - {"__init__", "__pycache__", "py"}


def layers_imported(path: Path, package: str) -> set[str]:
    prefix = f"{package}."
    names = (name.removeprefix(prefix) for name in imports(path) if name.startswith(prefix))
    return {name.split(".")[0] for name in names} - {"__version__"}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_those_below_it(layer: str) -> None:
    below = set(LAYERS[: LAYERS.index(layer) + 1])
    for path in modules(layer):
        assert layers_imported(path, "registry") <= below, path.name


@pytest.mark.parametrize("number", range(len(STORAGE_LAYERS)))
def test_a_layer_of_storage_imports_only_those_below_it(number: int) -> None:
    below = set().union(*STORAGE_LAYERS[: number + 1])
    for name in STORAGE_LAYERS[number]:
        for path in modules(f"storage/{name}"):
            assert layers_imported(path, "registry.storage") <= below, path.name


def test_every_module_has_a_layer() -> None:
    assert names_in(PACKAGE) == set(LAYERS)
    assert names_in(PACKAGE / "storage") == set().union(*STORAGE_LAYERS)


def test_only_operations_import_modules_of_storage() -> None:
    for path in PACKAGE.glob("**/*.py"):
        if {PACKAGE / "storage", PACKAGE / "operations"}.isdisjoint(path.parents):
            modules = {module for module in imported_modules(path) if "registry.storage." in module}
            assert not modules, path.name


def test_resources_import_only_the_model() -> None:
    for path in modules("resources"):
        assert layers_imported(path, "registry") <= {"model", "resources"}


def test_the_model_and_the_protocol_import_neither_the_http_server_nor_the_driver() -> None:
    for path in (*modules("model"), *modules("jsonapi")):
        foreign = {name.split(".")[0] for name in imports(path)}
        assert not foreign & {"aiohttp", "motor", "pymongo", "bson"}, path.name


def test_only_packages_for_mongodb_import_the_driver() -> None:
    for path in PACKAGE.glob("**/*.py"):
        packages = {PACKAGE / name for name in ("mongod", "storage", "operations")}
        if packages.isdisjoint(path.parents) and not path.name.startswith("testing"):
            foreign = {name.split(".")[0] for name in imports(path)}
            assert not foreign & {"motor", "pymongo", "bson"}, path.name


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
