"""Long query strings: parsing them leaves the event loop to others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from urllib.parse import quote

import pytest

from registry.jsonapi.query import Query, QueryScope, parse_query
from tests.support import Api, reset
from tests.test_offloading import Ticker

CONDITIONS = [{"name": "last_name", "op": "contains", "val": f"x{number}"} for number in range(60)]
LONG = f"/persons?page%5Bsize%5D=1&filter={quote(json.dumps([{'or': CONDITIONS}]))}"


async def test_long_queries_are_parsed_one_by_one(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterations: list[int] = []

    def record(parameters: Iterable[tuple[str, str]], scope: QueryScope) -> Query:
        iterations.append(ticker.ticks)
        return parse_query(parameters, scope)

    monkeypatch.setattr("registry.http.views.document_view.parse_query", record)
    async with Ticker() as ticker:
        responses = await asyncio.gather(*(api.get(LONG) for _ in range(20)))
    assert {response.status for response in responses} == {200}
    assert len(iterations) == 20
    assert len(set(iterations)) == 20


async def test_no_query_is_parsed_after_a_disconnect(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, ended = asyncio.Event(), asyncio.Event()

    async def wait_for_ever() -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    parsed: list[Iterable[tuple[str, str]]] = []

    def record(parameters: Iterable[tuple[str, str]], scope: QueryScope) -> Query:
        parsed.append(parameters)
        return parse_query(parameters, scope)

    monkeypatch.setattr("registry.http.views.document_view.pause", wait_for_ever)
    monkeypatch.setattr("registry.http.views.document_view.parse_query", record)
    _, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(f"GET {LONG} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    await asyncio.wait_for(waiting.wait(), 10)
    reset(writer)
    await asyncio.wait_for(ended.wait(), 10)
    assert parsed == []
