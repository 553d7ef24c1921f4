"""The README is correct: its commands print the output shown, and its declarations work."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from registry.model.graph import Graph, InvalidDeclaration
from registry.model.resource import Resource
from registry.resources import RESOURCES
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import Api, take_authorship

ROOT = Path(__file__).parents[2]

README = (ROOT / "README.md").read_text(encoding="utf-8")

ADDRESS = "127.0.0.1:8080"

DIGESTS = re.compile("-[0-9a-f]{24}-[0-9a-f]{16}")
"""What follows the version in an entity tag: it depends on the time of the last change."""


async def output(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await asyncio.wait_for(process.communicate(), timeout=30)
    assert process.returncode == 0
    return printed.decode()


def comparable(text: str) -> Any:
    """Return a document without the ids of requests and the authorship of resources.

    Of an entity tag, the version is returned; other text that is not JSON as it is.
    """
    text = DIGESTS.sub("", text)
    try:
        document = json.loads(text)
    except ValueError:
        return text.strip()
    if isinstance(document, dict):
        for error in document.get("errors", []):
            error["id"] = "..."
        take_authorship(document)
    return document


@pytest.mark.skipif(
    not (shutil.which("curl") or "CI" in os.environ), reason="NO CURL: the tour is not tested"
)
async def test_the_commands_of_the_tour_print_the_output_shown(api: Api) -> None:
    steps = re.findall(r"```console\n\$ (curl .*\n(?: .*\n)*)((?:.*\n)+?)```", README)
    assert len(steps) >= 10
    address = f"127.0.0.1:{api.client.port}"
    for command, shown in steps:
        printed = await output("bash", "-c", command.replace(ADDRESS, address))
        assert comparable(printed) == comparable(shown.replace(ADDRESS, address)), command
    (program,) = re.findall(r"```python\n(import asyncio\n.*?)```", README, re.DOTALL)
    (shown,) = re.findall(r"It prints `(.*)`", README)
    printed = await output(sys.executable, "-c", program.replace(ADDRESS, address))
    assert printed.strip() == shown


@pytest.mark.skipif(
    not (shutil.which("curl") or "CI" in os.environ), reason="NO CURL: the example is not tested"
)
async def test_a_repeated_command_of_the_page_on_idempotency_prints_the_same(api: Api) -> None:
    page = (ROOT / "docs" / "idempotency.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"```console\n\$ (curl .*\n(?: .*\n)*)```", page)
    command = command.replace(ADDRESS, f"127.0.0.1:{api.client.port}")
    first, second = [await output("bash", "-c", command) for _ in range(2)]
    assert json.loads(first)["data"]["id"] == "1"
    assert second == first.replace("\n", "true\n")


def declared_phone(target: str = "person") -> Resource:
    """Return the type that the README declares, with a link to the target."""
    (source,) = re.findall(r"```python\n(from marshmallow .*?)```", README, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(source.replace('"person"', f'"{target}"'), namespace)  # noqa: S102 - from the README
    resource: Resource = namespace["phone"]
    return resource


async def test_the_declared_type_has_the_described_defaults(serve: Serve) -> None:
    api = await serve((*RESOURCES, declared_phone()))
    attributes = {"number": "1", "roaming": None}
    response = await api.post("/phones", {"type": "phone", "attributes": attributes})
    unsent = {"contract": "prepaid", "price": None, "activated": None}
    assert response.status == 201
    assert response.data["attributes"] == {**attributes, **unsent}


def test_the_invalid_declaration_raises_the_error_shown() -> None:
    (shown,) = re.findall(
        r"^registry\.model\.graph\.InvalidDeclaration: (.*)$", README, re.MULTILINE
    )
    with pytest.raises(InvalidDeclaration) as raised:
        Graph((*RESOURCES, declared_phone("people")))
    assert str(raised.value) == shown


async def test_the_table_of_settings_is_complete() -> None:
    help_text = " ".join((await output(sys.executable, "-m", "registry", "--help")).split())
    variables = re.findall(r"\[(\w+), default", help_text)
    assert variables == re.findall(r"^\| `--[\w-]+` \| `(\w+)`", README, re.MULTILINE)
    assert len(variables) == len(Settings.__dataclass_fields__)


def test_the_files_named_in_the_readme_exist() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", README)
    modules = re.findall(r"`(\w+/[\w/]+\.py)`", README)
    paths = {*links, *(f"registry/{module}" for module in modules)}
    assert len(paths) > 30  # the table of files is not empty
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
