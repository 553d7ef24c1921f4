"""Which queries an index serves, and so count as cheap."""

from __future__ import annotations

import pytest

from registry.jsonapi.query import Query, QueryScope, parse_query
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.reads.query_cost import is_counted_by_index, is_indexed, is_narrow

GRAPH = Graph(RESOURCES)

INDEXED = [
    "",
    "sort=serial",
    "sort=-serial",
    "sort=serial,id",
    "sort=-id",
    "filter[serial]=a",
    "filter[owner]=1",
    "filter[owner]=1,null",
    "filter[id]=1,2,3",
    "filter[id][gt]=1",
    "filter[serial][prefix]=a&sort=serial",
    "filter[serial][ge]=a&filter[serial][lt]=b&sort=-serial",
    'filter=[{"and":[{"name":"serial","op":"eq","val":"a"}]}]',
    'filter=[{"or":[{"name":"serial","op":"eq","val":"a"},{"name":"owner","op":"in","val":[1,2]}]}]',
]

NOT_INDEXED = [
    "sort=serial,-id",
    "sort=owner,serial",
    "sort=owner.last_name",
    "filter[serial][contains]=a",
    "filter[serial][contains]=a&sort=serial",
    "filter[serial][prefix]=a",
    "filter[serial][ne]=a",
    "filter[serial]=a&filter[owner]=1",
    "filter[serial]=a&sort=owner",
    f"filter[id]={','.join(map(str, range(101)))}&sort=serial",
    f"filter[owner]={','.join(map(str, range(1, 102)))}",
    'filter=[{"or":[{"name":"serial","op":"eq","val":"a"}]}]&sort=serial',
    'filter=[{"or":[{"name":"serial","op":"eq","val":"a"}]}]&filter[owner]=1',
    'filter=[{"or":[{"name":"serial","op":"eq","val":"a"},{"name":"owner","op":"ne","val":1}]}]',
    f'filter=[{{"or":[{{"name":"owner","op":"in","val":{[*range(1, 102)]}}}]}}]',
    'filter=[{"not":{"name":"serial","op":"eq","val":"a"}}]',
    "sort=-updated_at",
    "filter[updated_by]=ci",
    "filter[created_at][ge]=2026-01-01T00:00:00Z&sort=created_at",
    'filter=[{"or":[{"name":"serial","op":"eq","val":"a"},{"name":"created_by","op":"eq","val":"a"}]}]',
]


def parse_text(text: str) -> Query:
    parameters = [part.partition("=")[::2] for part in text.split("&") if part]
    return parse_query(
        parameters, QueryScope(GRAPH["computer"], GRAPH, Settings().sizes, many=True)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [*((text, True) for text in INDEXED), *((text, False) for text in NOT_INDEXED)],
)
def test_a_query_is_cheap_only_if_one_index_serves_it(text: str, expected: bool) -> None:
    query = parse_text(text)
    assert is_indexed(query.filters, query.order) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", False), ("filter[owner]=1", True), ("filter[id]=1,2", True), ("filter[id][gt]=1", False)],
)
def test_only_values_make_a_collection_narrow(text: str, expected: bool) -> None:
    query = parse_text(text)
    assert is_narrow(query.filters) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("filter[serial]=a&sort=owner.last_name", True),
        ("filter[serial][prefix]=a", True),
        ("filter[id][gt]=1&filter[id][lt]=9", True),
        ("", False),
        ("filter[serial][ne]=a", False),
        ("filter[serial][contains]=a", False),
        ("filter[serial]=a&filter[owner]=1", False),
        ('filter=[{"or":[{"name":"serial","op":"eq","val":"a"}]}]', False),
        ("filter[updated_by]=ci", False),
    ],
)
def test_an_index_counts_conditions_on_one_field_in_any_order(text: str, expected: bool) -> None:
    assert is_counted_by_index(parse_text(text).filters) is expected
