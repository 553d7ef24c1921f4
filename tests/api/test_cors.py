"""Cross-origin requests: the CORS protocol of the Fetch standard, off by default."""

from dataclasses import replace

import pytest
from multidict import CIMultiDictProxy

from registry.settings import Settings
from tests.conftest import Serve
from tests.support import VARY, Api, CommandLog

ORIGIN = "https://app.example"

PREFLIGHT = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "if-match"}

RESPONSES = [
    *[("GET", "/persons/1", 200), ("GET", "/persons", 200), ("HEAD", "/persons", 200)],
    *[("GET", "/persons?page[size]=1", 200), ("GET", "/persons/9", 404), ("GET", "/nothing", 404)],
    *[("GET", "/persons?unknown=1", 400), ("PUT", "/persons", 405), ("POST", "/persons", 415)],
    *[("OPTIONS", "/persons", 204), ("GET", "/api/swagger", 301)],
    *[("GET", "/api/swagger/swagger.json", 200), ("DELETE", "/persons/1", 204)],
]
"""A document, a stream, pages, errors of views, of routing and of the body, and other responses."""


async def test_a_page_of_another_site_gets_403_unless_it_is_a_link(
    api: Api, commands: CommandLog
) -> None:
    commands.names()
    for sent in (CROSS_SITE, {**CROSS_SITE, "Origin": ORIGIN}, LINK):
        for path in ("/persons", "/persons/1", "/metrics", "/nothing"):
            response = await api.get(path, **sent)
            assert (response.status, response.code) == (403, "cross_site_request"), path
            assert "--cors-origin" in response.document["errors"][0]["detail"]
    for path, status in (("/", 200), ("/api/swagger", 301), ("/api/swagger/", 200)):
        assert (await api.get(path, **CROSS_SITE)).errors == [(403, "")], path
        sent = {**LINK, "Accept": "text/html"}
        assert (await api.fetch(path, **sent)).status == status, path
    assert commands.names() == []
    for site in ("same-origin", "same-site", "none"):
        assert (await api.get("/persons", **{"Sec-Fetch-Site": site})).status == 200


@pytest.fixture
async def shared(serve: Serve, settings: Settings) -> Api:
    """A service that pages of one origin, and of another, may use."""
    return await serve(settings=replace(settings, cors_origin=(ORIGIN, "http://127.0.0.1:3000")))


async def headers(api: Api, method: str, path: str, **sent: str) -> CIMultiDictProxy[str]:
    """Return the headers of a response."""
    return (await api.fetch(path, method, **sent)).headers


def cors_headers(received: CIMultiDictProxy[str]) -> dict[str, str]:
    prefix = "Access-Control-"
    return {name: value for name, value in received.items() if name.startswith(prefix)}


async def test_every_response_has_the_headers_for_an_allowed_origin_once(shared: Api) -> None:
    await shared.person()
    for method, path, status in RESPONSES:
        response = await shared.fetch(path, method, Origin=ORIGIN)
        assert response.status == status, path
        assert response.headers.getall("Access-Control-Allow-Origin") == [ORIGIN], path
        (exposed,) = response.headers.getall("Access-Control-Expose-Headers")
        assert exposed == (
            "Content-Disposition, Etag, Location, Retry-After, Idempotency-Replayed, "
            "Registry-Position, Preference-Applied, X-Request-ID"
        )
        assert sorted(response.headers.getall("Vary")) == [VARY, "Origin"], path
        assert "Access-Control-Allow-Credentials" not in response.headers


async def test_an_allowed_page_sees_why_its_request_is_refused(shared: Api) -> None:
    for status, sent in (
        (417, {"Expect": "a miracle"}),
        (421, {"Host": "attacker.example"}),
    ):
        response = await shared.get("/persons", Origin=ORIGIN, **sent)
        assert response.status == status
        assert response.headers["Access-Control-Allow-Origin"] == ORIGIN


async def test_other_origins_get_no_permission(shared: Api) -> None:
    await shared.person()
    similar = (f"{ORIGIN}.attacker.example", "http://app.example", ORIGIN[:-1], "null")
    for sent in ({}, *({"Origin": origin} for origin in similar)):
        for method, path, _ in RESPONSES[:-1]:
            received = await headers(shared, method, path, **sent)
            assert cors_headers(received) == {}
            assert sorted(received.getall("Vary")) == [VARY, "Origin"]
        assert cors_headers(await headers(shared, "OPTIONS", "/persons", **sent, **PREFLIGHT)) == {}


async def test_a_preflight_allows_all_methods_and_headers_that_a_client_needs(shared: Api) -> None:
    for path in ("/persons", "/persons/1", "/operations", "/nothing"):
        response = await shared.fetch(path, "OPTIONS", Origin=ORIGIN, **PREFLIGHT)
        received = response.headers
        assert response.status == 204
        assert received["Access-Control-Allow-Origin"] == ORIGIN
        methods = set(received["Access-Control-Allow-Methods"].split(", "))
        assert methods == {"GET", "HEAD", "POST", "PATCH", "DELETE"}
        allowed = set(received["Access-Control-Allow-Headers"].lower().split(", "))
        assert allowed >= {"authorization", "content-type", "accept", "if-match", "if-none-match"}
        assert allowed >= {"idempotency-key", "x-request-id", "traceparent"}
        assert received["Access-Control-Max-Age"] == "7200"
        assert received["X-Request-ID"]


CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
LINK = {**CROSS_SITE, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


async def test_allowed_origins_may_be_foreign(
    shared: Api, serve: Serve, settings: Settings
) -> None:
    sent = {**CROSS_SITE, "Sec-Fetch-Mode": "cors", "Origin": ORIGIN}
    assert (await shared.get("/persons", **sent)).status == 200
    received = await headers(shared, "OPTIONS", "/persons", **sent, **PREFLIGHT)
    assert received["Access-Control-Allow-Origin"] == ORIGIN
    assert (await shared.get("/persons", **{**sent, "Origin": "null"})).status == 403
    assert (await shared.get("/persons", **CROSS_SITE)).status == 403
    api = await serve(settings=replace(settings, cors_origin=("*",)))
    for allowed in (sent, CROSS_SITE, LINK):
        assert (await api.get("/persons", **allowed)).status == 200


@pytest.mark.parametrize(("setting", "allowed"), [((), None), (("*",), "*")])
async def test_no_origin_is_allowed_by_default_and_all_with_a_wildcard(
    serve: Serve, settings: Settings, setting: tuple[str, ...], allowed: str | None
) -> None:
    api = await serve(settings=replace(settings, cors_origin=setting))
    for sent in ({}, PREFLIGHT):
        received = await headers(api, "OPTIONS", "/persons", Origin="null", **sent)
        assert received.get("Access-Control-Allow-Origin") == allowed
        assert bool(cors_headers(received)) is bool(allowed)
        assert received.getall("Vary") == [VARY]
