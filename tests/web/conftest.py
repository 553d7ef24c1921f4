"""A service with a type that has attributes of all kinds, and Chromium with the page."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.programs import PATIENCE, launch_options, run
from tests.support import new, to_one
from tests.system.service import COMMAND, Service, environment, starting

expect.set_options(timeout=PATIENCE)

TYPES = """
[computer]
model = "text"
status = {enum = ["ready", "repair", "retired"], default = "ready"}
bought = "date"
price = {type = "decimal", description = "In euros."}
cores = "integer"
leased = "boolean"
checked = "datetime"

[phone]
collection = "phones"
number = {type = "text", required = true}
owner = {link = "person", inverse = "phones"}
"""


@dataclass
class Registry:
    """A running service, and the requests of other people."""

    service: Service
    token: str = ""

    @property
    def url(self) -> str:
        return self.service.url

    def send(self, method: str, path: str, data: Any = None) -> Any:
        """Send a request; return the document of the response."""
        document = None if data is None else {"data": data}
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return self.service.request(path, document, method, **headers)

    def add(self, type_: str, *, owner: str | None = None, **attributes: Any) -> str:
        """Create a resource; return its id."""
        data = new(type_, {"owner": to_one(owner)} if owner else {}, **attributes)
        id_: str = self.send("POST", f"/{type_}s", data)["data"]["id"]
        return id_

    def update(self, type_: str, id_: str, **attributes: Any) -> None:
        self.send("PATCH", f"/{type_}s/{id_}", new(type_, **attributes))

    def read(self, path: str) -> Any:
        return self.send("GET", path)["data"]

    def may_read(self) -> bool:
        """Return whether the service accepts the token."""
        try:
            self.read("/persons?page[size]=1")
        except HTTPError:
            return False
        return True

    def grant(self, *scopes: str) -> str:
        """Create an access token, and return it."""
        options = [word for scope in scopes for word in ("--scope", scope)]
        return self.run("token", "create", "--name", uuid4().hex, *options).strip()

    def run(self, *arguments: str) -> str:
        """Run a command on the database of the service; return what it prints."""
        variables = environment(**self.service.variables)
        return run([*COMMAND, *arguments], env=variables, check=True).stdout


@pytest.fixture(scope="module")
def begin(
    mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Registry]]:
    """A function that starts a service with a database of its own."""
    file = tmp_path_factory.mktemp("types") / "types.toml"
    file.write_text(TYPES)
    with starting(file.parent / "data", REGISTRY_TYPES=str(file)) as start:
        yield lambda *arguments, **options: Registry(
            start(*arguments, mongodb_uri=mongodb_uri, **options)
        )


@pytest.fixture(scope="module")
def registry(begin: Callable[..., Registry]) -> Registry:
    """The service of the module, which all of its tests fill."""
    return begin("--unique", "computer.serial", "--unique", "person.email")


@pytest.fixture(scope="module")
def secured(begin: Callable[..., Registry]) -> Registry:
    """A service that requires tokens."""
    registry = begin("--auth", "on")
    registry.token = registry.grant("write")
    return registry


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        yield browser
        browser.close()


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser, registry: Registry) -> Iterator[Visit]:
    """A function that opens an address of the page in a browser of its own.

    before: called with the page before it loads anything. No script may fail, and nothing may be
    refused by the Content-Security-Policy.
    """
    messages: list[str] = []
    pages: list[Page] = []

    def visit(
        address: str = "",
        url: str = registry.url,
        before: Callable[[Page], None] = lambda _: None,
        **options: Any,
    ) -> Page:
        context = browser.new_context(locale="en-GB", timezone_id="Europe/Berlin", **options)
        context.set_default_timeout(PATIENCE)
        pages.append(page := context.new_page())
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("console", lambda message: messages.append(message.text))
        before(page)
        page.goto(f"{url}/{address}")
        return page

    yield visit
    for page in pages:
        page.context.close()
    # Chromium itself reports requests without success.
    assert [each for each in messages if not each.startswith("Failed to load resource")] == []
