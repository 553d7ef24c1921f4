"""The page for people, in a real browser: what a person does with it, by labels and roles."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.web.conftest import Registry, Visit
from tests.web.support import ADA, button, edit, field, heading, note, pause_clock, rows

pytestmark = pytest.mark.slow


def choose_file(page: Page, path: Path, content: str) -> None:
    """Begin an import of a CSV file."""
    path.write_text(content, "utf-8", errors="surrogateescape")
    button(page, "Import CSV").click()
    page.get_by_label("CSV file").set_input_files(path)


def complete_import(page: Page, count: int) -> None:
    button(page, f"Import {count} rows").click()
    expect(page.get_by_text(f"Imported {count} rows.")).to_be_visible()
    button(page.get_by_role("dialog"), "Close").click()


def test_a_computer_is_found_by_its_serial_and_assigned(registry: Registry, visit: Visit) -> None:
    computer = registry.add("computer", serial="SCAN-0001")
    registry.add("computer", serial="SCAN-00011")
    ada = registry.add("person", **ADA)
    page = visit()
    expect(page.get_by_role("table", name="Persons")).to_be_visible()
    expect(page.get_by_role("combobox", name="Find")).to_be_focused()
    page.keyboard.type("SCAN-0001")
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text("SCAN-0001")
    button(page, "Assign: Owner").click()
    page.keyboard.type("ada lov")
    expect(page.get_by_role("option", name="Ada Lovelace").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    note(page, "SCAN-0001 → Ada Lovelace")
    assert registry.read(f"/computers/{computer}/owner")["id"] == ada

    button(page, "Unassign: Owner").click()
    expect(button(page, "Assign: Owner")).to_be_visible()
    assert registry.read(f"/computers/{computer}/owner") is None
    expect(rows(page, "Assignments")).to_have_count(1)
    expect(rows(page, "Assignments")).to_contain_text("Ada Lovelace")


def test_a_new_owner_can_be_created_if_nobody_is_found(registry: Registry, visit: Visit) -> None:
    computer = registry.add("computer", serial="NEW-OWNER")
    page = visit(f"#/computers/{computer}")
    button(page, "Assign: Owner").click()
    page.keyboard.type("Katherine")
    option = page.get_by_role("option", name="New person")
    expect(option).to_be_visible()
    page.evaluate("document.activeElement.value += ' Coleman Johnson'")  # not searched yet
    option.click()
    expect(field(page, "First name")).to_have_value("Katherine")
    button(page, "Create").click()
    note(page, "NEW-OWNER → Katherine Coleman Johnson")
    owner = registry.read(f"/computers/{computer}/owner")
    assert owner["attributes"]["last_name"] == "Coleman Johnson"

    page.get_by_role("link", name="Katherine Coleman Johnson").first.click()
    expect(heading(page)).to_have_text("Katherine Coleman Johnson")
    button(page, "Unassign NEW-OWNER").click()
    note(page, "NEW-OWNER is no longer assigned.")
    button(page, "Assign: Computers").click()
    page.keyboard.type("NEW-OWNER")
    page.keyboard.press("Enter")
    note(page, "NEW-OWNER → Katherine Coleman Johnson")
    assert registry.read(f"/computers/{computer}/owner")["id"] == owner["id"]


def test_the_search_box_cancels_outdated_searches(registry: Registry, visit: Visit) -> None:
    registry.add("person", first_name="Margaret", last_name="Hamilton")
    page = visit()
    expect(page.get_by_role("table", name="Persons")).to_be_visible()
    searched: list[str] = []
    failed: list[str] = []

    def hold(route: Route) -> None:
        """Never answer the first search."""
        query = parse_qs(urlsplit(route.request.url).query)
        for text in query.get("filter", []):
            condition = json.loads(text)[0]["or"][0]
            searched.append(f"{condition['op']} {condition['val']}")
        searched.extend(query.get("filter[search]", []))
        if searched[-1] != "prefix Marg":
            route.continue_()

    page.route(re.compile(r"/persons\?.*filter(=|%5Bsearch)"), hold)
    page.on("requestfailed", lambda request: failed.append(request.url))
    pause_clock(page)
    page.keyboard.type("Marg")
    page.clock.run_for(149)
    assert searched == []
    with page.expect_request(re.compile("Marg")):
        page.clock.run_for(1)
    page.keyboard.type("aret ham")
    page.clock.run_for(150)
    expect(page.get_by_role("option", name="Margaret Hamilton")).to_be_visible()
    assert searched == ["prefix Marg", "prefix Margaret ham", "Margaret ham"]
    assert any("Marg" in url for url in failed)

    page.keyboard.press("Escape")
    expect(page.get_by_role("combobox", name="Find")).to_have_value("")
    page.keyboard.press("Escape")
    expect(page.get_by_role("combobox", name="Find")).not_to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Find")).to_be_focused()
    page.keyboard.type("no such thing")
    page.clock.run_for(150)
    expect(page.get_by_role("option", name="Nothing found")).to_be_visible()


def test_words_in_any_order_find_persons_and_their_table(registry: Registry, visit: Visit) -> None:
    for number in range(8):
        registry.add("person", first_name="Brewster", last_name=f"Murray {number}")
    page = visit()
    page.get_by_role("combobox", name="Find").fill("murray brewster")
    last = page.get_by_role("option").last
    expect(last).to_have_text("All 8 persons")
    last.click()
    expect(rows(page, "Persons")).to_have_count(8)
    expect(button(page, "Remove: contains “murray brewster”")).to_be_visible()


def test_the_address_has_the_state_of_a_table(registry: Registry, visit: Visit) -> None:
    for number in range(60):
        registry.add("computer", serial=f"PAGE-{number:02}", cores=number % 2)
    page = visit("#/computers?filter[serial][prefix]=PAGE&sort=-serial")
    listed = rows(page, "Computers")
    expect(listed).to_have_count(50)
    expect(listed.first).to_contain_text("PAGE-59")
    expect(page.get_by_text("60 computers")).to_be_visible()
    first = page.url
    page.get_by_role("link", name="Next page").click()
    expect(listed).to_have_count(10)
    expect(listed.first).to_contain_text("PAGE-09")
    page.reload()
    expect(listed.first).to_contain_text("PAGE-09")
    other = visit(page.url.removeprefix(registry.url).lstrip("/"))
    expect(rows(other, "Computers").first).to_contain_text("PAGE-09")
    page.go_back()
    expect(listed.first).to_contain_text("PAGE-59")
    assert page.url == first
    button(page, "Serial").click()
    expect(listed.first).to_contain_text("PAGE-00")
    expect(page.get_by_role("columnheader", name="Serial")).to_have_attribute(
        "aria-sort", "ascending"
    )
    button(page, "Remove: Serial begins with PAGE").click()
    expect(page.get_by_text("60 computers")).not_to_be_visible()


@pytest.mark.parametrize(
    ("choice", "address", "shown"),
    [
        (("Serial", "contains", "ter-1"), "filter[serial][contains]=ter-1", {"FILTER-1"}),
        (("Status", "is", "repair"), "filter[status][eq]=repair", {"FILTER-2"}),
        (("Bought", "is after", "2026-01-01"), "filter[bought][gt]=2026-01-01", {"FILTER-2"}),
        (("Price", "is at least", "9.50"), "filter[price][ge]=9.50", {"FILTER-1"}),
        (("Leased", "is", "Yes"), "filter[leased][eq]=true", {"FILTER-1"}),
        (("Cores", "is one of", "8, 16"), "filter[cores][in]=8,16", {"FILTER-1", "FILTER-2"}),
        (("Owner: last name", "is", "Goldberg"), "last_name][eq]=Goldberg", {"FILTER-1"}),
        (("Owner", "is empty", None), "filter[owner][null]=true", {"FILTER-2"}),
    ],
)
def test_a_table_is_filtered_by_the_operators_of_a_type(
    choice: tuple[str, str, str | None],
    address: str,
    shown: set[str],
    registry: Registry,
    visit: Visit,
) -> None:
    if not registry.read("/computers?filter[serial][prefix]=FILTER"):
        owner = registry.add("person", first_name="Adele", last_name="Goldberg")
        one: dict[str, Any] = {"price": "10.00", "leased": True, "cores": 8, "bought": "2025-12-31"}
        registry.add("computer", serial="FILTER-1", owner=owner, **one)
        two: dict[str, Any] = {"status": "repair", "leased": False, "cores": 16}
        registry.add("computer", serial="FILTER-2", bought="2026-02-28", **two)
    column, condition, value = choice
    page = visit("#/computers?filter[serial][prefix]=FILTER")
    expect(rows(page, "Computers")).to_have_count(2)
    button(page, "Filter").click()
    field(page, "Column").select_option(column)
    field(page, "Condition").select_option(condition)
    control = field(page, "Value")
    if value is None:
        expect(control).not_to_be_visible()
    elif control.evaluate("element => element.localName") == "select":
        control.select_option(value)
    else:
        control.fill(value)
    button(page, "Apply").click()
    expect(rows(page, "Computers")).to_have_count(len(shown))
    for serial in shown:
        expect(page.get_by_role("link", name=serial)).to_be_visible()
    assert address in page.url


def test_each_attribute_is_entered_and_shown_by_its_type(registry: Registry, visit: Visit) -> None:
    page = visit("#/computers")
    button(page, "New computer").click()
    field(page, "Serial").fill("KINDS")
    field(page, "Status").select_option("repair")
    field(page, "Bought").fill("2026-02-28")
    field(page, "Price").fill("1234.50")
    field(page, "Cores").fill("4096")
    field(page, "Leased").select_option("No")
    field(page, "Checked").fill("2026-07-01T12:30:15")
    owner = page.get_by_role("combobox", name="Owner")
    owner.fill("nobody")
    button(page, "Create").click()
    expect(owner).to_have_accessible_description("Choose one of the results, or leave this empty.")
    owner.press("Escape")
    button(page, "Create").click()
    note(page, "Created KINDS.")
    page.get_by_role("link", name="Open").click()
    expect(heading(page)).to_have_text("KINDS")
    facts = page.get_by_role("article")
    for text in ("repair", "28 Feb 2026", "1,234.50", "4,096", "No", "1 Jul 2026, 12:30"):
        expect(facts.get_by_text(text, exact=True)).to_be_visible()
    zone = facts.get_by_text("1 Jul 2026, 12:30").get_attribute("title")
    assert zone == "Wednesday, 1 July 2026 at 12:30:15 CEST"
    (stored,) = registry.read("/computers?filter[serial]=KINDS")
    expected = {
        "serial": "KINDS",
        "model": None,
        "status": "repair",
        "bought": "2026-02-28",
        "price": "1234.50",
        "cores": 4096,
        "leased": False,
        "checked": "2026-07-01T10:30:15.000Z",
    }
    assert stored["attributes"] == expected

    edit(page, "Model", "T14")
    field(page, "Bought").fill("")
    with page.expect_request(lambda request: request.method == "PATCH") as sent:
        button(page, "Save").click()
    changes = {"model": "T14", "bought": None}
    assert json.loads(sent.value.post_data or "")["data"]["attributes"] == changes
    assert sent.value.headers["if-match"].startswith('"')
    note(page, "Saved.")
    after = registry.read(f"/computers/{stored['id']}")["attributes"]
    assert after == expected | changes


def test_errors_appear_at_their_field(registry: Registry, visit: Visit) -> None:
    first = registry.add("person", **ADA, email="taken@example.com")
    page = visit("#/persons")
    button(page, "New person").click()
    button(page, "Create").click()
    name = field(page, "First name")
    expect(name).to_be_focused()
    expect(name).to_have_accessible_description("Please fill out this field.")
    name.fill("Grace")
    field(page, "Last name").fill("Hopper")
    email = field(page, "Email")
    email.fill("grace@localhost")
    button(page, "Create").click()
    expect(email).to_have_accessible_description(re.compile("should have a period"))
    email.fill("taken@example.com")
    button(page, "Create").click()
    expect(email).to_have_accessible_description(re.compile("Another person has this email"))
    taken = page.get_by_role("link", name="Open the one that has it")
    expect(taken).to_have_attribute("href", f"#/persons/{first}")
    expect(name).to_have_value("Grace")
    button(page, "Close").click()
    button(page, "Stay").click()
    expect(button(page, "Close")).to_be_focused()  # again, before anything else is
    email.fill("")
    button(page, "Create").click()
    note(page, "Created Grace Hopper.")


def test_several_are_created_in_a_row_by_keyboard_alone(registry: Registry, visit: Visit) -> None:
    page = visit("#/persons")
    press = page.keyboard.press
    expect(page.get_by_role("table", name="Persons")).to_be_visible()
    button(page, "New person").focus()
    press("Enter")
    for last in ("Bartik", "Holberton", "Meltzer"):
        expect(field(page, "First name")).to_be_focused()
        expect(field(page, "First name")).to_have_value("")
        page.keyboard.type("Eniac")
        press("Tab")
        page.keyboard.type(last)
        again = field(page, "Stay here to add another")
        if not again.is_checked():
            press("Tab")
            press("Tab")
            expect(again).to_be_focused()
            press("Space")
        press("Enter")
        note(page, f"Created Eniac {last}.")
    press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("link", name="Eniac Meltzer")).to_be_focused()
    found = registry.read("/persons?filter[first_name]=Eniac")
    assert [each["attributes"]["last_name"] for each in found] == ["Bartik", "Holberton", "Meltzer"]


def test_a_conflict_shows_both_and_lets_the_user_choose(registry: Registry, visit: Visit) -> None:
    id_ = registry.add("person", **ADA, email="ada@example.com")
    pages = first, second = [visit(f"#/persons/{id_}") for _ in range(2)]
    for page in pages:
        button(page, "Edit").click()
    field(first, "Email").fill("king@example.com")
    field(second, "First name").fill("Augusta")
    for page in pages:  # different attributes
        button(page, "Save").click()
        note(page, "Saved.")
    for page, last in zip(pages, ("King", "Byron"), strict=True):
        expect(heading(page)).to_have_text("Augusta Lovelace")
        edit(page, "Last name", last)
    field(first, "Email").fill("ada@king.example.com")
    button(first, "Save").click()
    expect(heading(first)).to_have_text("Augusta King")
    expect(second.get_by_text("Somebody else has changed this meanwhile.")).to_be_visible()
    button(second, "Save").click()
    dialog = second.get_by_role("dialog", name="This was changed while you were editing")
    button(dialog, "Cancel").click()
    button(second, "Save").click()
    expect(dialog.get_by_role("radio")).to_have_count(2)
    expect(dialog.get_by_role("radio", name="Yours: Byron", exact=True)).to_be_checked()
    button(dialog, "Save what I chose").click()
    for page in pages:
        expect(heading(page)).to_have_text("Augusta Byron")
    assert registry.read(f"/persons/{id_}")["attributes"]["email"] == "ada@king.example.com"


def test_a_deletion_says_what_happens_to_what_is_linked(registry: Registry, visit: Visit) -> None:
    id_ = registry.add("person", first_name="Joan", last_name="Clarke")
    for number in range(2):
        registry.add("computer", serial=f"JOAN-{number}", owner=id_)
    page = visit(f"#/persons/{id_}")
    button(page, "Delete").click()
    dialog = page.get_by_role("dialog", name="Delete Joan Clarke?")
    expect(dialog).to_contain_text("2 computers no longer have an owner.")
    expect(button(dialog, "Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(heading(page)).to_have_text("Joan Clarke")
    button(page, "Delete").click()
    button(dialog, "Delete").click()
    note(page, "Deleted Joan Clarke.")
    expect(heading(page)).to_contain_text("Persons")
    (found, _) = registry.read("/computers?filter[serial][prefix]=JOAN&include=owner")
    assert found["relationships"]["owner"]["data"] is None
    page.goto(f"{registry.url}/#/persons/{id_}")
    expect(heading(page)).to_have_text("There is nothing here")


def test_leaving_a_page_loses_nothing_that_was_typed(registry: Registry, visit: Visit) -> None:
    id_ = registry.add("person", **ADA)
    page = visit(f"#/persons/{id_}")
    edit(page, "Last name", "King")
    page.keyboard.press("Escape")
    button(page, "Stay").click()
    page.get_by_role("link", name="Computers").first.click()
    button(page, "Stay").click()
    expect(field(page, "Last name")).to_have_value("King")
    page.get_by_role("link", name="Computers").first.click()
    button(page, "Leave").click()
    expect(field(page, "Last name")).to_have_count(0)


def test_changes_by_others_appear_without_a_reload(registry: Registry, visit: Visit) -> None:
    owner = registry.add("person", first_name="Hedy", last_name="Lamarr")
    ids = [registry.add("computer", serial=f"LIVE-{letter}", owner=owner) for letter in "ABC"]
    page = visit("#/computers?filter[serial][prefix]=LIVE&sort=id")
    listed = rows(page, "Computers")
    expect(listed).to_have_count(3)
    with page.expect_request(lambda request: "/changes" in request.url):
        page.reload()
    registry.update("computer", ids[0], model="T14")
    expect(listed.nth(0)).to_contain_text("T14")
    expect(listed.nth(0)).to_have_css("animation-name", "flash")
    registry.update("person", owner, last_name="Kiesler")
    expect(listed.nth(1)).to_contain_text("Hedy Kiesler")
    registry.send("DELETE", f"/computers/{ids[2]}")
    expect(listed.nth(2)).to_have_attribute("title", "Deleted meanwhile")
    for serial in ("OTHER", "LIVE-D"):
        registry.add("computer", serial=serial)
    button(page, "1 new entry: show the newest first").click()
    expect(listed.first).to_contain_text("LIVE-D")
    expect(listed).to_have_count(3)

    page.goto(f"{registry.url}/#/computers/{ids[0]}")
    expect(rows(page, "Assignments")).to_have_count(1)
    registry.update("computer", ids[0], serial="LIVE-Z")
    expect(heading(page)).to_have_text("LIVE-Z")
    expect(page.locator(".paper")).to_have_css("animation-name", "flash")
    expect(rows(page, "Assignments").locator("td").first).to_have_css("animation-name", "none")


def test_a_table_is_downloaded_as_shown(registry: Registry, visit: Visit, tmp_path: Path) -> None:
    owner = registry.add("person", first_name="Mary", last_name="Jackson")
    for number in range(60):
        registry.add("computer", serial=f"CSV-{number:02}", owner=owner)
    registry.add("computer", serial="=CSV(1)")
    page = visit("#/computers?filter[serial][contains]=CSV&sort=-serial")
    with page.expect_download() as download:
        button(page, "Download CSV").click()
    assert download.value.suggested_filename == "computers.csv"
    download.value.save_as(tmp_path / "computers.csv")
    header, *others, last = (tmp_path / "computers.csv").read_text("utf-8-sig").splitlines()
    assert header.startswith("serial,")
    assert header.endswith(",owner.full_name")
    assert last.startswith("'=CSV(1),")
    assert (len(others), others[0][:7]) == (60, "CSV-59,")
    assert others[0].endswith(",Mary Jackson")


FLEET = """\ufeffSerial;Model;status;bought;owner.email;owner.first_name;owner.last_name
IMPORT-1;"T14; \"\"new\"\"";ready;2026-01-02;dorothy@example.com;Dorothy;Vaughan
IMPORT-2;'=1+1;broken;02.01.2026;dorothy@example.com;Dorothy;Vaughan
IMPORT-1;;;;;;

"IMPORT-4";"two
lines";repair;;dorothy@example.com;Dorothy;Vaughan
IMPORT-5
IMPORT-9;;;;DOROTHY@example.com;Dorothea;Vaughan
"""


def test_a_csv_file_is_checked_and_imported(
    registry: Registry, visit: Visit, tmp_path: Path
) -> None:
    before = len(registry.read("/persons"))
    page = visit("#/computers")
    for _ in range(2):
        choose_file(page, tmp_path / "fleet.csv", FLEET)
        expect(page.get_by_label("Identify existing rows by")).to_have_value("serial")
        button(page, "Check").click()
        expect(page.get_by_text("2 rows can be imported.")).to_be_visible()
        errors = page.get_by_role("table").filter(has_text="Error").get_by_role("row")
        found = [" ".join(text.split("\t")[:2]) for text in errors.all_inner_texts()[1:]]
        assert found == ["3 status", "4 Serial", "8 ", "9 owner.first_name"]
        expect(page.get_by_role("status").filter(has_text="4 rows cannot")).to_be_in_viewport()
        assert registry.read("/computers?filter[serial][prefix]=IMPORT") == [] or _
        complete_import(page, 2)
    stored = registry.read("/computers?filter[serial][prefix]=IMPORT&include=owner&sort=serial")
    models = [each["attributes"]["model"] for each in stored]
    assert models == ['T14; "new"', "two\nlines"]
    assert len({each["relationships"]["owner"]["data"]["id"] for each in stored}) == 1
    assert len(registry.read("/persons")) == before + 1


def test_an_import_without_unique_attributes_stores_nothing_twice(
    registry: Registry, visit: Visit, tmp_path: Path
) -> None:
    lines = [f"+49 {number:03},Import,Phone-{number % 7}" for number in range(250)]
    header = "Phone number,owner.first_name,owner.last_name,Notes"
    text = "\n".join([header, *(f"{each},x" for each in lines)])
    page = visit("#/phones")
    for _ in range(2):
        choose_file(page, tmp_path / "phones.csv", text)
        expect(page.get_by_label("Phone number", exact=True)).to_have_value("number")
        expect(page.get_by_label("Notes", exact=True)).to_have_value("")
        expect(page.get_by_text("Left out: Notes")).to_be_visible()
        button(page, "Check").click()
        complete_import(page, 250)
    assert len(registry.read("/phones")) == 250


def test_the_columns_of_a_file_are_divided_as_it_says(visit: Visit, tmp_path: Path) -> None:
    page = visit("#/computers")
    choose_file(
        page, tmp_path / "named.csv", 'sep=;\nserial;"Notes, remarks; more, ""x"""\nSEP-1;x'
    )
    expect(page.get_by_text('Left out: Notes, remarks; more, "x"')).to_be_visible()
    button(page, "Check").click()
    expect(page.get_by_text("1 row can be imported.")).to_be_visible()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("serial\n", "The file has no rows."),
        ("serial\nA\udce9", "The file is not UTF-8"),
        (",".join(["x"] * 201) + "\na", "more than 200 columns"),
    ],
    ids=["empty", "encoding", "wide"],
)
def test_a_file_that_cannot_be_imported_says_why(
    content: str, reason: str, visit: Visit, tmp_path: Path
) -> None:
    page = visit("#/computers")
    choose_file(page, tmp_path / "file.csv", content)
    check = button(page, "Check")
    expect(check.or_(page.get_by_text(reason))).to_be_visible()
    if check.is_visible():
        check.click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(reason)


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "\u202eevil\u202c & </td><script>alert(1)</script>",
    "مريم ميرزاخانی",
    "👩🏽‍💻 Zoë Ångström",
    "x" * 255,
    "{{constructor.constructor('alert(1)')()}} %s ../../",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_are_text_wherever_they_appear(name: str, registry: Registry, visit: Visit) -> None:
    id_ = registry.add("person", first_name=name, last_name="Text")
    computer = registry.add("computer", serial=name, owner=id_)
    dialogs: list[str] = []
    page = visit(f"#/computers/{computer}", viewport={"width": 360, "height": 800})
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    expect(heading(page)).to_have_text(name)
    expect(page.get_by_role("link", name=f"{name} Text").first).to_be_visible()
    page.get_by_role("combobox", name="Find").fill(name[:100])
    expect(page.get_by_role("option").first).to_contain_text(name)
    page.goto(f"{registry.url}/#/persons?filter[id][eq]={id_}")
    expect(rows(page, "Persons").first).to_contain_text(name)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    button(page, "Filter").click()
    field(page, "Value").fill(name)
    button(page, "Apply").click()
    expect(button(page, f"Remove: Full name contains {name}")).to_be_visible()
    expect(rows(page, "Persons")).to_have_count(1)
    page.get_by_role("table", name="Persons").get_by_role("link").first.click()
    button(page, "Delete").click()
    expect(page.get_by_role("dialog", name=f"Delete {name} Text?")).to_be_visible()
    assert page.locator("img, script:not([src])").count() == 0
    assert dialogs == []
