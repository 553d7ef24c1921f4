"""Rendering of response documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from registry.jsonapi.documents import Part, encode_collection
from registry.jsonapi.query import NO_PARAMETERS, Query
from registry.jsonapi.resource_objects import resource_objects
from registry.model.graph import Graph
from registry.resources import RESOURCES
from tests.support import check_document

GRAPH = Graph(RESOURCES)


async def parts(type_name: str, *sizes: int) -> AsyncIterator[Part]:
    first_id = 0
    for size in sizes:
        records = [{"_id": first_id + index, "serial": "x"} for index in range(size)]
        yield Part(GRAPH[type_name], records, {})
        first_id += size


async def read(primary: AsyncIterator[Part], included: AsyncIterator[Part] | None) -> Any:
    pieces = encode_collection(primary, included, NO_PARAMETERS, "http://h/computers")
    return orjson.loads(b"".join([piece async for piece in pieces]))


SIZES = [(), (1,), (3,), (2, 2), (1, 1, 1)]


@pytest.mark.parametrize("sizes", SIZES)
async def test_the_pieces_of_a_collection_form_one_document(sizes: tuple[int, ...]) -> None:
    collection = await read(parts("computer", *sizes), None)
    check_document(collection)
    assert collection["meta"] == {"count": sum(sizes)}
    assert [int(resource["id"]) for resource in collection["data"]] == list(range(sum(sizes)))
    assert "included" not in collection


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("primary", [(), (2, 1)])
async def test_included_resources_follow_the_data_of_a_streamed_collection(
    primary: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    collection = await read(parts("computer", *primary), parts("person", *sizes))
    assert collection["meta"] == {"count": sum(primary)}
    assert [int(resource["id"]) for resource in collection["data"]] == list(range(sum(primary)))
    assert [int(resource["id"]) for resource in collection["included"]] == list(range(sum(sizes)))


def test_attributes_have_the_order_of_their_declaration() -> None:
    record = {"_id": 1, "email": None, "last_name": "B", "first_name": "A"}
    for names in (["email", "full_name"], ["full_name", "email"]):
        query = Query({"person": frozenset(names)})
        (resource,) = resource_objects(GRAPH["person"], [record], {}, query)
        assert list(orjson.loads(resource)["attributes"]) == ["full_name", "email"]
