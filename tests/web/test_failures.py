"""The page with access tokens, and when requests fail: it says what happened, and loses nothing."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support import MEDIA_TYPE
from tests.system.service import eventually
from tests.web.conftest import Registry, Visit
from tests.web.support import ADA, button, edit, field, heading, note, pause_clock, rows

pytestmark = pytest.mark.slow


@pytest.fixture
def enter(secured: Registry, visit: Visit) -> Callable[..., Page]:
    """A function that opens the page with a new token with these scopes."""

    def enter(*scopes: str, token: str = "", address: str = "", keeps: bool = False) -> Page:
        page = visit(address, url=secured.url)
        field(page, "Access token").fill(token or secured.grant(*scopes))
        if keeps:
            page.get_by_label("Keep it until I close this tab").check()
        button(page, "Continue").click()
        expect(heading(page)).to_be_visible()
        return page

    return enter


def test_a_token_is_asked_for_and_forgotten(enter: Callable[..., Page]) -> None:
    page = enter("read")
    assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]
    assert page.context.cookies() == []
    page.reload()
    token = field(page, "Access token")
    expect(token).to_be_focused()
    for wrong in ("reg_wrong", "täken", ""):
        token.fill(wrong)
        button(page, "Continue").click()
        expect(token).to_have_accessible_description(re.compile("does not know this token"))
    page.keyboard.press("Escape")
    expect(token).to_be_visible()

    page = enter("read", keeps=True)
    page.reload()
    expect(heading(page)).to_contain_text("Persons")
    page.get_by_role("button", name="Access: ").click()
    expect(page.get_by_role("dialog")).to_contain_text("nothing")
    button(page, "Forget the token").click()
    expect(field(page, "Access token")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_only_what_the_token_allows_is_offered(
    secured: Registry, enter: Callable[..., Page]
) -> None:
    owner = secured.add("person", **ADA)
    computer = secured.add("computer", serial="SCOPE", owner=owner)
    page = enter("read", address=f"#/computers/{computer}")
    expect(page.get_by_role("link", name="Ada Lovelace").first).to_be_visible()
    expect(page.get_by_role("article").get_by_role("button")).to_have_count(0)
    page.goto(f"{secured.url}/#/computers")
    expect(button(page, "Filter")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("New|Import"))).to_have_count(0)

    page = enter("computers:write", address=f"#/computers/{computer}")
    expect(button(page, "Edit")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("[Aa]ssign|Change"))).to_have_count(0)
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_text(["Computers"])
    expect(page.get_by_text("Ada Lovelace")).to_have_count(0)
    page.goto(f"{secured.url}/#/persons")
    expect(heading(page)).to_have_text("There is nothing here")

    page = enter("computers:write", "persons:read", address=f"#/computers/{computer}")
    expect(page.get_by_role("link", name="Ada Lovelace").first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("[Aa]ssign|Change"))).to_have_count(0)


def revoke(secured: Registry, name: str, token: str, page: Page) -> None:
    """Revoke a token of a page, which does not notice before its next request."""
    page.route("**/changes*", lambda _: None)  # otherwise it follows again, and asks for a token
    secured.run("token", "revoke", name)
    assert eventually(lambda: not replace(secured, token=token).may_read())


@pytest.mark.parametrize("keeps", [False, True])
def test_a_revoked_token_loses_nothing_that_was_typed(
    keeps: bool, secured: Registry, enter: Callable[..., Page]
) -> None:
    id_ = secured.add("person", **ADA)
    token = secured.grant("write")
    page = enter(token=token, address=f"#/persons/{id_}", keeps=keeps)
    name = page.get_by_role("button", name="Access: ").inner_text().removeprefix("Access: ")
    edit(page, "Last name", "King")
    if keeps:  # the first check of the kept token fails
        respond(page, "GET", f"{secured.url}/$", 503)
    revoke(secured, name, token, page)
    button(page, "Save").click()
    if keeps:
        expect(page.get_by_text("busy or not available").first).to_be_visible()
        button(page, "Save").click()
    field(page, "Access token").fill(secured.grant("persons:write"))
    button(page, "Continue").click()
    note(page, "Saved.")
    expect(heading(page)).to_have_text("Ada King")
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_text(["Persons"])


def test_the_question_for_a_token_remains_if_somebody_goes_back(
    secured: Registry, enter: Callable[..., Page]
) -> None:
    token = secured.grant("write")
    page = enter(token=token, address="#/computers")
    name = page.get_by_role("button", name="Access: ").inner_text().removeprefix("Access: ")
    page.get_by_role("link", name="Persons").click()
    expect(heading(page)).to_contain_text("Persons")
    revoke(secured, name, token, page)
    page.get_by_role("link", name="Computers").click()
    expect(field(page, "Access token")).to_be_visible()
    page.go_back()
    field(page, "Access token").fill(secured.grant("write"))
    button(page, "Continue").click()
    expect(heading(page)).to_contain_text("Persons")


ERROR = {"id": "1", "code": "x", "title": "X", "detail": "It is so."}


def respond(page: Page, method: str, path: str, status: int, **headers: str) -> None:
    """Answer a request with an error, as the service would; 0 loses the connection."""

    def answer(route: Route) -> None:
        if route.request.method != method:
            route.fallback()
        elif status == 0:
            route.abort("connectionfailed")
        else:
            body = json.dumps({"errors": [{**ERROR, "status": str(status)}]})
            route.fulfill(status=status, body=body, content_type=MEDIA_TYPE, headers=headers)

    page.route(re.compile(path), answer, times=1)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (0, "cannot be reached"),
        (403, "does not allow this"),
        (409, "It is so."),
        (422, "Please correct this: It is so."),
        (500, "The registry has failed"),
        (503, "Try again in 7 seconds"),
    ],
)
def test_a_change_that_fails_can_be_sent_again(
    status: int, sentence: str, registry: Registry, visit: Visit
) -> None:
    id_ = registry.add("person", **ADA)
    page = visit(f"#/persons/{id_}")
    edit(page, "Last name", f"Byron-{status}")
    respond(page, "PATCH", "/persons/", status, **{"Retry-After": "7"})
    button(page, "Save").click()
    expect(page.locator("form").get_by_role("alert")).to_contain_text(sentence)
    expect(field(page, "Last name")).to_have_value(f"Byron-{status}")
    button(page, "Save").click()
    expect(heading(page)).to_have_text(f"Ada Byron-{status}")


@pytest.mark.parametrize("arrives", ["nothing", "a part"])
def test_an_addition_whose_response_is_lost_is_executed_once(
    arrives: str, registry: Registry, visit: Visit
) -> None:
    page = visit("#/persons")
    button(page, "New person").click()
    field(page, "First name").fill(f"Once after {arrives}")
    field(page, "Last name").fill("Only")

    def lose(route: Route) -> None:
        response = route.fetch()
        if arrives == "nothing":
            route.abort("connectionreset")
        else:
            route.fulfill(response=response, body='{"data"')

    page.route(re.compile("/persons\\?"), lose, times=1)
    button(page, "Create").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("cannot be reached")
    button(page, "Create").click()
    note(page, f"Created Once after {arrives} Only.")
    assert len(registry.read(f"/persons?filter[first_name]=Once%20after%20{quote(arrives)}")) == 1


def test_a_form_keeps_what_others_change_while_it_opens(registry: Registry, visit: Visit) -> None:
    id_ = registry.add("computer", serial="OPENING", model="two\nlines")
    page = visit(f"#/computers/{id_}")
    expect(heading(page)).to_have_text("OPENING")
    held: list[Route] = []
    page.route(re.compile(f"/computers/{id_}\\?"), lambda route: held.append(route), times=1)  # noqa: PLW0108 - gets an attribute
    registry.update("computer", id_, status="repair")
    while not held:
        page.wait_for_timeout(10)
    edit(page, "Cores", "8")
    held[0].continue_()
    expect(page.get_by_text("Somebody else has changed this meanwhile.")).to_be_visible()
    button(page, "Save").click()
    note(page, "Saved.")
    stored = registry.read(f"/computers/{id_}")["attributes"]
    changed = [stored[name] for name in ("status", "cores", "model")]
    assert changed == ["repair", 8, "two\nlines"]


def test_a_lost_connection_is_noticed_and_nothing_is_missed(
    registry: Registry, visit: Visit
) -> None:
    id_ = registry.add("computer", serial="SILENT")
    page = visit()
    expect(heading(page)).to_contain_text("Persons")
    page.clock.install()
    page.route("**/changes*", lambda _: None, times=1)  # never answers
    with page.expect_request("**/changes*"):
        page.goto(f"{registry.url}/?#/computers/{id_}")
    expect(heading(page)).to_have_text("SILENT")
    page.clock.fast_forward(45_000)
    expect(page.get_by_text("Not connected")).to_be_visible()
    registry.update("computer", id_, model="T14")
    page.clock.fast_forward(2_000)
    expect(page.get_by_role("article").get_by_text("T14")).to_be_visible()
    expect(page.get_by_text("Not connected")).to_have_count(0)


def test_changes_after_a_gap_in_the_feed_are_shown(registry: Registry, visit: Visit) -> None:
    id_ = registry.add("computer", serial="GAP")
    page = visit()
    attempts: list[Route] = []

    def answer(route: Route) -> None:
        attempts.append(route)
        if len(attempts) == 1:
            return route.fulfill(status=410, body="{}", content_type=MEDIA_TYPE)
        if len(attempts) == 2:
            registry.update("computer", id_, model="T14")
        return route.continue_()

    page.route("**/changes*", answer)
    page.goto(f"{registry.url}/?#/computers/{id_}")
    expect(page.get_by_role("article").get_by_text("T14")).to_be_visible()
    assert all("after" in route.request.url for route in attempts)


def test_changes_are_followed_after_a_gap_and_a_read_that_failed(
    registry: Registry, visit: Visit
) -> None:
    id_ = registry.add("computer", serial="GAP-2")
    page = visit()
    attempts: list[Route] = []

    def answer(route: Route) -> None:
        attempts.append(route)
        if len(attempts) == 1:  # answered below, when the card is shown
            return
        if len(attempts) == 2:
            registry.update("computer", id_, model="T14")
        route.continue_()

    page.route("**/changes*", answer)
    page.goto(f"{registry.url}/?#/computers/{id_}")
    expect(heading(page)).to_have_text("GAP-2")
    while not attempts:
        page.wait_for_timeout(10)
    respond(page, "GET", r"/computers/\d+\?", 0)
    attempts[0].fulfill(status=410, body="{}", content_type=MEDIA_TYPE)
    expect(page.get_by_role("article").get_by_text("T14")).to_be_visible()


def test_what_is_missing_is_not_asked_for_at_each_change(registry: Registry, visit: Visit) -> None:
    id_ = registry.add("computer", serial="OTHER")
    page = visit("#/computers/999999999")
    expect(heading(page)).to_have_text("There is nothing here")
    with page.expect_request("**/changes*"):
        page.reload()
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    for model in ("a", "b", "c"):
        registry.update("computer", id_, model=model)
        page.wait_for_timeout(300)
    assert urls == []


@pytest.mark.parametrize(("view", "reads"), [("table", r"\?.*in%5D="), ("card", r"/\d+\?")])
def test_a_change_whose_read_failed_is_read_again(
    view: str, reads: str, registry: Registry, visit: Visit
) -> None:
    id_ = registry.add("computer", serial=f"AGAIN-{view}")
    page = visit(f"#/computers?filter[id]={id_}" if view == "table" else f"#/computers/{id_}")
    with page.expect_response("**/changes?*"):
        page.reload()
    expect(page.get_by_role("main").get_by_text(f"AGAIN-{view}").first).to_be_visible()
    respond(page, "GET", f"/computers{reads}", 0)
    with page.expect_event("requestfailed"):
        registry.update("computer", id_, model="T14")
    expect(page.get_by_role("main").get_by_text("T14", exact=True)).to_be_visible()
    expect(page.get_by_text("Not connected")).to_have_count(0)


def test_a_download_that_stops_says_so(registry: Registry, visit: Visit) -> None:
    registry.add("person", **ADA)
    page = visit("#/persons")
    expect(rows(page, "Persons").first).to_be_visible()
    pause_clock(page)
    page.route(re.compile("/persons\\?"), lambda _: None, times=1)  # never answers
    button(page, "Download CSV").click()
    expect(button(page, "Downloading…")).to_be_visible()
    page.clock.run_for(45_000)
    expect(page.get_by_role("alert").get_by_text("cannot be reached")).to_be_visible()
    with page.expect_download():
        button(page, "Download CSV").click()


def test_a_busy_registry_is_asked_again_and_a_lost_one_on_demand(
    registry: Registry, visit: Visit
) -> None:
    registry.add("person", **ADA)
    page = visit("#/computers")
    expect(heading(page)).to_contain_text("Computers")
    respond(page, "GET", r"/persons\?", 503, **{"Retry-After": "1"})
    pause_clock(page)
    page.get_by_role("link", name="Persons").click()
    note(page, "Trying again in 1 second")
    page.clock.run_for(1_000)
    expect(rows(page, "Persons").first).to_be_visible()
    respond(page, "GET", r"/computers\?", 0)
    page.get_by_role("link", name="Computers").click()
    expect(page.get_by_role("main")).to_contain_text("cannot be reached")
    button(page, "Try again").press("Enter")
    expect(heading(page)).to_contain_text("Computers")
    expect(heading(page)).to_be_focused()


def test_a_deleted_resource_and_a_stale_card_are_explained(
    registry: Registry, visit: Visit
) -> None:
    id_ = registry.add("computer", serial="STALE")
    page = visit(f"#/computers/{id_}")
    edit(page, "Model", "typed")
    registry.send("DELETE", f"/computers/{id_}")
    button(page, "Save").click()
    expect(page.locator("form").get_by_role("alert")).to_contain_text("deleted this meanwhile")
    expect(field(page, "Model")).to_have_value("typed")


def test_an_undo_that_fails_says_why_and_is_offered_again(registry: Registry, visit: Visit) -> None:
    owner = registry.add("person", first_name="Undone", last_name="Later")
    id_ = registry.add("computer", serial="LATER", owner=owner)
    page = visit(f"#/computers/{id_}")
    button(page, "Unassign: Owner").click()
    respond(page, "POST", "/operations", 500)
    button(page, "Undo").click()
    expect(page.get_by_role("alert")).to_contain_text("The registry has failed")
    respond(page, "GET", r"/computers\?", 0)  # which is repeated
    button(page, "Undo").click()
    note(page, "Undone.")
    expect(
        page.get_by_role("article").get_by_role("link", name="Undone Later").first
    ).to_be_visible()


def test_a_file_that_was_saved_again_is_named(visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("serial\nSAVED-1\n")
    page = visit("#/computers")
    button(page, "Import CSV").first.click()
    page.get_by_label("CSV file").set_input_files(file)
    button(page, "Check").click()
    expect(page.get_by_text("1 row can be imported.")).to_be_visible()
    file.write_text("serial\nSAVED-1\nSAVED-2\n")
    os.utime(file, (0, 0))
    button(page, "Check").click()
    expect(page.get_by_text("The file has changed since you chose it.")).to_be_visible()
