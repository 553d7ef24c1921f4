"""What the page shows of the past, and of what belongs together: revisions and counts."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support import to_one
from tests.web.conftest import Registry, Visit
from tests.web.support import ADA, button, field, heading, rows

pytestmark = pytest.mark.slow


def test_a_card_shows_who_changed_what_and_follows(
    begin: Callable[..., Registry], visit: Visit
) -> None:
    secured = begin("--auth", "on", "--revisions", "365")
    secured.token = secured.grant("write")
    ada = secured.add("person", **ADA)
    id_ = secured.add("computer", serial="PAST", model="<b>T14</b>")
    secured.update("computer", id_, model="X1", cores=8)
    owner = {"type": "computer", "id": id_, "relationships": {"owner": to_one(ada)}}
    secured.send("PATCH", f"/computers/{id_}", owner)
    author = secured.read("/revisions?page[size]=1")[0]["attributes"]["author"]
    page = visit(f"#/computers/{id_}", url=secured.url)
    field(page, "Access token").fill(secured.grant("write"))
    button(page, "Continue").click()
    expect(heading(page)).to_have_text("PAST")
    headings = page.get_by_role("heading", name="Revisions")
    timeline = page.get_by_role("article").locator("section").filter(has=headings)
    revisions = timeline.get_by_role("listitem")
    expect(revisions).to_have_count(3)
    for revision, action in zip(revisions.all(), ("Changed", "Changed", "Created"), strict=True):
        expect(revision).to_contain_text(re.compile(rf"^{action} .*\d\d:\d\d by {author}"))
    assert values(revisions.nth(0)) == {"Owner": "— → Ada Lovelace"}
    assert values(revisions.nth(1)) == {"Model": "<b>T14</b> → X1", "Cores": "— → 8"}
    assert values(revisions.nth(2))["Model"] == "<b>T14</b>"
    expect(revisions.first.get_by_role("link")).to_have_attribute("href", f"#/persons/{ada}")

    for cores in range(10, 29):
        secured.update("computer", id_, cores=cores)
    expect(revisions.first).to_contain_text("27 → 28")
    expect(revisions).to_have_count(20)
    timeline.get_by_role("link", name="All changes").click()
    expect(rows(page, "Revisions")).to_have_count(22)
    page.goto(f"{secured.url}/#/revisions?filter[action]=created")
    expect(rows(page, "Revisions").last.get_by_role("link")).to_have_text("PAST")

    page.goto(f"{secured.url}/#/revisions?filter[action]=updated&sort=at")
    page.set_viewport_size({"width": 390, "height": 844})
    after = rows(page, "Revisions").first.get_by_role("cell").filter(has_text="Model: X1")
    expect(after).to_have_text("Model: X1 · Cores: 8")
    label = "cell => getComputedStyle(cell, '::before').content"
    assert "After" in after.evaluate(label)


def values(revision: Locator) -> dict[str, str]:
    """Return the changes of a revision: what is shown, by label."""
    labels, shown = [revision.locator(name).all_inner_texts() for name in ("dt", "dd")]
    return dict(zip(labels, shown, strict=True))


def test_the_table_of_persons_counts_their_computers(registry: Registry, visit: Visit) -> None:
    for last, count in (("None", 0), ("Three", 3)):
        person = registry.add("person", first_name="Count", last_name=last)
        for number in range(count):
            registry.add("computer", serial=f"COUNT-{number}", owner=person)
    page = visit("#/persons?filter[first_name][eq]=Count&sort=full_name")
    expect(rows(page, "Persons")).to_have_count(2)
    assert [cell.inner_text() for cell in counts(page)] == ["0", "3"]
    registry.add("computer", serial="COUNT-3", owner=person)
    expect(counts(page)[1]).to_have_text("4")
    counts(page)[1].get_by_role("link").click()
    expect(rows(page, "Computers")).to_have_count(4)


def counts(page: Page) -> list[Locator]:
    """Return the cells of the column `Computers`."""
    heads = page.get_by_role("table", name="Persons").locator("thead th").all_inner_texts()
    (index,) = [index for index, text in enumerate(heads) if text.strip() == "Computers"]
    return [row.locator("th, td").nth(index) for row in rows(page, "Persons").all()]
