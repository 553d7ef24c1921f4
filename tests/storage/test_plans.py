"""Which queries indexes serve, and which are heavy."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from registry.jsonapi.query import Query, QueryScope, parse_query
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.reads.query_plans import MAX_OFFSET, QueryPlan, plan

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


def plan_of(text: str, unindexed: Collection[str] = ()) -> QueryPlan:
    query = parse_text(text)
    return plan(GRAPH["computer"], query.filters, query.order, unindexed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [*((text, True) for text in INDEXED), *((text, False) for text in NOT_INDEXED)],
)
def test_a_query_is_cheap_only_if_one_index_serves_it(text: str, expected: bool) -> None:
    assert plan_of(text).is_heavy() is not expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", False), ("filter[owner]=1", True), ("filter[id]=1,2", True), ("filter[id][gt]=1", False)],
)
def test_only_values_make_a_collection_narrow(text: str, expected: bool) -> None:
    assert plan_of(text).has_few_values is expected


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
    assert plan_of(text).is_heavy_total(MAX_OFFSET) is not expected


def test_few_index_keys_are_skipped_or_counted_cheaply() -> None:
    indexed = plan_of("filter[serial]=a")
    assert not indexed.is_heavy(MAX_OFFSET)
    assert indexed.is_heavy(MAX_OFFSET + 1)
    assert indexed.is_heavy_total(MAX_OFFSET + 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("filter[owner.email]=a", True),
        ("filter[owner.last_name][contains]=a", False),
        ("filter[owner.email]=a&filter[owner.last_name][contains]=a", False),
    ],
)
def test_indexes_find_related_resources_by_indexed_conditions(text: str, expected: bool) -> None:
    assert plan_of(text).finds_related is expected


def test_only_pages_by_id_are_cheap_while_indexes_are_built() -> None:
    for text in ("", "sort=-id"):
        assert not plan_of(text, {"computer"}).is_heavy()
    for text in ("sort=serial", "sort=owner.id", "filter[serial]=a", "filter[owner.email]=a"):
        assert plan_of(text, {"computer"}).is_heavy()
    assert plan_of("filter[serial]=a", {"computer"}).is_heavy_total(0)
    assert not plan_of("filter[owner.email]=a", {"person"}).finds_related
