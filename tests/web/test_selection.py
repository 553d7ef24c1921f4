"""Several resources at once on the page: selecting, changing, undoing, and what fails."""

import pytest
from playwright.sync_api import Locator, Page, Request, Route, expect

from tests.support import to_one
from tests.web.conftest import Registry, Visit
from tests.web.support import button, field, heading, note, pause_clock, rows

pytestmark = pytest.mark.slow


def box(page: Page, serial: str) -> Locator:
    return page.get_by_role("checkbox", name=f"Select {serial}", exact=True)


def owners(registry: Registry, prefix: str) -> list[str | None]:
    """The ids of the owners of computers, by serial."""
    path = f"/computers?filter[serial][prefix]={prefix}&include=owner&sort=serial"
    links = [computer["relationships"]["owner"]["data"] for computer in registry.read(path)]
    return [link and link["id"] for link in links]


def count_of(registry: Registry, owner: str) -> int:
    """The number of computers of an owner."""
    path = f"/persons/{owner}/computers?page[number]=1&page[size]=1"
    total: int = registry.send("GET", path)["meta"]["total"]
    return total


def choose_owner(page: Page, name: str) -> None:
    button(page, "Assign to…").click()
    page.get_by_role("combobox", name="Person").fill(name)
    page.get_by_role("option", name=name).first.click()


def paste(page: Page, text: str) -> None:
    """Paste a text where the focus is."""
    page.evaluate(
        """text => {
            const clipboardData = new DataTransfer()
            clipboardData.setData("text", text)
            const options = { clipboardData, bubbles: true }
            document.activeElement.dispatchEvent(new ClipboardEvent("paste", options))
        }""",
        text,
    )


def test_rows_are_selected_by_ranges_pages_and_pasted_lists(
    registry: Registry, visit: Visit
) -> None:
    for number in range(60):
        registry.add("computer", serial=f"MANY-{number:02}")
    page = visit("#/computers?filter[serial][prefix]=MANY")
    box(page, "MANY-01").click()
    box(page, "MANY-03").click(modifiers=["Shift"])
    expect(page.get_by_text("3 selected")).to_be_visible()
    box(page, "MANY-05").press("Shift+Space")
    expect(page.get_by_text("5 selected")).to_be_visible()
    expect(box(page, "MANY-04")).to_be_checked()
    page.get_by_role("checkbox", name="Select all").check()
    expect(page.get_by_text("50 selected")).to_be_visible()
    button(page, "Select all 60 that match").click()
    expect(page.get_by_text("60 selected")).to_be_visible()
    button(page, "Select none").click()
    expect(box(page, "MANY-00")).not_to_be_checked()
    page.get_by_role("table").click()
    paste(page, "MANY-07\r\nMANY-08\tx\nUNKNOWN-1\n")
    expect(page.get_by_text("2 selected")).to_be_visible()
    expect(box(page, "MANY-08")).to_be_checked()
    expect(page.get_by_role("alert").filter(has_text="Not found: UNKNOWN-1.")).to_be_visible()


def test_a_long_pasted_list_is_asked_for_in_addresses_of_a_bounded_length(
    registry: Registry, visit: Visit
) -> None:
    faces = "\N{GRINNING FACE}" * 120
    names = [f"{faces}-{number:03}" for number in range(120)]
    for name in (names[0], names[119]):
        registry.add("computer", serial=name)
    page = visit("#/computers?filter[serial][prefix]=\N{GRINNING FACE}")
    expect(rows(page, "Computers")).to_have_count(2)
    page.get_by_role("checkbox", name="Select all").focus()
    lengths: list[int] = []
    page.on("request", lambda request: lengths.append(len(request.url)))
    paste(page, "\n".join([*names, "\ud83d", "x" * 200_000]))
    expect(page.get_by_text("2 selected")).to_be_visible()
    unknown = page.get_by_role("alert").filter(has_text=f"Not found: {names[1]}, {names[2]},")
    expect(unknown).to_contain_text("and 20 more names.")
    assert max(lengths) < 8_000
    paste(page, "\n".join(f"N-{number}" for number in range(10_001)))
    expect(page.get_by_text("Paste at most 10,000 names at once.")).to_be_visible()
    expect(page.get_by_text("2 selected")).to_be_visible()


def test_what_is_selected_is_assigned_and_that_is_undone(registry: Registry, visit: Visit) -> None:
    first, second = [registry.add("person", first_name="Undo", last_name=name) for name in "AB"]
    ids = [registry.add("computer", serial=f"BULK-{number}", owner=first) for number in range(4)]
    registry.update("computer", ids[3], model="T14")
    page = visit("#/computers?filter[serial][prefix]=BULK")
    page.get_by_role("checkbox", name="Select all").check()
    choose_owner(page, "Undo B")
    note(page, "4 computers → Undo B")
    assert owners(registry, "BULK") == [second] * 4
    expect(rows(page, "Computers").first).to_contain_text("Undo B")
    freed = {"type": "computer", "id": ids[3], "relationships": {"owner": {"data": None}}}
    registry.send("PATCH", f"/computers/{ids[3]}", freed)
    button(page, "Undo").click()
    expect(page.get_by_text("1 computer has another owner meanwhile")).to_be_visible()
    assert owners(registry, "BULK") == [first, first, first, None]

    page.goto(f"{registry.url}/#/computers/{ids[0]}")
    button(page, "Unassign: Owner").click()
    note(page, "BULK-0 is no longer assigned.")
    button(page, "Undo").click()
    note(page, "Undone.")
    expect(page.get_by_role("article").get_by_role("link", name="Undo A").first).to_be_visible()


def test_an_undo_spares_what_changes_while_the_registry_is_busy(
    registry: Registry, visit: Visit
) -> None:
    first, _, third = [registry.add("person", first_name="Busy", last_name=n) for n in "ABC"]
    ids = [registry.add("computer", serial=f"BUSY-{number}", owner=first) for number in range(3)]
    page = visit("#/computers?filter[serial][prefix]=BUSY")
    page.get_by_role("checkbox", name="Select all").check()
    choose_owner(page, "Busy B")
    expect(button(page, "Undo")).to_be_visible()

    def refuse(route: Route) -> None:
        owner = {"owner": to_one(third)}
        moved = {"type": "computer", "id": ids[1], "relationships": owner}
        registry.send("PATCH", f"/computers/{ids[1]}", moved)
        route.fulfill(status=503, headers={"Retry-After": "1"}, body="{}")

    page.route("**/operations", refuse, times=1)
    button(page, "Undo").click()
    expect(page.get_by_text("1 computer has another owner meanwhile")).to_be_visible()
    assert owners(registry, "BUSY") == [first, third, first]


def test_an_undo_is_offered_for_ten_seconds(registry: Registry, visit: Visit) -> None:
    owner = registry.add("person", first_name="Ten", last_name="Seconds")
    id_ = registry.add("computer", serial="TEN", owner=owner)
    page = visit(f"#/computers/{id_}")
    expect(heading(page)).to_have_text("TEN")
    pause_clock(page)
    button(page, "Unassign: Owner").click()
    expect(button(page, "Undo")).to_be_visible()
    page.clock.run_for(9_999)
    expect(button(page, "Undo")).to_be_visible()
    page.clock.run_for(1)
    expect(button(page, "Undo")).to_have_count(0)


def test_more_than_a_thousand_are_changed_in_several_requests(
    registry: Registry, visit: Visit
) -> None:
    owner = registry.add("person", first_name="Thousand", last_name="More")
    content = "".join(["serial\n", *(f"MORE-{number:04}\n" for number in range(1_050))])
    headers = {"Content-Type": "text/csv"}
    page = visit("#/computers?filter[serial][prefix]=MORE")
    url = f"{registry.url}/computers?rows[key]=serial"
    imported = page.request.post(url, data=content, headers=headers).text()
    assert '"complete":true' in imported.replace(" ", "")
    sizes: list[int] = []

    def measure(request: Request) -> None:
        if request.url.endswith("/operations"):
            document = request.post_data_json or {}
            sizes.append(len(document["atomic:operations"]))

    page.reload()
    page.on("request", measure)
    page.get_by_role("checkbox", name="Select all").check()
    button(page, "Select all 1,050 that match").click()
    expect(page.get_by_text("1,050 selected")).to_be_visible()
    choose_owner(page, "Thousand More")
    note(page, "1,050 computers → Thousand More")
    assert sizes == [1_000, 50]
    assert count_of(registry, owner) == 1_050
    button(page, "Undo").click()
    note(page, "Undone.")
    assert sizes == [1_000, 50] * 2
    assert count_of(registry, owner) == 0


def test_what_fails_stays_selected_with_its_reason(registry: Registry, visit: Visit) -> None:
    for serial in ("FAIL-0", "FAIL-1", "FAIL-2"):
        registry.add("computer", serial=serial)
    page = visit("#/computers?filter[serial][prefix]=FAIL")
    page.get_by_role("checkbox", name="Select all").check()
    button(page, "Set attribute").click()
    field(page, "Attribute").select_option("Serial")
    field(page, "Value").fill("FAIL-X")
    button(page, "Apply").click()
    dialog = page.get_by_role("dialog", name="2 computers could not be changed")
    expect(dialog).to_contain_text("Another computer has this serial")
    expect(dialog.get_by_role("status")).to_contain_text("Changed 1 computer.")
    button(dialog, "Close").first.click()
    expect(page.get_by_text("2 selected")).to_be_visible()
    refused = rows(page, "Computers").filter(has_text="Another computer has")
    expect(refused).to_have_count(2)
    button(page, "Select none").click()
    page.get_by_role("checkbox", name="Select all").check()
    expect(refused).to_have_count(0)
    box(page, "FAIL-X").uncheck()

    gone = registry.read("/computers?filter[serial]=FAIL-1")[0]["id"]
    registry.send("DELETE", f"/computers/{gone}")
    button(page, "Delete").click()
    button(page.get_by_role("dialog"), "Delete").click()
    expect(page.get_by_role("dialog", name="1 computer could not be changed")).to_be_visible()
    left = registry.read("/computers?filter[serial][prefix]=FAIL")
    assert [each["attributes"]["serial"] for each in left] == ["FAIL-X"]
