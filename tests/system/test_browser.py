"""Swagger UI in a real browser: what the page tries out is answered, and no other host is asked."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import Browser, Locator, Page, Request, async_playwright, expect

from registry.openapi import swagger_ui
from tests.conftest import Serve
from tests.support import MEDIA_TYPE

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        reason = "NO CHROMIUM: nobody has looked at Swagger UI in a browser"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        await browser.close()


class Visit:
    """A page, and what it asked for and complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[Request] = []
        self.complaints: list[str] = []
        page.on("request", self.note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self.complaints.append(message.text))

    def note(self, request: Request) -> None:
        self.requests.append(request)

    @property
    def hosts(self) -> set[str]:
        return {urlsplit(request.url).netloc for request in self.requests}

    async def try_out(self, operation: str) -> Locator:
        """Open an operation and make its parameters and its body writable."""
        block = self.page.locator(f"#operations-{operation}")
        await block.locator(".opblock-summary").click()
        await block.get_by_role("button", name="Try it out").click()
        return block


async def execute(block: Locator) -> tuple[str, Any]:
    """Return the status and the document that the page shows as the answer."""
    await block.get_by_role("button", name="Execute").click()
    answer = block.locator(".live-responses-table .response")
    await expect(answer.locator(".response-col_status")).to_be_visible()
    status = (await answer.locator(".response-col_status").inner_text()).strip()
    body = answer.locator(".response-col_description .highlight-code pre").first
    return status, json.loads(await body.inner_text())


def choices(block: Locator, parameter: str) -> Locator:
    return block.locator(f'tr[data-param-name="{parameter}"] select')


@pytest.mark.covers("1.6", "9.openapi")
@pytest.mark.parametrize("files", ["installed", "bundled"])
async def test_a_person_is_created_and_computers_are_listed_from_the_page(
    files: str, browser: Browser, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        if files == "bundled":
            patch.setattr(sys, "prefix", str(tmp_path))
        version = swagger_ui.version()
        api = await serve()
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
    (request,) = [one for one in visit.requests if one.method == "POST"]
    assert await request.header_value("Content-Type") == MEDIA_TYPE
    assert (await api.get(created["links"]["self"])).data["attributes"]["first_name"] == "Ada"

    block = await visit.try_out("Computer-list_computers")
    await choices(block, "include").select_option("owner")
    await choices(block, "fields[person]").select_option(["full_name", "email"])
    status, listed = await execute(block)
    assert (status, listed["meta"]) == ("200", {"count": 1})
    assert listed["links"]["self"] in [one.url for one in visit.requests]
    assert listed["data"][0]["attributes"] == {"serial": "SN-7"}
    assert listed["data"][0]["relationships"]["owner"]["data"] == {"type": "person", "id": grace}
    assert [one["attributes"] for one in listed["included"]] == [
        {"full_name": "Grace Hopper", "email": "grace@example.com"}
    ]

    assert visit.hosts == {api.client.make_url("/").authority}
    assert visit.complaints == []


async def test_the_page_cannot_be_made_to_show_another_description(
    browser: Browser,
    serve: Serve,
    aiohttp_server: Callable[[web.Application], Awaitable[TestServer]],
) -> None:
    asked: list[str] = []

    async def tempt(request: web.Request) -> web.Response:
        asked.append(request.path)
        headers = {"Access-Control-Allow-Origin": "*"}
        return web.json_response({"openapi": "3.0.0", "info": {}, "paths": {}}, headers=headers)

    other = web.Application()
    other.router.add_get("/{name}", tempt)
    foreign = (await aiohttp_server(other)).make_url("/")
    api = await serve()
    page = await browser.new_page()
    await page.goto(
        str(api.client.make_url(f"/api/swagger/?url={foreign}url&configUrl={foreign}config")),
        wait_until="networkidle",
    )
    await expect(page.locator(".swagger-ui").first).to_be_visible()
    assert asked == []
