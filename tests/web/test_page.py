"""The page for people, in a real browser: what a person does with it, by labels and roles."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.web.conftest import Registry, Visit

pytestmark = pytest.mark.slow


def test_a_computer_is_found_by_its_serial_and_assigned(registry: Registry, visit: Visit) -> None:
    computer = registry.add("computer", serial="SCAN-0001")
    registry.add("computer", serial="SCAN-00011")
    ada = registry.add("person", first_name="Ada", last_name="Lovelace")
    page = visit()
    expect(page.get_by_role("table", name="Persons")).to_be_visible()
    expect(page.get_by_role("combobox", name="Find")).to_be_focused()
    page.keyboard.type("SCAN-0001")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("SCAN-0001")
    page.get_by_role("button", name="Assign: Owner").click()
    page.keyboard.type("ada lov")
    expect(page.get_by_role("option", name="Ada Lovelace")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Ada Lovelace").first).to_be_visible()
    expect(page.get_by_role("status").get_by_text("SCAN-0001 → Ada Lovelace")).to_be_visible()
    assert registry.read(f"/computers/{computer}/owner")["id"] == ada

    page.get_by_role("button", name="Take back: Owner").click()
    expect(page.get_by_role("button", name="Assign: Owner")).to_be_visible()
    assert registry.read(f"/computers/{computer}/owner") is None
    history = page.get_by_role("table", name="Assignments").get_by_role("row")
    expect(history).to_have_count(2)
    expect(history.nth(1)).to_contain_text("Ada Lovelace")
