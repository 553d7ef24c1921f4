"""Response documents, without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from registry.jsonapi import document
from registry.jsonapi.document import PLAIN
from registry.jsonapi.query import Query
from registry.resource import Graph
from registry.resources import RESOURCES
from tests.support import check_document

GRAPH = Graph(RESOURCES)
EVERYTHING = Query()


async def in_chunks(*sizes: int) -> AsyncIterator[list[dict[str, Any]]]:
    number = 0
    for size in sizes:
        yield [{"_id": number + index, "serial": "x"} for index in range(size)]
        number += size


@pytest.mark.parametrize("sizes", [(), (1,), (3,), (2, 2), (1, 1, 1)])
async def test_the_pieces_of_a_collection_make_one_document(sizes: tuple[int, ...]) -> None:
    pieces = document.collection(
        GRAPH["computer"], in_chunks(*sizes), PLAIN, EVERYTHING, GRAPH, "http://h/computers"
    )
    whole = orjson.loads(b"".join([piece async for piece in pieces]))
    check_document(whole)
    assert whole["meta"] == {"count": sum(sizes)}
    assert [int(one["id"]) for one in whole["data"]] == list(range(sum(sizes)))


def test_attributes_come_in_the_order_of_their_declaration() -> None:
    record = {"_id": 1, "email": None, "last_name": "B", "first_name": "A"}
    for names in (["email", "full_name"], ["full_name", "email"]):
        query = Query({"person": frozenset(names)})
        (shown,) = document.resource_objects(GRAPH["person"], [record], {}, query)
        assert list(shown["attributes"]) == ["full_name", "email"]
