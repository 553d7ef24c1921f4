"""Response documents, without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from registry.jsonapi import documents as document
from registry.jsonapi.documents import Part
from registry.jsonapi.query import Query
from registry.jsonapi.resource_objects import resource_objects
from registry.model.graph import Graph
from registry.resources import RESOURCES
from tests.support import check_document

GRAPH = Graph(RESOURCES)
EVERYTHING = Query()


async def parts(kind: str, *sizes: int) -> AsyncIterator[Part]:
    number = 0
    for size in sizes:
        records = [{"_id": number + index, "serial": "x"} for index in range(size)]
        yield Part(GRAPH[kind], records, {})
        number += size


async def read(primary: AsyncIterator[Part], included: AsyncIterator[Part] | None) -> Any:
    pieces = document.collection(primary, included, EVERYTHING, "http://h/computers")
    return orjson.loads(b"".join([piece async for piece in pieces]))


SIZES = [(), (1,), (3,), (2, 2), (1, 1, 1)]


@pytest.mark.parametrize("sizes", SIZES)
async def test_the_pieces_of_a_collection_make_one_document(sizes: tuple[int, ...]) -> None:
    whole = await read(parts("computer", *sizes), None)
    check_document(whole)
    assert whole["meta"] == {"count": sum(sizes)}
    assert [int(one["id"]) for one in whole["data"]] == list(range(sum(sizes)))
    assert "included" not in whole


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("primary", [(), (2, 1)])
async def test_the_pieces_of_what_is_included_stand_beside_the_data(
    primary: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    whole = await read(parts("computer", *primary), parts("person", *sizes))
    assert whole["meta"] == {"count": sum(primary)}
    assert [int(one["id"]) for one in whole["data"]] == list(range(sum(primary)))
    assert [int(one["id"]) for one in whole["included"]] == list(range(sum(sizes)))


def test_attributes_come_in_the_order_of_their_declaration() -> None:
    record = {"_id": 1, "email": None, "last_name": "B", "first_name": "A"}
    for names in (["email", "full_name"], ["full_name", "email"]):
        query = Query({"person": frozenset(names)})
        (shown,) = resource_objects(GRAPH["person"], [record], {}, query)
        assert list(shown["attributes"]) == ["full_name", "email"]
