"""Swagger UI in a real browser: requests from the page work, and it contacts no other host."""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from playwright.async_api import Browser, Error, Locator, Page, Request, async_playwright, expect
from pytest_aiohttp.plugin import AiohttpServer

from registry.openapi.swagger_ui import swagger_ui_version
from registry.settings import Settings
from tests.conftest import Grant, Serve
from tests.programs import PATIENCE, launch_options
from tests.support import MEDIA_TYPE, Api

pytestmark = pytest.mark.slow

expect.set_options(timeout=PATIENCE)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launch_options())
        yield browser
        await browser.close()


class Visit:
    """A page, with its requests and its messages on the console."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[Request] = []
        self.messages: list[str] = []
        # Playwright sets attributes on a handler, which it cannot on a built-in method.
        page.on("request", lambda request: self.requests.append(request))  # noqa: PLW0108
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("console", lambda message: self.messages.append(message.text))

    @property
    def hosts(self) -> set[str]:
        return {urlsplit(request.url).netloc for request in self.requests}

    async def try_out(self, operation: str) -> Locator:
        """Open an operation and enable its inputs."""
        block = self.page.locator(f"#operations-{operation}")
        await block.locator(".opblock-summary").click()
        await block.get_by_role("button", name="Try it out").click()
        return block


async def execute(block: Locator) -> tuple[str, Any]:
    """Send the request; return the status and the document that the page shows."""
    await block.get_by_role("button", name="Execute").click()
    response = block.locator(".live-responses-table .response")
    await expect(response.locator(".response-col_status")).to_be_visible()
    status = (await response.locator(".response-col_status").inner_text()).strip()
    body = response.locator(".response-col_description .highlight-code pre").first
    return status, json.loads(await body.inner_text())


def select_box(block: Locator, parameter: str) -> Locator:
    return block.locator(f'tr[data-param-name="{parameter}"] select')


@pytest.mark.parametrize("files", ["installed", "bundled"])
async def test_the_page_creates_a_person_and_lists_computers(
    files: str, browser: Browser, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if files == "bundled":
        monkeypatch.setattr("registry.openapi.swagger_ui.SWAGGER_UI", tmp_path / "none")
    version, api = swagger_ui_version(), await serve()
    grace = await api.person("Grace", "Hopper", email="grace@example.com")
    await api.computer("SN-7", owner=grace)
    visit = Visit(await browser.new_page())
    await visit.page.goto(str(api.client.make_url("/api/swagger/")))
    assert f'"{version}"' in await visit.page.evaluate("JSON.stringify(versions)")

    block = await visit.try_out("Person-create_person")
    editor = block.locator("textarea.body-param__text")
    sent = json.loads(await editor.input_value())
    assert sent["data"]["attributes"]["first_name"] == "Grace"
    sent["data"]["attributes"] |= {"first_name": "Ada", "last_name": "Lovelace"}
    await editor.fill(json.dumps(sent))
    status, created = await execute(block)
    assert (status, created["data"]["attributes"]["full_name"]) == ("201", "Ada Lovelace")
    (request,) = [request for request in visit.requests if request.method == "POST"]
    assert await request.header_value("Content-Type") == MEDIA_TYPE
    assert (await api.get(created["links"]["self"])).data["attributes"]["first_name"] == "Ada"

    block = await visit.try_out("Computer-list_computers")
    await select_box(block, "include").select_option("owner")
    await select_box(block, "fields[person]").select_option(["full_name", "email"])
    status, listed = await execute(block)
    assert (status, listed["meta"]["count"]) == ("200", 1)
    assert listed["links"]["self"] in [request.url for request in visit.requests]
    assert listed["data"][0]["attributes"] == {"serial": "SN-7"}
    assert listed["data"][0]["relationships"]["owner"]["data"] == {"type": "person", "id": grace}
    assert [resource["attributes"] for resource in listed["included"]] == [
        {"full_name": "Grace Hopper", "email": "grace@example.com"}
    ]

    assert visit.hosts == {api.client.make_url("/").authority}
    assert visit.messages == []


async def test_filters_can_be_tried(browser: Browser, api: Api) -> None:
    await api.person("Grace", "Hopper")
    await api.person("Ada", "Lovelace")
    page = await browser.new_page()
    await page.goto(str(api.client.make_url("/api/swagger/")))
    block = await Visit(page).try_out("Person-list_persons")
    await block.locator('tr[data-param-name="filter"] select').select_option("attribute")
    status, listed = await execute(block)
    assert (status, [resource["attributes"]["first_name"] for resource in listed["data"]]) == (
        "200",
        ["Grace"],
    )


async def test_requests_are_authorized_until_the_page_is_closed(
    browser: Browser, serve: Serve, secured: Settings, grant: Grant
) -> None:
    api = await serve(settings=secured)
    context = await browser.new_context()
    visit = Visit(await context.new_page())
    page = visit.page
    await page.goto(str(api.client.make_url("/api/swagger/")))
    await page.locator(".scheme-container .authorize").click()
    dialog = page.locator(".dialog-ux")
    await dialog.locator("input").fill(await grant("read"))
    await dialog.locator("button.authorize").click()
    await dialog.locator("button.btn-done").click()
    status, _ = await execute(await visit.try_out("Person-list_persons"))
    assert status == "200"
    status, refused = await execute(await visit.try_out("Person-create_person"))
    assert (status, refused["errors"][0]["code"]) == ("403", "insufficient_scope")

    await page.reload()
    status, refused = await execute(await visit.try_out("Person-list_persons"))
    assert (status, refused["errors"][0]["code"]) == ("401", "authentication_required")
    assert await page.evaluate("localStorage.length + sessionStorage.length") == 0
    assert await context.cookies() == []


Publish = Callable[[str], Awaitable[str]]


@pytest.fixture
def publish(aiohttp_server: AiohttpServer) -> Publish:
    """A function that serves a text on a site of its own, and returns its origin."""

    async def publish(text: str) -> str:
        async def show(_: web.Request) -> web.Response:
            headers = {"Access-Control-Allow-Origin": "*"}
            return web.Response(text=text, content_type="text/html", headers=headers)

        app = web.Application()
        app.router.add_get("/{path:.*}", show)
        return f"http://localhost:{(await aiohttp_server(app)).port}"  # the service is 127.0.0.1

    return publish


async def test_the_page_ignores_a_description_named_in_its_url(
    browser: Browser, api: Api, publish: Publish
) -> None:
    foreign = await publish('{"openapi": "3.0.0", "info": {}, "paths": {}}')
    visit = Visit(await browser.new_page())
    await visit.page.goto(
        f"{api.origin}/api/swagger/?url={foreign}/url&configUrl={foreign}/config",
        wait_until="networkidle",
    )
    await expect(visit.page.locator(".swagger-ui").first).to_be_visible()
    assert visit.hosts == {urlsplit(api.origin).netloc}


FROM_A_PAGE = """async ([url, id]) => {
    const type = "application/vnd.api+json"
    const sent = {"Accept": type, "X-Request-ID": "a", "Idempotency-Key": "a", "traceparent": "a"}
    const read = await fetch(`${url}/persons/${id}`, {headers: sent})
    const attributes = {first_name: "Ada"}
    const changed = await fetch(`${url}/persons/${id}`, {
        method: "PATCH",
        headers: {
            "Content-Type": type, "Authorization": "Bearer x",
            "If-Match": read.headers.get("ETag"), "If-None-Match": '"other"',
        },
        body: JSON.stringify({data: {type: "person", id, attributes}}),
    })
    const all = await fetch(`${url}/persons`)
    const missing = await fetch(`${url}/persons/999`)
    return {
        statuses: [read.status, changed.status, all.status, missing.status],
        name: (await changed.json()).data.attributes.first_name,
        count: (await all.json()).meta.count,
        identified: (await missing.json()).errors[0].id == missing.headers.get("X-Request-ID"),
    }
}"""


async def test_a_page_of_another_site_uses_the_service_only_if_its_origin_is_allowed(
    browser: Browser,
    serve: Serve,
    settings: Settings,
    publish: Publish,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    closed = await serve()
    origin = await publish(f"<img src={closed.origin}/persons><a href={closed.origin}/>link</a>")
    page = await browser.new_page()
    await page.goto(origin, wait_until="networkidle")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "registry"]
    assert line.startswith("GET '/persons' ")
    assert " -> 403 " in line

    api = await serve(settings=replace(settings, cors_origin=(origin,)))
    person = await api.person("Grace", "Hopper")
    assert await page.evaluate(FROM_A_PAGE, [api.origin, person]) == {
        "statuses": [200, 200, 200, 404],
        "name": "Ada",
        "count": 1,
        "identified": True,
    }
    with pytest.raises(Error, match="Failed to fetch"):
        await page.evaluate(FROM_A_PAGE, [closed.origin, person])

    await page.click("a")
    await expect(page).to_have_url(f"{closed.origin}/")
    await expect(page.get_by_role("heading", name="Persons")).to_be_visible()
