"""The client beside servers of another kind, of earlier versions, and ones that break off."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from time import monotonic
from typing import Any

import pytest

from registry.client import Client, RegistryError, Resource

ENTRY = {"meta": {"collections": {"person": "http://elsewhere.example/a/persons"}}}
LINKED = {"type": "person", "id": "1", "relationships": {"computers": {"data": 5}}}
PERSON = {"type": "person", "id": "1", "attributes": {"last_name": "Hopper"}}
TYPE = "Content-Type: application/vnd.api+json"
FEED = "Content-Type: text/event-stream"
CSV = {"Accept": "text/csv"}


def response(content: Any, *headers: str, status: int = 200, length: int = 0) -> bytes:
    """Return a response. length: of the content, if not the real one."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    fixed = ("Connection: close", f"Content-Length: {length or len(body)}")
    typed = headers if "Content-Type" in "".join(headers) else (TYPE, *headers)
    lines = [f"HTTP/1.1 {status} S", *fixed, *typed, "", ""]
    return "\r\n".join(lines).encode() + body


class Script:
    """A server that gives one response per connection, and in the end none."""

    def __init__(self, *responses: bytes) -> None:
        self._responses = list(responses)
        self._writers: list[asyncio.StreamWriter] = []
        self.requests: list[str] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"(?i)content-length: (\d+)", head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            self.requests.append(head + body.decode())
            if not self._responses:
                await reader.read()
            else:
                writer.write(self._responses.pop(0))
        writer.close()

    async def close(self) -> None:
        """Close all connections, before the event loop of the test is closed."""
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Any]]:
    """Return a function that starts a server with a script, and returns both it and a client."""
    async with AsyncExitStack() as stack:

        async def start(*responses: bytes) -> tuple[Script, Client]:
            script = Script(*responses)
            server = await asyncio.start_server(script.handle, "127.0.0.1", 0)
            stack.callback(server.close)
            stack.push_async_callback(script.close)
            host, port = server.sockets[0].getsockname()
            client = await stack.enter_async_context(Client(f"http://{host}:{port}"))
            client.delays, client.pause_seconds = (0, 0), 0
            return script, client

        yield start


async def names(registry: Client) -> list[str]:
    return [resource["last_name"] async for resource in registry.list("person")]


@pytest.mark.parametrize(
    ("responses", "message"),
    [
        (
            [response({}, "Content-Type: application/json")],
            "not a registry: the response of / is not application/vnd.api+json",
        ),
        ([response(b"<html>")], "not a registry: the response of / is not a document"),
        ([response(ENTRY), response([])], "not a registry: the response of /persons"),
        ([response(ENTRY), response({})], "not a registry: the response of /persons"),
        (
            [response(ENTRY)] + 2 * [response({"data": [], "meta": {"page": {"after": "a"}}})],
            "not a registry: the response of /persons is not a page of one",
        ),
        *(
            ([*entry, response(value)], "not a registry: its response is not a document of one")
            for entry, value in [
                *(([], {"meta": {"collections": value}}) for value in ([1], {"person": 1})),
                ([], {"meta": {"collections": {}, "types": [{"type": 1}]}}),
                *(([response(ENTRY)], {"data": [value]}) for value in (1, {"id": "1"}, LINKED)),
            ]
        ),
        (
            [response(ENTRY), response(b"", "Location: http://evil.example/", status=302)],
            "/persons failed with status 302: nothing is sent to http://evil.example/",
        ),
        ([response(ENTRY), response(b" " * 2_000)], "/persons has more than 0 MiB"),
        ([response({"errors": [5]}, status=500)], "/ failed with status 500"),
        ([response({}, "Retry-After: 3600", status=503)], "/ failed with status 503"),
        ([response({}, "Retry-After: 0", status=503)] * 3, "/ failed with status 503"),
        ([b""] * 6, "cannot reach the service"),  # aiohttp repeats each GET once
        ([response(ENTRY)] + [response({"data": []}, length=99)] * 3, "cannot reach the service"),
    ],
)
async def test_a_server_of_another_kind_is_reported(
    responses: list[bytes], message: str, serve: Callable[..., Any]
) -> None:
    script, registry = await serve(*responses)
    registry.max_bytes = 1_000
    with pytest.raises(RegistryError, match=f"^{re.escape(message)}"):
        await names(registry)
    assert len(script.requests) == len(responses)


async def test_interrupted_and_temporarily_refused_reads_are_repeated(
    serve: Callable[..., Any],
) -> None:
    page, refused = response({"data": [PERSON]}), response({}, status=503)
    table = response(b"a\r\n", "Content-Type: text/csv")
    scripts = response(ENTRY), page[:-20], refused, page, refused, table, page
    _, registry = await serve(*scripts)
    assert await names(registry) == ["Hopper"]
    assert [chunk async for chunk in registry.download("x", CSV, ())] == [b"a\r\n"]
    with pytest.raises(RegistryError, match="not a registry: the response of /x is not text/csv"):
        await anext(registry.download("x", CSV, ()))


async def test_the_first_request_of_a_client_is_repeated(
    serve: Callable[..., Any],
) -> None:
    refused, page = response({}, status=503), response({"data": [PERSON]})
    _, registry = await serve(refused, response(ENTRY), page)
    assert await names(registry) == ["Hopper"]
    event = b'id: 1\ndata: {"op": "add", "data": {"type": "person", "id": "1"}}\n\n'
    feed = response(event, FEED)
    _, registry = await serve(refused, refused, feed)
    assert (await anext(registry.changes())).resource.id == "1"


async def test_the_types_are_asked_for_once(serve: Callable[..., Any]) -> None:
    created = response({"data": PERSON}, status=201)
    script, registry = await serve(response(ENTRY), created, created)
    for _ in range(2):
        await registry.create("person", last_name="Hopper", email=None)
    assert [request.split()[0] for request in script.requests] == ["GET", "POST", "POST"]


async def test_an_unresponsive_server_is_given_up(serve: Callable[..., Any]) -> None:
    _, registry = await serve()
    registry.timeout_seconds = 0.1
    with pytest.raises(RegistryError, match=r"no response from the service within 0\.1 s"):
        await names(registry)


async def test_a_creation_is_repeated_with_its_key(serve: Callable[..., Any]) -> None:
    created = response({"data": PERSON}, 'ETag: "1"', status=201)
    script, registry = await serve(response(ENTRY), b"", created, b"", b"", b"")
    person = await registry.create("person", last_name="Hopper")
    keys = [re.findall("Idempotency-Key: (.*)", request) for request in script.requests]
    assert keys[0] == []
    assert keys[1] == keys[2] != []
    with pytest.raises(RegistryError, match="cannot reach"):
        await registry.update(person, last_name="Murray")
    assert [text.split()[0] for text in script.requests] == ["GET", "POST", "POST"] + 3 * ["PATCH"]


async def test_an_earlier_version_is_reported(serve: Callable[..., Any]) -> None:
    _, registry = await serve(
        response(ENTRY), response({"data": PERSON}, status=201), response({}, status=404)
    )
    with pytest.raises(RegistryError, match="earlier version, has executed /persons without"):
        await registry.merge("person", last_name="Hopper")
    with pytest.raises(RegistryError, match="/changes failed with status 404"):
        await anext(registry.changes())


async def test_none_clears_a_relationship_that_an_earlier_version_has_shown(
    serve: Callable[..., Any],
) -> None:
    script, registry = await serve(response(ENTRY), response({"data": PERSON}))
    person = Resource("person", "1", related={"manager": Resource("person", "2")}, etag='"1"')
    await registry.update(person, manager=None)
    assert '"relationships": {"manager": {"data": null}}' in script.requests[-1]


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (b"data: " + b"x" * 5_000_000, "/changes has a transaction that is too large"),
        (b"data: 1234\n\n" * 300, "/changes has a transaction that is too large"),
        *(
            (b"id: 1\ndata: %b\n\n" % body, "not a registry")
            for body in (b"{", b"[]", b'{"op": 1}')
        ),
    ],
)
async def test_changes_of_another_kind_are_reported(
    events: bytes, message: str, serve: Callable[..., Any]
) -> None:
    _, registry = await serve(response(events, FEED))
    registry.transaction_bytes = 1_000
    with pytest.raises(RegistryError, match=message):
        await anext(registry.changes())


async def test_changes_are_followed_again_when_the_service_says(
    serve: Callable[..., Any],
) -> None:
    event = b'id: 1\ndata: {"op": "remove", "ref": {"type": "person", "id": "1"}}\n\n'
    script, registry = await serve(
        response({}, "Retry-After: 1", status=503), response(event, FEED)
    )
    registry.max_delay = 0
    begun = monotonic()
    assert (await anext(registry.changes())).op == "remove"
    assert monotonic() - begun >= 1
    assert len(script.requests) == 2


NO_URLS = ("127.0.0.1:8080", "ftp://h/", "http://h/?a=1", "http://", "")


def test_a_client_is_made_without_an_event_loop_and_used_when_open() -> None:
    client = Client("http://127.0.0.1:8080")
    with pytest.raises(RuntimeError, match="is not open: use it in `async with"):
        asyncio.run(client.position())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        *((value, "is not a base URL such as") for value in NO_URLS),
        ("http://user:pw@h/", "a base URL has no user or password"),
    ],
)
def test_an_invalid_base_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Client(url)
