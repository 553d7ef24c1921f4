"""The access log: an entry for each request, with nothing of its query string or body."""

import asyncio
import logging
from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
from aiohttp import ClientPayloadError, web

from registry.access.principal import Principal
from registry.http.access_control import PRINCIPAL
from registry.http.request_recorder import Entry
from registry.settings import Settings
from tests.http.conftest import SECONDS, exchange, new_app, new_runner
from tests.servers import Server
from tests.support import Client, reset
from tests.waiting import eventually

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


WAITING = asyncio.Event()
"""Set once the handler of `/persons/wait` has begun."""


async def respond(request: web.Request) -> web.StreamResponse:
    match request.match_info["id"]:
        case "client":
            request[PRINCIPAL] = Principal("ci", frozenset())
        case "stream":
            stream = web.StreamResponse()
            await stream.prepare(request)
            await stream.write(b"begin")
            raise RuntimeError
        case "wait":
            WAITING.set()
            await asyncio.sleep(60)
    return web.Response(body=b"{}")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    settings = Settings(trusted_proxy=(ip_network("127.0.0.1"),), allowed_host=("h",))
    app = new_app(respond, "/persons/{id}", settings=settings)
    async with Client(Server(app, new_runner)) as client:
        yield client


def entries(caplog: pytest.LogCaptureFixture) -> list[Entry]:
    return [record.msg for record in caplog.records if isinstance(record.msg, Entry)]


@pytest.fixture(autouse=True)
def _at_level_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "registry")


async def test_an_entry_has_no_value_of_its_request(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    sent = {"X-Request-ID": "mine", "traceparent": TRACEPARENT}
    async with client.post("/persons/secret?filter=secret", data="secret", headers=sent):
        pass
    (entry,) = entries(caplog)
    assert entry.pop("milliseconds") >= 0  # type: ignore[operator] # a number
    assert entry.pop("bytes") > 2  # type: ignore[operator] # a number
    assert str(entry) == (
        f"request_id=mine trace_id={TRACEPARENT[3:35]} method=POST route=/persons/{{id}} "
        "status=200 aborted=false client=- remote=127.0.0.1"
    )
    assert "secret" not in caplog.text
    async with client.get("/persons/client"):
        pass
    assert entries(caplog)[1]["client"] == "ci"
    assert str(Entry(route="a b=c", status=200)) == "route=ab=c status=200"


@pytest.mark.parametrize(
    ("sent", "status", "method"),
    [
        (b"GET /nothing HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 404, "GET"),
        (b"x\r\n\r\n", 400, "UNKNOWN"),
        (b"GET /nothing HTTP/1.1\r\nHost: h\r\nExpect: x\r\nConnection: close\r\n\r\n", 417, "GET"),
    ],
    ids=["unknown path", "malformed", "expectation"],
)
async def test_refused_requests_have_an_entry_without_a_route(
    client: Client, caplog: pytest.LogCaptureFixture, sent: bytes, status: int, method: str
) -> None:
    received = await exchange(client, sent)
    (entry,) = entries(caplog)
    assert (entry["status"], entry["route"], entry["method"]) == (status, "none", method)
    assert entry["aborted"] is False
    assert entry["remote"] == "127.0.0.1"
    assert entry["bytes"] == len(received)
    if method != "UNKNOWN":
        assert f"X-Request-ID: {entry['request_id']}\r\n".encode() in received


async def test_responses_that_break_and_disconnects_are_aborted(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with client.get("/persons/stream") as response:
        with pytest.raises(ClientPayloadError):
            await response.read()
    _, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(b"GET /persons/wait HTTP/1.1\r\nHost: h\r\n\r\n")
    await asyncio.wait_for(WAITING.wait(), SECONDS)
    reset(writer)
    assert await eventually(lambda: len(entries(caplog)) == 2)
    assert [(entry["status"], entry["aborted"]) for entry in entries(caplog)] == [
        (200, True),
        (None, True),
    ]
    assert {entry["route"] for entry in entries(caplog)} == {"/persons/{id}"}
