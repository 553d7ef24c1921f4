"""The root of the service, and paths with a slash at their end."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

import registry.web
from registry.settings import Settings
from tests.conftest import Grant, Serve
from tests.support import MEDIA_TYPE, Api

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

PAGE = Path(registry.web.__file__).parent / "page"

LATER = {"csv.js", "import.js", "importer.js"}
"""The modules of the page that are loaded when they are needed."""

OTHERS = ("changes", "openapi", "swagger_ui")
"""The members of `meta` with other URLs that can be read."""

Fetch = Callable[..., Awaitable[tuple[int, dict[str, str], Any]]]


async def fetch(
    api: Api, method: str, path: str, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Send a request; return the status, headers and body, without following a redirect."""
    async with api.client.request(method, path, headers=headers, allow_redirects=False) as response:
        return response.status, dict(response.headers), await response.read()


@pytest.mark.parametrize(
    "accept",
    ["*/*", MEDIA_TYPE, "application/json", f"text/html;q=0.9, {MEDIA_TYPE}", "text/html;q=0"],
)
async def test_the_root_links_to_everything(api: Api, accept: str) -> None:
    status, headers, body = await fetch(api, "GET", "/", Accept=accept)
    assert (status, headers["Content-Type"]) == (200, MEDIA_TYPE)
    document = json.loads(body)
    # JSON:API 1.0 requires one of `data`, `errors` and `meta`, and allows no other links here.
    assert document.keys() == {"jsonapi", "links", "meta"}
    assert document["links"] == {"self": f"{api.origin}/"}
    meta = document["meta"]
    assert meta["collections"] == {
        "person": f"{api.origin}/persons",
        "computer": f"{api.origin}/computers",
        "assignment": f"{api.origin}/assignments",
    }
    assert meta["operations"] == f"{api.origin}/operations"
    for url in (*meta["collections"].values(), *map(meta.get, OTHERS)):
        status, _, _ = await fetch(api, "GET", url.removeprefix(api.origin))
        assert status == 200, url


@pytest.mark.parametrize("accept", [BROWSER, "text/html", "TEXT/HTML;q=0.5"])
async def test_the_root_shows_browsers_the_page(api: Api, accept: str) -> None:
    for method in ("GET", "HEAD"):
        status, headers, body = await fetch(api, method, "/?utm_source=x", Accept=accept)
        assert (status, bool(body)) == (200, method == "GET")
        assert headers["Content-Type"] == "text/html"
        assert "Accept" in headers["Vary"]
        assert "connect-src 'self'" in headers["Content-Security-Policy"]
        known = {"Accept": accept, "If-None-Match": headers["Etag"]}
        assert (await fetch(api, method, "/", **known))[0] == 304


async def test_the_page_needs_no_other_host_and_at_most_60_kb(api: Api) -> None:
    """A reverse proxy may serve it below a prefix, so all its links are relative."""
    _, _, body = await fetch(api, "GET", "/", Accept=BROWSER)
    names = {file.name for file in PAGE.iterdir()}
    linked = re.findall(r'(?:href|src)="([^"#]+)"', body.decode())
    assert {f"api/page/{name}" for name in names - {"index.html", *LATER}} == {
        one for one in linked if not one.startswith("api/swagger/")
    }
    size = 0
    for name in names:
        async with api.client.get(f"/api/page/{name}") as response:
            assert response.status == 200
            size += int(response.headers["Content-Length"])
            hosts = set(re.findall(rb"https?://([^/\"]+)", await response.read()))
            assert hosts <= {b"jsonapi.org", b"www.w3.org"}  # of names, which nobody visits
    assert size <= 60_000


async def test_the_root_tells_what_a_token_allows(
    serve: Serve, secured: Settings, grant: Grant
) -> None:
    api = await serve(settings=secured)
    expected = {
        "read": (["person", "computer", "assignment"], []),
        "computers:write": (["computer"], ["computer"]),
    }
    for scope, (read, write) in expected.items():
        token = await grant(scope)
        _, _, body = await fetch(api, "GET", "/", Authorization=f"Bearer {token}")
        access = json.loads(body)["meta"]["access"]
        assert (access["read"], access["write"]) == (read, write)
    assert (await api.get("/", Authorization="Bearer x")).errors == [(401, "")]


async def test_the_root_negotiates_and_rejects_parameters_as_other_paths_do(api: Api) -> None:
    assert (await api.get("/", Accept=f"{MEDIA_TYPE}; charset=utf-8")).status == 406
    response = await api.get("/?include=persons&x=1")
    assert response.errors == [(400, "include"), (400, "x")]


async def test_the_root_needs_no_token(serve: Serve, settings: Settings, grant: Grant) -> None:
    api = await serve(settings=replace(settings, auth="on"))
    assert (await fetch(api, "GET", "/"))[0] == 200
    assert (await fetch(api, "GET", "/", Accept=BROWSER))[0] == 200
    for path in ("/persons/", "/persons/1/", "/persons/x/"):
        assert (await fetch(api, "GET", path))[0] == 401
    sent = {"Authorization": f"Bearer {await grant('computers:read')}"}
    for path in ("/persons/", "/persons/1/", "/persons/x/"):
        assert (await fetch(api, "GET", path, **sent))[0] == 308


@pytest.mark.parametrize(
    "path",
    [
        "/persons",
        "/persons/1",
        "/persons/x",
        "/persons/1/computers",
        "/persons/1/relationships/computers",
        "/computers/9/owner",
        "/operations",
    ],
)
async def test_a_slash_at_the_end_is_redirected_away_for_every_method(api: Api, path: str) -> None:
    query = "?page%5Bsize%5D=1&filter[a]=b/c/&x=%2F%25"
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        status, head, body = await api.exchange(
            f"{method} {path}/{query} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode()
        )
        assert (status, body) == (308, b"")
        (location,) = [
            line.partition(b": ")[2].decode()
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"location:")
        ]
        for base in ("http://h", "https://proxy.example/fleet"):
            target = urljoin(f"{base}{path}/{query}", location)
            assert target == base + path + query.replace("[", "%5B").replace("]", "%5D")


async def test_a_client_that_follows_the_redirect_repeats_its_request(api: Api) -> None:
    names = {"first_name": "Grace", "last_name": "Hopper"}
    created = await api.post("/persons/", {"type": "person", "attributes": names})
    assert (created.status, created.id) == (201, "1")
    assert (await api.get("/persons/1/?fields[person]=email")).data["attributes"] == {"email": None}
    assert (await api.request("DELETE", "/persons/1/")).status == 204


@pytest.mark.parametrize(
    "identifier",
    [
        "%2F%2Fattacker.example",
        "https:%2F%2Fattacker.example",
        "\\\\attacker.example",
        "%0D%0Ax:y",
        "\xff",
    ],
)
async def test_a_redirect_never_leads_to_another_host(api: Api, identifier: str) -> None:
    target = f"/persons/{identifier}/"
    status, head, _ = await api.exchange(
        f"GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode("latin-1")
    )
    assert status in {308, 400}
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"location:"):
            location = line.partition(b": ")[2].decode("ascii")
            assert urljoin(f"http://h{target}", location).startswith("http://h/persons/")
    assert b"\r\nx:y" not in head
    absolute = f"GET http://h{target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    _, head, _ = await api.exchange(absolute.encode("latin-1"))
    assert b"ocation: http" not in head


async def test_a_redirect_behind_a_proxy_keeps_its_host(serve: Serve, settings: Settings) -> None:
    api = await serve(settings=replace(settings, trusted_proxy=(ip_network("127.0.0.1"),)))
    forwarded = {"X-Forwarded-Host": "fleet.example", "X-Forwarded-Proto": "https"}
    _, headers, _ = await fetch(api, "GET", "/persons/?a=b", **forwarded)
    assert urljoin("https://fleet.example/persons/", headers["Location"]) == (
        "https://fleet.example/persons?a=b"
    )
