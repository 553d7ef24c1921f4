"""The ids that requests bring along: which are kept, and which are replaced."""

from __future__ import annotations

import pytest
from aiohttp import web
from multidict import CIMultiDict

from registry.http.responses import DocumentResponse, request_id, sent_id, trace_id
from tests.http.conftest import Start

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


def headers(**values: str) -> CIMultiDict[str]:
    return CIMultiDict({name.replace("_", "-"): value for name, value in values.items()})


@pytest.mark.parametrize("id_", ["a", "x" * 128, "!~", '{"a":1}', TRACE])
def test_a_well_formed_id_is_kept(id_: str) -> None:
    assert sent_id(headers(x_request_id=id_)) == id_


@pytest.mark.parametrize("id_", ["", "x" * 129, "a b", "a\n", "a\x1b[2J", "ä", "\udcff"])
def test_a_malformed_id_is_replaced(id_: str) -> None:
    assert sent_id(headers(x_request_id=id_)) is None
    assert sent_id(headers(x_request_id=id_, traceparent=TRACEPARENT)) == TRACE


@pytest.mark.parametrize("sent", [TRACEPARENT, TRACEPARENT[:-2] + "ff", f"cc{TRACEPARENT[2:]}-new"])
def test_the_id_of_a_trace_is_kept_unless_the_request_has_one(sent: str) -> None:
    assert trace_id(headers(traceparent=sent)) == TRACE
    assert sent_id(headers(traceparent=sent)) == TRACE
    assert sent_id(headers(traceparent=sent, x_request_id="a")) == "a"


@pytest.mark.parametrize(
    "sent",
    [
        "",
        TRACEPARENT.upper(),
        TRACEPARENT + "-more",
        TRACEPARENT + "\n",
        f"ff{TRACEPARENT[2:]}",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-1",
        "00-" + "x" * 100_000,
    ],
)
def test_a_malformed_trace_is_ignored(sent: str) -> None:
    assert trace_id(headers(traceparent=sent)) is None


async def test_a_response_has_the_id_of_its_request(start: Start) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        return DocumentResponse(200, request_id(request).encode(), {})

    client = await start(handle)
    ids = []
    for sent in ({"X-Request-ID": "mine"}, {"X-Request-ID": "not mine"}, {}):
        async with client.get("/", headers=sent) as response:
            ids.append(response.headers["X-Request-ID"])
            assert await response.text() == ids[-1]
    assert ids[0] == "mine"
    assert [len(id_) for id_ in ids[1:]] == [32, 32]
    async with client.get("/nothing", headers={"traceparent": TRACEPARENT}) as response:
        assert (await response.json(content_type=None))["errors"][0]["id"] == TRACE
