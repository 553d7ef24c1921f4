"""Responses as bytes: framing, persistent connections, pipelining, and the common headers."""

from __future__ import annotations

import asyncio
from email.utils import parsedate_to_datetime

import pytest

from tests.conftest import HURRIED, Serve
from tests.support import VARY, Api

CLOSE = "Connection: close\r\n"

Head = dict[str, str]
"""Headers by lower-case name."""


def get(number: int, headers: str = "", *, method: str = "GET", version: str = "1.1") -> bytes:
    return f"{method} /persons/{number} HTTP/{version}\r\nHost: h\r\n{headers}\r\n".encode()


def parsed(received: bytes) -> tuple[str, Head, bytes]:
    head, _, rest = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    pairs = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
    assert len(dict(pairs)) == len(pairs), "a header is repeated"
    return first, dict(pairs), rest


async def exchange(api: Api, requests: bytes) -> bytes:
    """Return all that the service sends until it closes the connection."""
    _, head, rest = await api.exchange(requests)
    return head + b"\r\n\r\n" + rest


@pytest.mark.parametrize(
    ("version", "sent", "received"),
    [
        ("1.1", "", None),
        ("1.1", CLOSE, "close"),
        ("1.0", "", None),
        ("1.0", "Connection: keep-alive\r\n", "keep-alive"),
    ],
)
async def test_connection_header_states_if_the_connection_stays_open(
    api: Api, version: str, sent: str, received: str | None
) -> None:
    await api.person()
    kept = received == "keep-alive" or (version, received) == ("1.1", None)
    following = get(1, CLOSE, version=version) if kept else b""
    first, head, rest = parsed(await exchange(api, get(1, sent, version=version) + following))
    assert first == f"HTTP/{version} 200 OK"
    assert head.get("connection") == received
    body, others = rest[: int(head["content-length"])], rest[int(head["content-length"]) :]
    assert body.endswith(b'"links":{"self":"/persons/1"}}')
    assert others.startswith(b"HTTP/") if kept else not others


async def test_pipelined_requests_get_their_responses_in_order(api: Api) -> None:
    for _ in range(3):
        await api.person()
    rest = await exchange(api, get(2) + get(3) + get(9) + get(1, CLOSE))
    responses = []
    while rest:
        first, head, rest = parsed(rest)
        length = int(head["content-length"])
        responses.append((first.split()[1], head["x-request-id"], rest[:length]))
        rest = rest[length:]
    assert [status for status, *_ in responses] == ["200", "200", "404", "200"]
    assert len({identity for _, identity, _ in responses}) == 4
    for number, (_, _, body) in zip(
        (2, 3, 1), (responses[0], responses[1], responses[3]), strict=True
    ):
        assert f'"id":"{number}"'.encode() in body


async def test_a_client_that_does_not_read_does_not_block_others(api: Api) -> None:
    await api.person()
    server = api.client.server
    _, idle_reader = await asyncio.open_connection(server.host, server.port)
    idle_reader.write(get(1) * 20_000)
    # Far longer than 20 reads take on a busy machine; a blocked server would never respond.
    async with asyncio.timeout(60):
        statuses = [(await api.get("/persons/1")).status for _ in range(20)]
    assert statuses == [200] * 20
    idle_reader.transport.abort()
    assert (await api.get("/persons/1")).status == 200


EVERY_KIND = [
    *[("GET", "/persons/1", 200), ("GET", "/persons", 200), ("HEAD", "/persons", 200)],
    *[("OPTIONS", "/persons", 204), ("DELETE", "/persons/1", 204), ("GET", "/nothing", 404)],
    *[("PUT", "/persons", 405), ("GET", "/api/swagger", 301), ("GET", "/api/swagger/", 200)],
    *[("GET", "/api/swagger/swagger.json", 200), ("GET", "/api/swagger/nothing", 404)],
    ("GET", "/api/swagger/swagger_ui_static/swagger-ui.css", 200),
]


async def test_every_response_has_the_common_headers_once(serve: Serve) -> None:
    """Of views, of routing, and of the connection: malformed HTTP, a head that is too slow."""
    api, hurried = await serve(), await serve(limits=HURRIED)
    await api.person()
    requests = [
        (api, f"{method} {path} HTTP/1.1\r\nHost: h\r\n{CLOSE}\r\n".encode(), status)
        for method, path, status in EVERY_KIND
    ]
    for service, request, status in (*requests, (api, b"x\r\n\r\n", 400), (hurried, b"G", 408)):
        first, head, _ = parsed(await exchange(service, request))
        assert first.split(" ")[1] == f"{status}", request
        assert (head["server"], head["vary"]) == ("registry", VARY)
        assert head["cache-control"] == "private, no-cache"
        assert head["x-content-type-options"] == "nosniff"
        assert head["cross-origin-resource-policy"] == "same-origin"
        assert len(head["x-request-id"]) == 32
        parsedate_to_datetime(head["date"])
