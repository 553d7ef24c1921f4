"""Imports point one way, and the parts know no more than they need."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "registry"

LAYERS = [
    "attributes",
    "compiled",
    "projection",
    "validation",
    "ids",
    "resource",
    "resources",
    "jsonapi",
    "limits",
    "settings",
    "process",
    "storage",
    "keys",
    "include",
    "streaming",
    "etags",
    "answer",
    "failures",
    "urls",
    "views",
    "openapi",
    "swagger_ui",
    "app",
    "server",
    "workers",
    "arbiter",
    "__main__",
]
"""From the bottom up; a part may import what stands before it."""


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def modules(part: str) -> list[Path]:
    return sorted((PACKAGE / part).glob("**/*.py")) or [PACKAGE / f"{part}.py"]


@pytest.mark.parametrize("part", LAYERS)
def test_a_part_imports_only_what_is_below_it(part: str) -> None:
    below = {"__version__", *LAYERS[: LAYERS.index(part) + 1]}
    for path in modules(part):
        for name in imports(path):
            top, _, rest = name.partition(".")
            if top == "registry" and rest:
                assert rest.split(".")[0] in below, f"{path.name} imports {name}"


def test_every_part_has_its_layer() -> None:
    parts = {
        path.stem for path in PACKAGE.iterdir() if not path.name.startswith(("__init__", "__pyc"))
    }
    assert parts - {"py"} == set(LAYERS)


def test_resources_know_nothing_but_what_a_resource_is() -> None:
    for path in modules("resources"):
        for name in imports(path):
            if name.startswith("registry."):
                assert name.split(".")[1] in {"attributes", "resource", "resources"}


def test_the_protocol_knows_neither_http_server_nor_database() -> None:
    for path in modules("jsonapi"):
        foreign = {name.split(".")[0] for name in imports(path)}
        assert not foreign & {"aiohttp", "motor", "pymongo", "bson"}


def test_only_storage_knows_the_driver() -> None:
    for path in PACKAGE.glob("**/*.py"):
        if path.parent.name != "storage":
            foreign = {name.split(".")[0] for name in imports(path)}
            assert not foreign & {"motor", "pymongo", "bson"}, path.name
