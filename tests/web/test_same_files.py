"""The import of the page stores and reports of a file what the command does."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.commands.same_files import FILES, Case
from tests.programs import run
from tests.system.service import COMMAND, environment
from tests.web.conftest import Registry, Visit
from tests.web.support import button

pytestmark = pytest.mark.slow

NAMES = [
    "semicolons",
    "byte order mark",
    "quoted line breaks",
    "windows-1252",
    "unknown column",
    "header only",
    "cells",
]


@pytest.fixture(scope="module")
def fleet(begin: Callable[..., Registry]) -> Registry:
    """A service with nothing but what a test imports."""
    return begin()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_stores_and_reports_what_the_command_does(
    name: str, fleet: Registry, visit: Visit, tmp_path: Path
) -> None:
    case, path = FILES[name], tmp_path / "fleet.csv"
    path.write_bytes(case.content)
    # The page leaves out a column that it does not know; the command only one that is named.
    left_out = ["--map", "colour="] if name == "unknown column" else []
    options = ["--type", "computer", "--key", case.key, "--encoding", case.charset, *left_out]
    command = [*COMMAND, "import", "--url", fleet.url, *options, path]
    lines = [int(line) for line in re.findall(r"(?m)^line (\d+)", run_command(command))]
    stored = take(fleet)
    assert by_page(visit("#/computers", url=fleet.url), case, path) == lines
    assert take(fleet) == stored
    assert len(stored["computers"]) == (1 if left_out else len(case.serials))


def test_an_empty_table_offers_what_fills_it(fleet: Registry, visit: Visit) -> None:
    page = visit("#/persons", url=fleet.url)
    table = page.get_by_role("main")
    expect(table.get_by_text("No persons yet")).to_be_visible()
    for name in ("New person", "Import CSV"):
        expect(button(table, name)).to_have_count(1)


def run_command(command: list[Any]) -> str:
    done = run(command, env=environment())
    return done.stdout + done.stderr


def by_page(page: Page, case: Case, path: Path) -> list[int]:
    """Import on the page; return the invalid lines."""
    button(page, "Import CSV").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Encoding").select_option(case.charset)
    dialog.get_by_label("CSV file").set_input_files(path)
    expect(dialog.get_by_label("Identify existing rows by")).to_have_value(case.key)
    button(page, "Check").click()
    imports = dialog.get_by_role("button", name=re.compile(r"^Import \d"))
    refusal = dialog.get_by_role("alert")
    expect(imports.or_(refusal)).to_be_visible()
    if refusal.is_visible():
        return []
    imports.click()
    expect(dialog.get_by_text(re.compile(r"^Imported \d"))).to_be_visible()
    errors = dialog.get_by_role("table").filter(has_text="Error").locator("tbody tr")
    return [int(text.split("\t")[0]) for text in errors.all_inner_texts()]


def take(fleet: Registry) -> dict[str, list[Any]]:
    """Delete all resources; return what they were."""
    computers = fleet.read("/computers?include=owner&sort=serial")
    persons = {person["id"]: person["attributes"] for person in fleet.read("/persons")}
    owners = [computer["relationships"]["owner"]["data"] for computer in computers]
    for collection, ids in (
        ("computers", [computer["id"] for computer in computers]),
        ("persons", persons),
    ):
        for id_ in ids:
            fleet.send("DELETE", f"/{collection}/{id_}")
    return {
        "computers": [computer["attributes"] for computer in computers],
        "owners": [link and persons[link["id"]] for link in owners],
        "persons": sorted(persons.values(), key=str),
    }
