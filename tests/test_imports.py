"""Modules import only the layers below them, only `storage` the driver; class names are unique."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "registry"

LAYERS = [
    "installation",
    "private_files",
    "offloading",
    "printable",
    "start_error",
    "metrics",
    "model",
    "resources",
    "access",
    "jsonapi",
    "settings",
    "storage",
    "compound",
    "http",
    "transfer",
    "openapi",
    "app",
    "processes",
    "commands",
    "__main__",
]
"""From the bottom up: a layer may import those before it."""

STORAGE_LAYERS = [
    "thread_pool",
    "errors",
    "bulkheads",
    "visible_fields",
    "text_blocks",
    "records",
    "batching",
    "backlog",
    "codecs",
    "mongod",
    "connection_pool",
    "command_durations",
    "client",
    "session_pool",
    "snapshot_session",
    "backup_archive",
    "backups",
    "availability",
    "disk_space",
    "reads",
    "snapshot",
    "index_builds",
    "duplicates",
    "unique_indexes",
    "writes",
    "tokens",
    "token_lookups",
    "indexes",
    "computed_fields",
    "record_format",
    "text_indexing",
    "maintenance",
    "consistency",
    "repository",
]
"""The layers of `registry.storage`, from the bottom up."""


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


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


@pytest.mark.parametrize("layer", STORAGE_LAYERS)
def test_a_layer_of_storage_imports_only_those_below_it(layer: str) -> None:
    below = set(STORAGE_LAYERS[: STORAGE_LAYERS.index(layer) + 1])
    for path in modules(f"storage/{layer}"):
        assert layers_imported(path, "registry.storage") <= below, path.name


def test_every_module_has_a_layer() -> None:
    assert names_in(PACKAGE) == set(LAYERS)
    assert names_in(PACKAGE / "storage") == set(STORAGE_LAYERS)


def test_resources_import_only_the_model() -> None:
    for path in modules("resources"):
        assert layers_imported(path, "registry") <= {"model", "resources"}


def test_the_model_and_the_protocol_import_neither_the_http_server_nor_the_driver() -> None:
    for path in (*modules("model"), *modules("jsonapi")):
        foreign = {name.split(".")[0] for name in imports(path)}
        assert not foreign & {"aiohttp", "motor", "pymongo", "bson"}, path.name


def test_only_storage_imports_the_driver() -> None:
    for path in PACKAGE.glob("**/*.py"):
        if not path.is_relative_to(PACKAGE / "storage"):
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


def test_no_two_classes_have_the_same_name() -> None:
    counts = Counter(public_classes())
    # OpenAPI and the Atomic Operations extension both call theirs so.
    assert {name for name, count in counts.items() if count > 1} == {"Operation"}
