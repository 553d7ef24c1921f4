"""The page for everybody: its types, accessibility, sizes of windows and text, and its requests."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import FilePayload, Page, Request, Response, expect

import registry.web
from tests.programs import NODE, node_packages, run
from tests.support import MEDIA_TYPE
from tests.web.conftest import Registry, Visit
from tests.web.support import button, edit, field, heading, rows

pytestmark = pytest.mark.slow

CHECKS = Path(__file__).parent / "page-checks"

FLEET = Path(__file__).parents[2] / "docs" / "fleet.toml"

LONG_NAME = {"first_name": "Bartholomäus", "last_name": "Feuerbachstein"}
"""A name of 27 letters."""

PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
}

A4_WIDTH = 718
"""Pixels between the margins that Chromium prints."""


@pytest.fixture(scope="module")
def checks() -> Path:
    """The directory with the compiler, and with axe."""
    return node_packages(CHECKS)


@pytest.fixture(scope="module")
def card(registry: Registry) -> str:
    """The address of a card with everything that one can have."""
    person = registry.add("person", first_name="Radia", last_name="Perlman", email="r@example.com")
    attributes = {"model": "T14", "bought": "2026-02-28", "price": "9.90", "leased": True}
    for number in range(12):
        registry.add("computer", serial=f"CARD-{number}", owner=person, **attributes)
    registry.add("phone", number="+49 30 1", owner=person)
    return f"#/persons/{person}"


def test_the_types_of_the_scripts_are_right(checks: Path, tmp_path: Path) -> None:
    shutil.copytree(Path(registry.web.__file__).parent / "page", tmp_path / "page")
    shutil.copy(CHECKS / "tsconfig.json", tmp_path)
    compiler = checks / "node_modules" / "typescript" / "bin" / "tsc"
    assert run([NODE, compiler, "-p", tmp_path]).stdout == ""


def table(page: Page) -> None:
    page.goto(re.sub("#.*", "#/computers?filter[serial][prefix]=CARD&sort=-serial", page.url))
    expect(rows(page, "Computers")).to_have_count(12)


def empty(page: Page) -> None:
    page.goto(re.sub("#.*", "#/computers?filter[serial][eq]=none", page.url))
    expect(page.get_by_text("Nothing matches")).to_be_visible()


def missing(page: Page) -> None:
    page.goto(re.sub("#.*", "#/nothing", page.url))
    expect(page.get_by_role("alert").first).to_contain_text("nothing here")


def edited(page: Page) -> None:
    button(page, "Edit").click()
    field(page, "First name").fill("")
    button(page, "Save").click()
    expect(field(page, "First name")).to_have_accessible_description("Please fill out this field.")


def found(page: Page) -> None:
    page.get_by_role("combobox", name="Find").fill("card")
    expect(page.get_by_role("option")).to_have_count(7)
    expect(page.get_by_role("option").last).to_contain_text("All 12 computers")
    page.keyboard.press("ArrowDown")


def assigned(page: Page) -> None:
    button(page, "Assign: Computers").click()
    page.keyboard.type("card")
    expect(page.get_by_role("option")).to_have_count(7)


def new(page: Page) -> None:
    table(page)
    button(page, "New computer").click()


def filtered(page: Page) -> None:
    table(page)
    button(page, "Filter").click()


def imported(page: Page) -> None:
    table(page)
    button(page, "Import CSV").click()
    content = b"serial,price\nCARD-1,x\nA,1\n"
    file: FilePayload = {"name": "a.csv", "mimeType": "text/csv", "buffer": content}
    page.get_by_label("CSV file").set_input_files(file)
    button(page, "Check").click()
    expect(page.get_by_text("1 row can be imported.")).to_be_visible()


def deleted(page: Page) -> None:
    button(page, "Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("12 computers")


def selected(page: Page) -> None:
    table(page)
    page.get_by_role("checkbox", name="Select all").check()
    expect(page.get_by_text("12 selected")).to_be_visible()


def conflicting(page: Page) -> None:
    edit(page, "Email", "mine@example.com")
    id_ = page.url.rpartition("/")[2]
    data = {"type": "person", "id": id_, "attributes": {"email": "theirs@example.com"}}
    url = re.sub("/#.*", f"/persons/{id_}", page.url)
    page.request.patch(url, data=json.dumps({"data": data}), headers={"Content-Type": MEDIA_TYPE})
    expect(page.get_by_text("Somebody else has changed this meanwhile.")).to_be_visible()
    button(page, "Save").click()
    expect(page.get_by_role("radio", name="Theirs: theirs@example.com")).to_be_visible()
    choices = page.get_by_role("dialog").locator(".scrolls")
    assert choices.evaluate("choices => choices.scrollWidth <= choices.clientWidth")


def struck(page: Page) -> None:
    """A row that somebody else has deleted."""
    url = re.sub("/#.*", "", page.url)
    body = json.dumps({"data": {"type": "computer", "attributes": {"serial": "STRUCK"}}})
    headers = {"Content-Type": MEDIA_TYPE}
    id_ = page.request.post(f"{url}/computers", data=body, headers=headers).json()["data"]["id"]
    page.goto(f"{url}/#/computers?filter[id]={id_}")
    expect(page.get_by_role("link", name="STRUCK")).to_be_visible()
    page.request.delete(f"{url}/computers/{id_}")
    expect(rows(page, "Computers")).to_have_attribute("title", "Deleted meanwhile")


def offline(page: Page) -> None:
    page.context.set_offline(True)
    page.get_by_role("link", name="Computers").first.click()
    expect(page.get_by_role("main")).to_contain_text("cannot be reached")


def plain(_: Page) -> None:
    """The card itself."""


VIEWS = [
    table,
    empty,
    missing,
    plain,
    edited,
    found,
    assigned,
    new,
    filtered,
    imported,
    deleted,
    selected,
    conflicting,
    struck,
    offline,
]


WINDOWS: list[tuple[Literal["light", "dark"], int]] = [
    ("light", 1280),
    ("dark", 1280),
    ("light", 390),
]
"""The schemes of colours and widths in which axe checks each view."""


def show(view: Callable[[Page], None], page: Page) -> Page:
    """Open a view from the card."""
    expect(heading(page)).to_have_text("Radia Perlman")
    view(page)
    return page


def check(page: Page, checks: Path) -> None:
    """Fail if axe finds something on the page, or if it is too wide at some size."""
    page.evaluate((checks / "node_modules" / "axe-core" / "axe.min.js").read_text())
    for scheme, width in WINDOWS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 844})
        result = page.evaluate("axe.run({resultTypes: ['violations']})")
        problems = [
            (violation["id"], node["html"][:200], node["failureSummary"])
            for violation in result["violations"]
            for node in violation["nodes"]
        ]
        assert problems == [], (scheme, width)
    for width, size in ((360, 100), (360, 200), (800, 200), (1280, 100), (2560, 100)):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(f"document.documentElement.style.fontSize = '{size}%'")
        wide = page.evaluate(
            """() => [...document.querySelectorAll("dialog, body, main, main button")]
                .filter((element) => !element.closest(".table, .scrolls"))
                .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
                .map((element) => element.outerHTML.slice(0, 100))"""
        )
        assert wide == [], (width, size)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (width, size)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_accessible_and_never_wider_than_the_window(
    view: Callable[[Page], None], checks: Path, card: str, visit: Visit
) -> None:
    check(show(view, visit(card, reduced_motion="reduce")), checks)


def test_the_question_for_a_token_is_accessible(
    checks: Path, secured: Registry, visit: Visit
) -> None:
    page = visit(url=secured.url, reduced_motion="reduce")
    expect(page.get_by_role("dialog").get_by_role("button")).to_have_text(["Continue"])
    check(page, checks)


def test_the_first_table_takes_few_small_requests(
    card: str, registry: Registry, visit: Visit
) -> None:
    """At any size of the collection: each reads at most a page."""
    responses: list[Response] = []
    page = visit(card)
    page.goto(f"{registry.url}/#/computers")
    count = page.get_by_text(re.compile(r"^[0-9,]+ computers$"))
    expect(count).to_be_visible()  # the last response of this load
    page.on("response", lambda response: responses.append(response))  # noqa: PLW0108 - gets an attribute
    page.reload()
    expect(count).to_be_visible()
    read = [response.url.removeprefix(registry.url) for response in responses]
    (listed, counted) = [path for path in read if path.startswith("/computers")]
    assert "page%5Bsize%5D=50" in listed
    assert "page%5Bsize%5D=1&" in f"{counted}&"
    assert {path.split("?")[0] for path in read if not path.startswith("/api/page/")} <= {
        "/",
        "/computers",
        "/changes",
    }
    # What was shown before is only confirmed.
    assert {response.status for response in responses if "/api/" in response.url} <= {200, 304}


def test_a_phone_shows_many_rows_at_once(card: str, registry: Registry, visit: Visit) -> None:
    page = visit(card, **PHONE)
    page.goto(f"{registry.url}/#/computers?filter[serial][prefix]=CARD")
    listed = rows(page, "Computers")
    expect(listed).to_have_count(12)
    expect(page.get_by_role("combobox", name="Sort by")).to_be_visible()
    boxes = [row.bounding_box() for row in listed.all()]
    tops, heights = zip(*[(box["y"], box["height"]) for box in boxes if box], strict=True)
    assert (len(tops), tops[0] < 330, max(heights) <= 96) == (12, True, True), (tops, heights)


def test_the_first_table_needs_few_bytes(begin: Callable[..., Registry], visit: Visit) -> None:
    """With the types of a real fleet, and a page of computers with their owners."""
    fleet = begin(REGISTRY_TYPES=str(FLEET))
    for number in range(60):
        owner = fleet.add("person", first_name="Grace", last_name=f"Hopper {number}")
        fleet.add("computer", serial=f"SN-{number:04}", model="ThinkPad T14", owner=owner)
    sizes: list[int] = []

    def measure(request: Request) -> None:
        sizes.append(request.sizes()["responseBodySize"])

    page = visit("api/page/icon.svg", url=fleet.url)
    page.on("requestfinished", measure)
    page.goto(f"{fleet.url}/#/computers")
    expect(rows(page, "Computers")).to_have_count(50)
    assert len(sizes) > 15
    assert sum(sizes) <= 52_000


def test_the_input_of_a_dialog_stays_where_it_is_while_results_come(
    card: str, visit: Visit
) -> None:
    page = visit(card, **PHONE)
    button(page, "Assign: Computers").click()
    box = page.get_by_role("combobox", name="Computer")
    before = box.bounding_box()
    box.fill("card")
    expect(page.get_by_role("option", name="New computer")).to_be_visible()
    assert box.bounding_box() == before


def test_all_that_can_be_chosen_lies_in_the_window_of_a_phone(
    registry: Registry, visit: Visit
) -> None:
    for number in range(7):
        registry.add("person", first_name="Option", last_name=f"Number {number}")
    page = visit("#/computers", **PHONE)
    button(page, "New computer").click()
    page.get_by_role("combobox", name="Owner").fill("option")
    options = page.get_by_role("listbox").get_by_role("option")
    expect(options).to_have_count(6)
    for option in options.all():
        expect(option).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(("media", "width"), [("screen", 853), ("print", A4_WIDTH)])
def test_a_long_name_is_not_cut_off(
    media: Literal["screen", "print"], width: int, registry: Registry, visit: Visit
) -> None:
    serial = f"LONG-{media}"
    owner = registry.add("person", **LONG_NAME)
    attributes = {"status": "repair", "bought": "2026-02-28", "price": "1234.50", "leased": True}
    registry.add("computer", serial=serial, model="ThinkPad T14", owner=owner, **attributes)
    page = visit(f"#/computers?filter[serial]={serial}", viewport={"width": width, "height": 900})
    name = page.get_by_role("link", name=" ".join(LONG_NAME.values()))
    expect(name).to_be_visible()
    page.emulate_media(media=media)
    cut = """link => {
        const [cell, table] = [link.closest("td"), link.closest(".table")]
        const { right } = link.getBoundingClientRect()
        return cell.scrollWidth > cell.clientWidth || right > table.getBoundingClientRect().right
    }"""
    assert not name.evaluate(cut)
    if media == "print":
        expect(page.get_by_role("button")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_print_has_all_columns_beside_a_word_of_255_letters(
    registry: Registry, visit: Visit
) -> None:
    registry.add("computer", serial="W" * 255, model="W" * 255, status="retired", leased=True)
    page = visit(
        "#/computers?filter[status][eq]=retired", viewport={"width": A4_WIDTH, "height": 900}
    )
    expect(rows(page, "Computers")).to_have_count(1)
    page.emulate_media(media="print")
    last = page.get_by_role("columnheader").last.bounding_box()
    assert last
    assert last["x"] + last["width"] <= A4_WIDTH


def test_a_phone_reaches_the_buttons_of_rows_with_many_values(
    registry: Registry, visit: Visit
) -> None:
    person = registry.add("person", first_name="Many", last_name="Values")
    values: dict[str, Any] = {"model": "ThinkPad T14 Gen 5", "status": "repair", "cores": 8}
    values |= {"bought": "2026-02-28", "price": "1234.50", "leased": True}
    values["checked"] = "2026-07-01T12:30:15Z"
    registry.add("computer", serial="MANY-VALUES", owner=person, **values)
    page = visit(f"#/persons/{person}", **PHONE)
    control = button(page, "Unassign MANY-VALUES")
    row = page.locator("tr").filter(has=control)
    inner, outer = control.bounding_box(), row.bounding_box()
    assert inner
    assert outer
    assert inner["y"] + inner["height"] <= outer["y"] + outer["height"] <= outer["y"] + 96
    control.click()
    expect(page.get_by_text("MANY-VALUES is no longer assigned.")).to_be_visible()


def test_forced_colours_show_the_filter_buttons(card: str, visit: Visit) -> None:
    page = show(table, visit(card, forced_colors="active"))
    funnel = button(page, "Filter by serial")
    colours = """control => {
        const mark = getComputedStyle(control, "::before")
        return [mark.backgroundColor, getComputedStyle(control).color, mark.inlineSize]
    }"""
    mark, text, size = funnel.evaluate(colours)
    assert (mark, size) == (text, "10px")
    assert mark != page.evaluate("getComputedStyle(document.body).backgroundColor")


CONTRAST = """input => {
    const luminance = (colour) => {
        const [red, green, blue] = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
            .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
    const text = luminance(getComputedStyle(input, "::placeholder").color)
    const paper = luminance(getComputedStyle(input).backgroundColor)
    const [dark, light] = [text, paper].sort((one, other) => one - other)
    return (light + 0.05) / (dark + 0.05)
}"""
"""The contrast of a placeholder (WCAG 2.2, relative luminance)."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_placeholders_can_be_read(
    scheme: Literal["light", "dark"], card: str, visit: Visit
) -> None:
    page = visit(card, color_scheme=scheme)
    button(page, "Assign: Computers").click()
    boxes = page.locator("input[placeholder]")
    expect(boxes).to_have_count(2)
    for box in boxes.all():
        expect(box).to_have_css("opacity", "1")
        assert box.evaluate(CONTRAST) >= 4.5
