"""The README and the pages in docs/ are correct: commands, declarations, tables and links."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from registry.model.graph import Graph, InvalidDeclaration
from registry.model.resource_type import ResourceType
from registry.resources import RESOURCES
from registry.settings import Settings, flag
from tests.conftest import Serve
from tests.support import Api, Database
from tests.system.service import TIMEOUT
from tests.test_imports import LAYERS

ROOT = Path(__file__).parents[2]

PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
}
"""The text of each page, by its path."""

ARCHITECTURE = PAGES["docs/architecture.md"]
SETTINGS = PAGES["docs/settings.md"]

ADDRESS = "127.0.0.1:8080"


async def output(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await asyncio.wait_for(process.communicate(), timeout=TIMEOUT)
    assert process.returncode == 0
    return printed.decode()


def parsed(text: str) -> Any:
    """Return JSON in the order of its members, and other text as it is."""
    try:
        return json.loads(text, object_pairs_hook=list)
    except ValueError:
        return text.strip()


needs_curl = pytest.mark.skipif(
    not (shutil.which("curl") or "CI" in os.environ), reason="NO CURL: the tours are not tested"
)


async def check_commands(page: str, address: str) -> int:
    """Run each curl command that the page shows with its output; return their number.

    An error that the page shows has the id that the request sends.
    """
    steps = re.findall(r"```console\n\$ (curl .*\n(?: .*\n)*)((?:.*\n)+?)```", PAGES[page])
    for command, shown in steps:
        ids = re.findall('"id": "([0-9a-f]{32})"', shown)
        sent = f"curl -H 'X-Request-ID: {ids[0]}' " if ids else "curl "
        request = command.replace("curl ", sent, 1).replace(ADDRESS, address)
        printed = await output("bash", "-c", request)
        assert parsed(printed) == parsed(shown.replace(ADDRESS, address)), command
    return len(steps)


@needs_curl
async def test_the_commands_of_the_short_tour_print_the_output_shown(api: Api) -> None:
    assert await check_commands("README.md", f"127.0.0.1:{api.client.port}") >= 5


@needs_curl
async def test_the_commands_of_the_full_tour_print_the_output_shown(api: Api) -> None:
    address = f"127.0.0.1:{api.client.port}"
    assert await check_commands("docs/tour.md", address) >= 25
    (program,) = re.findall(r"```python\n(.*?)```", PAGES["docs/tour.md"], re.DOTALL)
    (shown,) = re.findall(r"It prints `(.*)`", PAGES["docs/tour.md"])
    printed = await output(sys.executable, "-c", program.replace(ADDRESS, address))
    assert printed.strip() == shown


@needs_curl
async def test_a_repeated_command_of_the_page_on_idempotency_prints_the_same(api: Api) -> None:
    (command,) = re.findall(
        r"```console\n\$ (curl .*\n(?: .*\n)*)```", PAGES["docs/idempotency.md"]
    )
    command = command.replace(ADDRESS, f"127.0.0.1:{api.client.port}")
    first, second = [await output("bash", "-c", command) for _ in range(2)]
    assert json.loads(first)["data"]["id"] == "1"
    assert second == first.replace("\n", "true\n")


@needs_curl
async def test_the_page_on_uniqueness_shows_the_error_for_a_conflict(
    serve: Serve, settings: Settings
) -> None:
    api = await serve(settings=replace(settings, unique=("computer.serial",)))
    assert await api.computer("SN-0001") == "1"
    assert await check_commands("docs/uniqueness.md", f"127.0.0.1:{api.client.port}") == 1


@needs_curl
async def test_the_page_on_authorship_shows_what_is_stored(api: Api, database: Database) -> None:
    (shown,) = re.findall(r'"attributes": ({.*?})', PAGES["docs/authorship.md"], re.DOTALL)
    attributes = {"first_name": "Grace", "last_name": "Hopper", "email": None, **json.loads(shown)}
    await database.persons.insert_one({"_id": 1, **attributes})
    assert await check_commands("docs/authorship.md", f"127.0.0.1:{api.client.port}") == 1


def declared_phone(target: str = "person") -> ResourceType:
    """Return the type that the page declares, with a link to the target."""
    (source,) = re.findall(r"```python\n(from marshmallow .*?)```", ARCHITECTURE, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(source.replace('"person"', f'"{target}"'), namespace)  # noqa: S102 - from the page
    resource: ResourceType = namespace["phone"]
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
        r"^registry\.model\.graph\.InvalidDeclaration: (.*)$", ARCHITECTURE, re.MULTILINE
    )
    with pytest.raises(InvalidDeclaration) as raised:
        Graph((*RESOURCES, declared_phone("people")))
    assert str(raised.value) == shown


def test_the_table_of_limits_names_settings_that_exist() -> None:
    limits = SETTINGS.partition("## Limits\n")[2]
    flags = set(re.findall(r"`(--[\w-]+)`", limits))
    assert {"--capacity", "--query-seconds"} <= flags
    assert flags <= {flag(name) for name in Settings.__dataclass_fields__}


def test_the_table_of_packages_lists_the_layers_in_their_order() -> None:
    packages = re.findall(r"^\| \[registry/(\S+)\]", ARCHITECTURE, re.MULTILINE)
    layers = [name.replace("\\", "").removesuffix("/").removesuffix(".py") for name in packages]
    assert layers == LAYERS


def test_the_modules_named_in_the_documentation_exist() -> None:
    modules = {m for text in PAGES.values() for m in re.findall(r"`(\w+/[\w/]+\.py)`", text)}
    assert len(modules) > 30  # the tables of files are not empty
    assert [m for m in sorted(modules) if not (ROOT / "registry" / m).exists()] == []


def inline_tokens(text: str) -> Iterator[Token]:
    """Yield each link, image and text of a page, outside code blocks."""
    for token in MarkdownIt().enable("table").parse(text):
        yield from token.children or ()


def anchors(text: str) -> set[str]:
    """Return the fragments that GitHub gives to the headings of a page."""
    tokens = MarkdownIt().parse(text)
    titles = (after.content for token, after in pairwise(tokens) if token.type == "heading_open")
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def is_broken(target: str, page: str) -> bool:
    """Whether a link of the page leads to no file, or to no heading of a page."""
    url = urlsplit(target)
    if url.scheme:
        return False
    path = (ROOT / page).parent / url.path if url.path else ROOT / page
    if not url.fragment:
        return not path.exists()
    return url.fragment not in anchors(PAGES.get(os.path.relpath(path, ROOT), ""))


def test_the_links_within_the_documentation_lead_somewhere() -> None:
    links = [
        (page, str(target))
        for page, text in PAGES.items()
        for token in inline_tokens(text)
        if (target := token.attrGet("href") or token.attrGet("src"))
    ]
    assert len(links) > 100
    assert [(page, target) for page, target in links if is_broken(target, page)] == []


def test_the_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 200


def test_each_page_is_linked_in_the_readme() -> None:
    links = {token.attrGet("href") for token in inline_tokens(PAGES["README.md"])}
    assert PAGES.keys() - {"README.md"} <= links
