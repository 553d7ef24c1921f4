"""What tests of the page find on it, by labels and roles."""

from playwright.sync_api import Locator, Page, expect

ADA = {"first_name": "Ada", "last_name": "Lovelace"}


def heading(page: Page) -> Locator:
    return page.get_by_role("heading", level=1)


def button(page: Page | Locator, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def field(page: Page, name: str) -> Locator:
    """An input of a form."""
    return page.locator("form").get_by_label(name)


def edit(page: Page, name: str, value: str) -> None:
    """Open the form of a card, and fill an input."""
    button(page, "Edit").click()
    field(page, name).fill(value)


def rows(page: Page, name: str) -> Locator:
    """The rows of a table, without its headings."""
    return page.get_by_role("table", name=name).get_by_role("row").filter(has=page.locator("td"))


def pause_clock(page: Page) -> None:
    """Stop the clock of the page; from then on, only `page.clock` moves it."""
    page.clock.install(time=0)
    page.clock.pause_at(3_600_000)  # not reached before the call, however slow the machine is


def note(page: Page, text: str) -> None:
    """What the page tells of an action, also to those who hear it."""
    expect(page.get_by_role("status").get_by_text(text)).to_be_visible()
