"""Long query strings: parsing them leaves the event loop to others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from urllib.parse import quote

import pytest

from registry.jsonapi.query import Query, QueryScope, parse_query
from tests.support import Api
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
