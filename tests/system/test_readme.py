"""The README and the pages in docs/ are correct: commands, declarations, tables and links."""

import asyncio
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from benchmark.report import MISSED, replace_summary
from benchmark.workloads import CREATE, READ
from registry.resources.types_file import read_types
from registry.settings import Settings, flag
from tests.conftest import Serve
from tests.programs import required_program
from tests.support import Api, Database, complete_record, set_counters
from tests.system.service import TIMEOUT

ROOT = Path(__file__).parents[2]

PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (*ROOT.glob("*.md"), ROOT / "tests/README.md", *sorted(ROOT.glob("docs/*.md")))
}
"""The text of each page, by its path."""

ARCHITECTURE = PAGES["docs/architecture.md"]
SETTINGS = PAGES["docs/settings.md"]

GUARANTEES = "docs/guarantees.md"

ADDRESS = "127.0.0.1:8080"


async def output(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await asyncio.wait_for(process.communicate(), timeout=TIMEOUT)
    assert process.returncode == 0
    return printed.decode()


def parsed(text: str) -> Any:
    """Return JSON in the order of its members, and the words of other text."""
    try:
        return json.loads(text, object_pairs_hook=list)
    except ValueError:
        return text.removeprefix("\ufeff").split()


COMMAND = re.compile(r"```sh\n(curl .*\n(?: .*\n)*)```\n\n```(?:json|csv)?\n((?:.*\n)*?)```")
"""A command, and the response in the block after it."""


FOLLOW = """follow() {
    for seconds in 2 20 60; do
        events=$(curl -sNg -m $seconds "$@")
        [[ $events != *data:* ]] || break
    done
    echo "$events"
}
"""
"""Follows the change feed for two seconds, or for longer on a machine too busy for that."""
QUIET = '\n\nevent: position\nid: \ndata: {"position":""}'
"""What a quiet feed adds every 15 seconds, without what varies."""


async def check_commands(page: str, address: str) -> int:
    """Run each curl command of the page that has a response; return their number.

    An error that the page shows has the id that the request sends.
    """
    required_program("curl")
    steps = COMMAND.findall(PAGES[page])
    for command, shown in steps:
        ids = re.findall('"id": "([0-9a-f]{32})"', shown)
        sent = f"curl -H 'X-Request-ID: {ids[0]}' " if ids else "curl "
        request = command.replace("curl ", sent, 1).replace(ADDRESS, address)
        printed = await output("bash", "-c", request)
        assert parsed(printed) == parsed(shown.replace(ADDRESS, address)), command
    return len(steps)


def test_no_command_has_a_prompt() -> None:
    for page, text in PAGES.items():
        blocks = re.findall(r"```(?:sh|console)\n(.*?)```", text, re.DOTALL)
        assert not [block for block in blocks if block.startswith("$ ")], page


async def test_both_tours_run_in_order_on_one_registry(serve: Serve, settings: Settings) -> None:
    api = await serve(settings=replace(settings, revisions=365), on_runner=False)
    address = f"127.0.0.1:{api.client.port}"
    assert await check_commands("README.md", address) >= 5
    (program,) = re.findall(r"```python\n(.*?)```", PAGES["README.md"], re.DOTALL)
    printed = await output(sys.executable, "-c", program.replace(ADDRESS, address))
    assert printed == "SN-0001\n"
    assert await check_commands("docs/tour.md", address) >= 20
    ((commands, shown),) = re.findall(
        r"```sh\n(position=.*?)```\n\n```text\n(.*?)```", PAGES["docs/tour.md"], re.DOTALL
    )
    follow = commands.replace(ADDRESS, address).replace("curl -sNg -m 2", "follow")
    printed = await output("bash", "-c", FOLLOW + follow)
    varying = re.compile(
        r"(?m)(?<=^id: ).*$|(?<=updated_at\":\").*?(?=\")|(?<=position\":\").*?(?=\")"
    )
    printed, shown = (varying.sub("", events).strip() for events in (printed, shown))
    assert printed.removesuffix(QUIET).strip() == shown


async def test_commands_of_the_page_on_guarantees_print_what_it_shows(
    serve: Serve, settings: Settings, database: Database
) -> None:
    api = await serve(settings=replace(settings, unique=("computer.serial",)))
    assert await api.computer("SN-0001") == "1"
    (shown,) = re.findall(r'\n    "attributes": ({.*?})', PAGES[GUARANTEES], re.DOTALL)
    attributes = {"first_name": "Grace", "last_name": "Hopper", "email": None, **json.loads(shown)}
    await database.persons.insert_one(complete_record({"_id": 1, **attributes}))
    await set_counters(database)
    address = f"127.0.0.1:{api.client.port}"
    assert await check_commands(GUARANTEES, address) == 3
    (command,) = re.findall(r"```sh\n(curl [^`]*Idempotency-Key[^`]*)```", PAGES[GUARANTEES])
    first, second = [
        await output("bash", "-c", command.replace(ADDRESS, address)) for _ in range(2)
    ]
    assert json.loads(first)["data"]["type"] == "person"
    assert second == first.replace("\n", "true\n")


async def test_the_page_on_observability_shows_responses(api: Api) -> None:
    address = f"127.0.0.1:{api.client.port}"
    assert await check_commands("docs/observability.md", address) == 2


RESULTS = (ROOT / "scripts/benchmark/results.md").read_text(encoding="utf-8")


def test_the_published_run_reached_its_goals_and_is_shown_on_the_page_on_performance() -> None:
    assert MISSED not in RESULTS
    page = PAGES["docs/performance.md"]
    assert replace_summary(page, RESULTS) == page


def test_the_figures_of_the_readme_are_those_of_the_published_run() -> None:
    row = re.compile(r"^\| (.*?) \|.*\| (\S+) \| (\S+) \| \S+ \|$", re.MULTILINE)
    rows = row.findall(PAGES["docs/performance.md"])
    ratios = {title: (service, production) for title, service, production in rows}
    shown = re.findall(r"(\d+\.\d) times", PAGES["README.md"])
    assert shown == [ratios[READ][0], *ratios[CREATE]]


def test_the_page_on_types_shows_its_file_and_the_error_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, fleet = PAGES["docs/types.md"], (ROOT / "docs/fleet.toml").read_text()
    assert f"```toml\n{fleet}```" in page
    monkeypatch.chdir(tmp_path)
    Path("fleet.toml").write_text(re.sub("status.*", 'status = "enumeration"', fleet))
    with pytest.raises(ValueError, match=r"status\.type") as raised:
        read_types("fleet.toml")
    assert f"registry: --types: {raised.value}\n" in page


def test_the_table_of_limits_names_settings_that_exist() -> None:
    limits = SETTINGS.partition("## Limits\n")[2]
    flags = set(re.findall(r"`(--[\w-]+)`", limits))
    assert {"--capacity", "--query-seconds"} <= flags
    assert flags <= {flag(name) for name in Settings.__dataclass_fields__}


def test_the_table_of_packages_lists_the_layers_in_their_order() -> None:
    packages = re.findall(r"^\| \[registry/(\S+)\]", ARCHITECTURE, re.MULTILINE)
    layers = [name.replace("\\", "").removesuffix("/").removesuffix(".py") for name in packages]
    contract, *_ = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    assert layers == contract["layers"][::-1]


def test_the_modules_named_in_the_documentation_exist() -> None:
    modules = {m for text in PAGES.values() for m in re.findall(r"`(\w+/[\w/]+\.py)`", text)}
    assert len(modules) > 15  # the lists of files are not empty
    places = (ROOT, ROOT / "registry", ROOT / "registry/storage", ROOT / "tests")
    assert [m for m in sorted(modules) if not any((place / m).exists() for place in places)] == []


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
    assert len(links) > 80
    assert [(page, target) for page, target in links if is_broken(target, page)] == []


def test_the_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 230


def test_each_page_is_linked_in_the_readme() -> None:
    links = {token.attrGet("href") for token in inline_tokens(PAGES["README.md"])}
    assert PAGES.keys() - {"README.md", "tests/README.md"} <= links
