"""Responses as bytes: framing, pipelining, the common headers, and how large ones are built."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import pytest

from registry.http.views import document_view, resource_view, resources
from registry.jsonapi.query import Query, QueryScope
from registry.jsonapi.query_parameters import parse_query
from registry.offloading import MAX_INLINE_OBJECTS
from registry.storage.writes.unit_of_work import UnitOfWork
from tests.support import VARY, Api, Database, Ticker, complete_record, to_many

CLOSE = "Connection: close\r\n"


def get(number: int, headers: str = "", *, version: str = "1.1") -> bytes:
    return f"GET /persons/{number} HTTP/{version}\r\nHost: h\r\n{headers}\r\n".encode()


def parsed(received: bytes) -> tuple[str, dict[str, str], bytes]:
    """Return the status line, the headers by lower-case name, and the rest."""
    head, _, rest = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    pairs = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
    assert len(dict(pairs)) == len(pairs), "a header is repeated"
    return first, dict(pairs), rest


async def test_connection_header_states_if_the_connection_stays_open(api: Api) -> None:
    await api.person()
    for version, sent, received in (
        ("1.1", "", None),
        ("1.1", CLOSE, "close"),
        ("1.0", "", None),
        ("1.0", "Connection: keep-alive\r\n", "keep-alive"),
    ):
        kept = received == "keep-alive" or (version, received) == ("1.1", None)
        following = get(1, CLOSE, version=version) if kept else b""
        answer = await api.exchange(get(1, sent, version=version) + following)
        first, head, rest = parsed(b"\r\n\r\n".join(answer[1:]))
        assert first == f"HTTP/{version} 200 OK"
        assert head.get("connection") == received
        body, others = rest[: int(head["content-length"])], rest[int(head["content-length"]) :]
        assert body.endswith(b'"links":{"self":"/persons/1"}}')
        assert others.startswith(b"HTTP/") if kept else not others


async def test_every_response_has_the_common_headers_once(api: Api) -> None:
    """Those of views, and of routing."""
    await api.person()
    swagger = "/api/swagger"
    requests = [
        (f"{method} {path} HTTP/1.1\r\nHost: h\r\n{CLOSE}\r\n".encode(), status)
        for method, path, status in (
            *[("GET", "/persons/1", 200), ("GET", "/persons", 200), ("HEAD", "/persons", 200)],
            *[
                ("OPTIONS", "/persons", 204),
                ("DELETE", "/persons/1", 204),
                ("GET", "/nothing", 404),
            ],
            *[("PUT", "/persons", 405), ("GET", swagger, 301), ("GET", f"{swagger}/", 200)],
            *[("GET", f"{swagger}/swagger.json", 200), ("GET", f"{swagger}/nothing", 404)],
            ("GET", f"{swagger}/swagger_ui_static/swagger-ui.css", 200),
        )
    ]
    for request, status in requests:
        found, received, _ = await api.exchange(request)
        _, head, _ = parsed(received)
        assert found == status, request
        assert (head["server"], head["vary"]) == ("registry", VARY)
        assert head["cache-control"] == "private, no-cache"
        assert head["x-content-type-options"] == "nosniff"
        assert head["cross-origin-resource-policy"] == "same-origin"
        assert len(head["x-request-id"]) == 32
        parsedate_to_datetime(head["date"])


COUNT = MAX_INLINE_OBJECTS + 1


@pytest.fixture
async def large(api: Api, database: Database) -> Api:
    """A person with many computers, and one without."""
    await database.persons.insert_many(
        complete_record({"_id": number, "first_name": "Ada", "last_name": "Hopper"})
        for number in (1, 2)
    )
    await database.computers.insert_many(
        complete_record({"_id": number, "serial": "x", "person": 1})
        for number in range(1, COUNT + 1)
    )
    return api


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[threading.Thread]]:
    """A function that records the threads in which a function of an owner is called."""

    def record(owner: Any, name: str) -> list[threading.Thread]:
        function, seen = getattr(owner, name), list[threading.Thread]()

        def recording(*arguments: Any, **options: Any) -> Any:
            seen.append(threading.current_thread())
            return function(*arguments, **options)

        monkeypatch.setattr(owner, name, recording)
        return seen

    return record


async def test_large_documents_are_built_and_applied_beside_the_event_loop(
    large: Api, record: Callable[[Any, str], list[threading.Thread]]
) -> None:
    here = threading.current_thread()
    for path in (
        "/persons/1?include=computers",
        "/computers/1/owner?include=computers",
        "/persons?page[size]=1&include=computers",
    ):
        seen = record(resource_view, "encode_document")
        assert len((await large.get(path)).included) >= COUNT - 1
        assert len(seen) == 1
        assert here not in seen
    loaded, applied = record(resources, "load_linkage"), record(UnitOfWork, "_apply_writes")
    members = to_many(*map(str, range(1, COUNT + 1)))["data"]
    padded = [{**member, "meta": {"note": "x" * 100}} for member in members]
    assert (await large.patch("/persons/2/relationships/computers", padded)).status == 204
    assert (len(loaded), len(applied), {here} & {*loaded, *applied}) == (1, 1, set())
    assert len((await large.get("/persons/2/computers")).data) == COUNT


async def test_long_queries_are_parsed_one_by_one(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterations: list[int] = []

    def record(parameters: Iterable[tuple[str, str]], scope: QueryScope) -> Query:
        iterations.append(ticker.ticks)
        return parse_query(parameters, scope)

    monkeypatch.setattr(document_view, "parse_query", record)
    parts = [{"name": "last_name", "op": "contains", "val": f"x{number}"} for number in range(60)]
    long = f"/persons?page%5Bsize%5D=1&filter={quote(json.dumps([{'or': parts}]))}"
    async with Ticker() as ticker:
        responses = await asyncio.gather(*(api.get(long) for _ in range(20)))
    assert {response.status for response in responses} == {200}
    assert len(iterations) == len(set(iterations)) == 20
