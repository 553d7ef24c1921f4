"""Where visitors are on the page: it keeps their place, their focus and what they typed."""

import re
from time import monotonic

import pytest
from playwright.sync_api import FilePayload, Locator, Page, Route, expect

from tests.programs import PATIENCE
from tests.web.conftest import Registry, Visit
from tests.web.support import ADA, button, edit, field, heading, note, rows

pytestmark = pytest.mark.slow


def follow(page: Page, row: Locator) -> float:
    """Click the link of a row; return how far the page was scrolled before."""
    row.scroll_into_view_if_needed()
    before: float = page.evaluate("scrollY")
    row.click()
    return before


def go_back_to(page: Page, row: Locator, before: float) -> None:
    """Go back; expect the focus on the link of a row, and the page scrolled as before."""
    page.go_back()
    expect(row).to_be_focused()
    page.wait_for_function("before => Math.abs(scrollY - before) <= 50", arg=before)


def test_back_returns_to_the_row_and_asks_before_it_loses_what_was_typed(
    registry: Registry, visit: Visit
) -> None:
    for number in range(45):
        registry.add("computer", serial=f"BACK-{number:02}")
    page = visit("#/computers?filter[serial][prefix]=BACK")
    row = page.get_by_role("link", name="BACK-40")
    before = follow(page, row)
    expect(heading(page)).to_have_text("BACK-40")
    go_back_to(page, row, before)

    row.click()
    edit(page, "Model", "typed")
    page.go_back()
    button(page, "Stay").click()
    expect(field(page, "Model")).to_have_value("typed")
    button(page, "Cancel").click()
    button(page, "Leave").click()
    expect(button(page, "Edit")).to_be_visible()
    page.go_back()
    expect(row).to_be_focused()


def test_the_keyboard_reaches_the_table_at_once_and_nothing_below_the_header(
    registry: Registry, visit: Visit
) -> None:
    for number in range(20):
        registry.add("person", first_name="Aa", last_name=f"Tab {number:02}")
    page = visit("#/persons", viewport={"width": 900, "height": 600})
    expect(page.get_by_role("table", name="Persons")).to_be_visible()
    skip = page.get_by_role("link", name="Skip to table")
    assert page.evaluate("document.querySelector('a, button, input').id") == "skip"
    skip.focus()
    page.keyboard.press("Enter")
    expect(rows(page, "Persons").first.get_by_role("link").first).to_be_focused()
    hidden = """() => {
        const { top } = document.activeElement.getBoundingClientRect()
        const header = document.getElementById("top")
        const isInside = header.contains(document.activeElement)
        return !isInside && top < header.getBoundingClientRect().bottom
    }"""
    for key in ("Tab", "Shift+Tab"):
        for _ in range(30):
            page.keyboard.press(key)
            assert not page.evaluate(hidden)


def test_back_asks_before_it_stops_an_import(visit: Visit) -> None:
    page = visit("#/persons")
    page.get_by_role("link", name="Computers").first.click()
    expect(heading(page)).to_contain_text("Computers")
    page.route(re.compile(r"/computers\?rows"), lambda _: None)  # which takes forever
    button(page, "Import CSV").first.click()
    file: FilePayload = {"name": "a.csv", "mimeType": "text/csv", "buffer": b"serial\nSTOP-1\n"}
    page.get_by_label("CSV file").set_input_files(file)
    button(page, "Check").click()
    page.go_back()
    question = page.get_by_role("dialog", name="Stop the import?")
    expect(question).to_contain_text("Rows that are already stored remain.")
    button(question, "Go on").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.go_back()
    button(question, "Stop").click()
    expect(heading(page)).to_contain_text("Persons")
    expect(page.get_by_role("dialog")).to_have_count(0)


def hold(page: Page, method: str, path: str) -> list[Route]:
    """Hold the next request; return the list that it comes to."""
    held: list[Route] = []

    def answer(route: Route) -> None:
        if held or route.request.method != method:
            route.fallback()
        else:
            held.append(route)

    page.route(re.compile(path), answer)
    return held


def wait_for(page: Page, held: list[Route]) -> Route:
    """Return the request that is held."""
    deadline = monotonic() + PATIENCE / 1_000
    while not held and monotonic() < deadline:
        page.wait_for_timeout(10)
    return held[0]


def test_what_is_typed_while_a_card_is_saved_stays(registry: Registry, visit: Visit) -> None:
    id_ = registry.add("person", **ADA)
    page = visit(f"#/persons/{id_}")
    held = hold(page, "PATCH", f"/persons/{id_}")
    edit(page, "Last name", "King")
    button(page, "Save").click()
    first = field(page, "First name")
    wait_for(page, held)
    first.fill("Augusta")
    first.press("Enter")  # which changes nothing while the form is being sent
    held[0].continue_()
    note(page, "Saved.")
    expect(first).to_have_value("Augusta")
    expect(first).to_be_focused()
    assert registry.read(f"/persons/{id_}")["attributes"]["full_name"] == "Ada King"
    registry.update("person", id_, email="ada@example.com")
    expect(page.get_by_text("Somebody else has changed this meanwhile.")).to_be_visible()
    button(page, "Save").click()
    expect(heading(page)).to_have_text("Augusta King")
    expect(page.get_by_role("article").get_by_text("ada@example.com")).to_be_visible()


def test_a_form_that_is_left_while_it_is_saved_does_not_close_the_next(
    registry: Registry, visit: Visit
) -> None:
    id_ = registry.add("person", **ADA)
    page = visit(f"#/persons/{id_}")
    held = hold(page, "PATCH", f"/persons/{id_}")
    edit(page, "Last name", "King")
    button(page, "Save").click()
    wait_for(page, held)
    button(page, "Cancel").click()
    button(page, "Leave").click()
    edit(page, "First name", "Augusta")
    held[0].continue_()
    note(page, "Saved.")
    expect(heading(page)).to_have_text("Ada King")
    expect(field(page, "First name")).to_have_value("Augusta")


def test_what_is_typed_while_a_resource_is_created_stays(visit: Visit) -> None:
    page = visit("#/persons")
    held = hold(page, "POST", "/persons")
    button(page, "New person").click()
    field(page, "First name").fill("Typed")
    field(page, "Last name").fill("First")
    button(page, "Create").click()
    wait_for(page, held)
    field(page, "Last name").fill("Second")
    held[0].continue_()
    note(page, "Created Typed First.")
    button(page, "Create").click()
    note(page, "Created Typed Second.")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_preview_is_that_of_the_file_that_was_chosen_last(visit: Visit) -> None:
    slow = """() => {
        const read = Blob.prototype.arrayBuffer
        Blob.prototype.arrayBuffer = async function () {
            Blob.prototype.arrayBuffer = read
            await new Promise((resolve) => (window.release = resolve))
            window.preview = read.call(this)
            return window.preview
        }
    }"""
    page = visit("#/computers")
    button(page, "Import CSV").first.click()
    page.evaluate(slow)
    for name in ("first", "second"):
        file: FilePayload = {"name": f"{name}.csv", "mimeType": "text/csv", "buffer": b""}
        page.get_by_label("CSV file").set_input_files({**file, "buffer": f"{name}\nA\n".encode()})
    expect(page.get_by_text("Left out: second")).to_be_visible()
    page.evaluate("release()")
    page.wait_for_function("window.preview")
    page.evaluate("preview.then(() => new Promise((resolve) => setTimeout(resolve)))")
    expect(page.get_by_text("Left out: second")).to_be_visible()


@pytest.mark.parametrize(("width", "height", "stays"), [(1280, 800, True), (640, 400, False)])
def test_the_header_leaves_room_for_the_table_at_any_size_of_text(
    width: int, height: int, stays: bool, registry: Registry, visit: Visit
) -> None:
    """The second window is the first one at 200 %."""
    for number in range(30):
        registry.add("computer", serial=f"ROOM-{width}-{number:02}")
    page = visit(
        f"#/computers?filter[serial][prefix]=ROOM-{width}",
        viewport={"width": width, "height": height},
    )
    last = page.get_by_role("link", name=f"ROOM-{width}-29")
    last.focus()
    expect(last).to_be_in_viewport()
    header = expect(page.get_by_role("banner"))
    header.to_be_in_viewport() if stays else header.not_to_be_in_viewport()


def test_cells_without_a_value_come_last_in_both_directions(
    registry: Registry, visit: Visit
) -> None:
    owner = registry.add("person", first_name="Blank", last_name="Owner")
    for number in range(60):
        registry.add("computer", serial=f"BLANK-{number:02}", owner=owner if number < 2 else None)
    page = visit("#/computers?filter[serial][prefix]=BLANK&sort=serial")
    heads = page.get_by_role("columnheader")
    expect(heads.nth(2)).to_contain_text("Owner")
    # Ascending, the page on which the blanks begin has the first fifty of them.
    for order, first, second in (("ascending", 52, 8), ("descending", 50, 10)):
        button(page, "Owner").click()
        expect(heads.nth(2)).to_have_attribute("aria-sort", order)
        expect(rows(page, "Computers").nth(1)).to_contain_text("Blank Owner")
        expect(rows(page, "Computers").nth(2)).not_to_contain_text("Blank Owner")
        page.get_by_role("link", name="Next page").click()
        expect(rows(page, "Computers")).to_have_count(second)
        page.get_by_role("link", name="Previous page").click()
        expect(rows(page, "Computers")).to_have_count(first)


def test_a_note_can_be_used_while_a_dialog_is_open(visit: Visit) -> None:
    page = visit("#/persons")
    button(page, "New person").click()
    field(page, "Stay here to add another").check()
    field(page, "First name").fill("Noted")
    field(page, "Last name").fill("Meanwhile")
    button(page, "Create").click()
    note(page, "Created Noted Meanwhile.")
    page.get_by_role("dialog").get_by_role("link", name="Open").click()
    expect(heading(page)).to_have_text("Noted Meanwhile")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_changes_keep_the_focus_and_cost_few_requests(registry: Registry, visit: Visit) -> None:
    ids = [registry.add("computer", serial=f"LIVELY-{number}") for number in range(4)]
    others = [registry.add("computer", serial=f"UNSEEN-{number}") for number in range(20)]
    page = visit("#/computers?filter[serial][prefix]=LIVELY")
    link = page.get_by_role("link", name="LIVELY-2")
    link.focus()
    registry.update("computer", ids[2], model="T14")
    expect(rows(page, "Computers").nth(2)).to_contain_text("T14")
    expect(link).to_be_focused()
    registry.update("computer", ids[2], serial="LIVELY-2b")
    expect(page.get_by_role("link", name="LIVELY-2b")).to_be_focused()

    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    began = monotonic()
    for model in ("a", "b"):
        for other in others:
            registry.update("computer", other, model=model)
    periods = (monotonic() - began) // 2.5  # at most one request in each
    page.wait_for_timeout(3_500)
    assert len([url for url in requests if "/changes" not in url]) <= 1 + periods
    registry.add("computer", serial="LIVELY-9")
    expect(page.get_by_text("5 computers")).to_be_visible()


def test_a_read_that_is_late_never_replaces_a_newer_one(registry: Registry, visit: Visit) -> None:
    id_ = registry.add("computer", serial="ORDER")
    page = visit(f"#/computers/{id_}")
    with page.expect_request("**/changes?*"):
        page.reload()
    expect(heading(page)).to_have_text("ORDER")
    held: list[Route] = []

    def hold(route: Route) -> None:
        """Answer with what is stored now, but later."""
        response = route.fetch()
        registry.update("computer", id_, model="newest")
        page.wait_for_timeout(800)
        held.append(route)
        route.fulfill(response=response)

    page.route(re.compile(f"/computers/{id_}\\?"), hold, times=1)
    registry.update("computer", id_, model="older")
    expect(page.get_by_role("article").get_by_text("newest")).to_be_visible()
    assert held


def test_the_view_returns_after_a_time_without_a_connection(
    registry: Registry, visit: Visit
) -> None:
    registry.add("person", **ADA)
    page = visit("#/computers")
    expect(heading(page)).to_contain_text("Computers")
    page.get_by_role("link", name="Persons").hover()
    page.context.set_offline(True)
    page.get_by_role("link", name="Persons").click()
    expect(page.get_by_role("main")).to_contain_text("cannot be reached")
    page.context.set_offline(False)
    expect(page.get_by_role("table", name="Persons")).to_be_visible()


def test_what_is_typed_in_a_dialog_survives_the_deletion_of_the_card_below(
    registry: Registry, visit: Visit
) -> None:
    id_ = registry.add("computer", serial="BELOW")
    page = visit(f"#/computers/{id_}")
    with page.expect_request("**/changes?*"):
        page.reload()
    button(page, "Assign: Owner").click()
    page.get_by_role("combobox", name="Person").fill("Katherine")
    page.get_by_role("option", name="New person").click()
    field(page, "Last name").fill("Survives")
    registry.send("DELETE", f"/computers/{id_}")
    expect(page.get_by_text("There is nothing here")).to_be_visible()
    expect(field(page, "Last name")).to_have_value("Survives")
    button(page, "Create").click()
    expect(page.get_by_text("This does not exist any more.")).to_be_visible()
    assert len(registry.read("/persons?filter[last_name]=Survives")) == 1


def test_a_browser_without_the_navigation_api_returns_and_asks_as_well(
    registry: Registry, visit: Visit
) -> None:
    for number in range(44):
        registry.add("computer", serial=f"FALLBACK-{number}")
    id_ = registry.add("computer", serial="FALLBACK")
    page = visit(
        "#/computers?filter[serial][prefix]=FALLBACK&sort=-serial",
        before=lambda page: page.add_init_script("delete window.navigation"),
    )
    assert page.evaluate("window.navigation") is None
    row = page.get_by_role("link", name="FALLBACK", exact=True)
    before = follow(page, row)
    assert before > 0
    expect(heading(page)).to_be_focused()
    assert page.evaluate("scrollY") == 0
    go_back_to(page, row, before)
    page.go_forward()
    edit(page, "Model", "typed")
    page.go_back()
    button(page, "Stay").click()
    assert page.url.endswith(f"#/computers/{id_}")
    expect(field(page, "Model")).to_have_value("typed")
    page.get_by_role("link", name="Persons").click()
    button(page, "Leave").click()
    expect(heading(page)).to_contain_text("Persons")
    page.go_back()
    expect(heading(page)).to_have_text("FALLBACK")
    expect(field(page, "Model")).to_have_count(0)


@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_without_anchors_shows_what_is_found_beside_the_box(
    width: int, registry: Registry, visit: Visit
) -> None:
    registry.add("person", first_name="Anchor", last_name=f"Less {width}")

    def withhold(route: Route) -> None:
        style = route.fetch()
        route.fulfill(response=style, body=style.text().replace("position-area", "no-such-area"))

    page = visit(
        "#/computers",
        before=lambda page: page.route("**/style.css", withhold),
        viewport={"width": width, "height": 844},
    )
    button(page, "New computer").click()
    box = page.get_by_role("combobox", name="Owner")
    box.fill(f"less {width}")
    option = page.get_by_role("option", name=f"Anchor Less {width}")
    expect(option).to_be_in_viewport(ratio=1)
    place, found = box.bounding_box(), option.bounding_box()
    assert place
    assert found
    is_below = found["y"] >= place["y"] + place["height"]
    assert is_below or found["y"] + found["height"] <= place["y"]
    option.click()
    expect(box).to_have_value(f"Anchor Less {width}")


def test_escape_asks_each_time_before_it_loses_what_was_typed(visit: Visit) -> None:
    page = visit("#/persons")
    button(page, "New person").click()
    field(page, "First name").press_sequentially("Typed")
    question = page.get_by_role("dialog", name="Leave without saving?")
    for _ in range(3):
        page.keyboard.press("Escape")
        expect(question).to_be_visible()
        page.keyboard.press("Escape")
        expect(question).to_have_count(0)
        expect(field(page, "First name")).to_have_value("Typed")


def test_the_focus_returns_to_a_button_although_the_view_has_changed(
    registry: Registry, visit: Visit
) -> None:
    ids = [registry.add("computer", serial=f"FOCUS-{number}") for number in range(2)]
    page = visit("#/computers?filter[serial][prefix]=FOCUS")
    with page.expect_response("**/changes?*"):
        page.reload()
    page.get_by_role("checkbox", name="Select all").check()
    button(page, "Assign to…").click()
    registry.update("computer", ids[0], model="T14")
    expect(rows(page, "Computers").first).to_contain_text("T14")
    page.keyboard.press("Escape")
    expect(button(page, "Assign to…")).to_be_focused()
    registry.add("computer", serial="FOCUS-2")
    expect(button(page, "Select all 3 that match")).to_be_visible()
    expect(button(page, "Assign to…")).to_be_focused()

    page.goto(f"{registry.url}/#/computers/{ids[1]}")
    button(page, "Assign: Owner").click()
    registry.update("computer", ids[1], model="X1")
    expect(page.get_by_role("article").get_by_text("X1")).to_be_visible()
    page.keyboard.press("Escape")
    expect(button(page, "Assign: Owner")).to_be_focused()
