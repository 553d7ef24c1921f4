"""The ids that requests bring along: which are kept, and which are replaced."""

from aiohttp import web
from multidict import CIMultiDict

from registry.http.request_headers import request_id, sent_id, trace_id
from tests.http.conftest import Start

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


def sent(id_: str | None = None, trace: str | None = None) -> CIMultiDict[str]:
    """Return the headers of a request."""
    headers = {"X-Request-ID": id_, "traceparent": trace}
    return CIMultiDict({name: value for name, value in headers.items() if value is not None})


def test_a_well_formed_id_is_kept_and_another_is_replaced() -> None:
    for id_ in ("a", "x" * 128, "!~", '{"a":1}', TRACE):
        assert sent_id(sent(id_)) == id_
    for id_ in ("", "x" * 129, "a b", "a\n", "a\x1b[2J", "ä", "\udcff"):
        assert sent_id(sent(id_)) is None
        assert sent_id(sent(id_, TRACEPARENT)) == TRACE


def test_the_id_of_a_well_formed_trace_is_kept_unless_the_request_has_one() -> None:
    for trace in (TRACEPARENT, TRACEPARENT[:-2] + "ff", f"cc{TRACEPARENT[2:]}-new"):
        assert trace_id(sent(trace=trace)) == sent_id(sent(trace=trace)) == TRACE
        assert sent_id(sent("a", trace)) == "a"
    for trace in (
        *("", TRACEPARENT.upper(), TRACEPARENT + "-more", TRACEPARENT + "\n"),
        *(f"ff{TRACEPARENT[2:]}", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01"),
        *(f"00-{TRACE}-{PARENT}", f"00-{TRACE}-{PARENT}-1", "00-" + "x" * 100_000),
    ):
        assert trace_id(sent(trace=trace)) is None


async def test_a_response_has_the_id_of_its_request(start: Start) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(text=request_id(request))

    client = await start(handle)
    ids = []
    for headers in ({"X-Request-ID": "mine"}, {"X-Request-ID": "not mine"}, {}):
        async with client.get("/", headers=headers) as response:
            ids.append(response.headers["X-Request-ID"])
            assert await response.text() == ids[-1]
    assert ids[0] == "mine"
    assert [len(id_) for id_ in ids[1:]] == [32, 32]
    async with client.get("/nothing", headers={"traceparent": TRACEPARENT}) as response:
        assert (await response.json(content_type=None))["errors"][0]["id"] == TRACE
