"""Third-party clients of the running service: of JSON:API, and generated from its description.

The commands that generate some, and a program for each, are those of docs/generated-clients.md.
"""

import os
import re
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.programs import NODE, node_packages, run
from tests.system.conftest import Start
from tests.system.service import ROOT, TIMEOUT, Service

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "generated-clients.md").read_text()
ADDRESS = "http://127.0.0.1:8080"

GENERATION_TIMEOUT = 2 * TIMEOUT
"""Seconds for a generator or a compiler, which compete for the cores with other tests."""

PYTHON = Path(sys.executable)

TYPESCRIPT = Path(__file__).parent / "typescript"
JAVASCRIPT = Path(__file__).parent / "clients"

ALAN = {"first_name": "Alan", "last_name": "Turing"}

MEMBERS = [{"type": "computer", "id": "1"}]
KINDS: dict[str, Any] = {
    "RemovePersonComputersByRef": {
        "op": "remove",
        "ref": {"type": "person", "id": "1", "relationship": "computers"},
        "data": MEMBERS,
    },
    "RemovePersonComputersByHref": {
        "op": "remove",
        "href": "/persons/1/relationships/computers",
        "data": MEMBERS,
    },
    "RemovePersonByRef": {"op": "remove", "ref": {"type": "person", "id": "1"}},
    "UpdateComputerOwnerByRef": {
        "op": "update",
        "ref": {"type": "computer", "id": "3", "relationship": "owner"},
        "data": {"type": "person", "lid": "ada"},
    },
    "UpdateComputerOwnerByHref": {
        "op": "update",
        "href": "/computers/3/relationships/owner",
        "data": None,
    },
    "UpdateComputer": {
        "op": "update",
        "data": {"type": "computer", "id": "1", "attributes": {"serial": "0"}},
    },
}
"""Operations of several kinds, by the names of their schemas."""


@pytest.fixture
def service(start: Start, mongodb_uri: str) -> Service:
    """A service with unique attributes, whose description differs only in texts and examples."""
    return start("--unique", "computer.serial", "--unique", "person.email", mongodb_uri=mongodb_uri)


def command_of(page_command: str, service: Service) -> list[str]:
    """Return the arguments of the command that the page shows, for this service."""
    (shown,) = re.findall(rf"^{page_command} (.*)$", PAGE, re.MULTILINE)
    return shlex.split(shown.replace(ADDRESS, service.url))


def output(command: Sequence[str | Path], directory: Path, **variables: str) -> str:
    """Run a command, which must succeed; return its standard output."""
    variables = {**os.environ, **variables}
    return run(command, GENERATION_TIMEOUT, check=True, cwd=directory, env=variables).stdout


def check_program(language: str, program: Path, place: Path, service: Service) -> None:
    """Run the source that the page shows in this language, and compare its output.

    program: the interpreter. place: where to write the source.
    """
    ((source, shown),) = re.findall(rf"```{language}\n(.*?)```.*?```\n(.*?)```", PAGE, re.DOTALL)
    place.write_text(source.replace(ADDRESS, service.url))
    assert output([program, place], place.parent) == shown


def described_operations(service: Service) -> set[str]:
    paths = service.request("/api/swagger/openapi.json")["paths"]
    return {operation["operationId"] for item in paths.values() for operation in item.values()}


def test_openapi_generator_generates_a_working_client(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = PYTHON.with_name("openapi-generator-cli")
    options = ("--global-property", "apis,models,supportingFiles,apiTests=false,modelTests=false")
    # Without its optimizing compiler, Java takes half of the CPU time.
    java = "-XX:TieredStopAtLevel=1"
    arguments = command_of("openapi-generator-cli", service)
    output([generator, *arguments, *options], tmp_path, JAVA_OPTS=java)
    monkeypatch.syspath_prepend(tmp_path / "client")
    fleet = import_module("fleet")
    apis = [getattr(fleet, name) for name in dir(fleet) if name.endswith("Api")]
    for name in described_operations(service):
        assert any(hasattr(api, name) for api in apis), name
    check_kinds_of_operations(fleet)
    service.request("/persons", {"data": {"type": "person", "attributes": ALAN}})
    check_program("python", PYTHON, tmp_path / "client" / "program.py", service)


def check_kinds_of_operations(fleet: ModuleType) -> None:
    """Each operation is read as what it is, though all of its members but one suit another."""
    for name, members in KINDS.items():
        document = {"atomic:operations": [members]}
        loaded = fleet.Operations.from_dict(document)
        (operation,) = loaded.atomic_operations
        assert type(operation.actual_instance).__name__ == name
        assert loaded.to_dict() == document, name


def test_openapi_typescript_generates_working_types(service: Service, tmp_path: Path) -> None:
    packages = node_packages(TYPESCRIPT) / "node_modules"
    (tmp_path / "node_modules").symlink_to(packages)
    for name in ("package.json", "tsconfig.json", "scenario.ts"):
        (tmp_path / name).write_text((TYPESCRIPT / name).read_text())
    generator = packages / "openapi-typescript" / "bin" / "cli.js"
    output([NODE, generator, *command_of("npx openapi-typescript", service)], tmp_path)
    types = (tmp_path / "schema.ts").read_text()
    assert described_operations(service) <= set(re.findall(r"^    (\w+): \{$", types, re.MULTILINE))
    output([NODE, "scenario.ts", service.url], tmp_path)
    check_program("typescript", NODE, tmp_path / "client.ts", service)
    compiler = packages / "typescript" / "bin" / "tsc"
    output([NODE, compiler, *command_of("npx tsc", service)], tmp_path)
    output([NODE, compiler, "-p", "."], tmp_path)


@pytest.mark.parametrize("script", ["devour.js", "kitsu.js"])
def test_a_javascript_client_runs_the_scenario(service: Service, script: str) -> None:
    """devour-client resolves relationships by declared models, kitsu by the document alone."""
    directory = node_packages(JAVASCRIPT)
    output([NODE, directory / script, service.url], directory)
    assert service.names() == ["Ada"]
    (computer,) = service.request("/computers?include=owner")["data"]
    assert computer["attributes"] == {"serial": "SN-3"}
    assert computer["relationships"]["owner"]["data"] is None
