"""Parsing `sort`, without a server."""

from __future__ import annotations

import pytest

from registry.jsonapi.error_objects import ApiErrors
from registry.jsonapi.sorting import BY_ID, parse_sort, sort_names
from registry.model.authorship import AUTHORSHIP
from registry.model.graph import Graph
from registry.resources import RESOURCES

GRAPH = Graph(RESOURCES)
PERSON, COMPUTER = GRAPH["person"], GRAPH["computer"]


def parsed(sort: str, type_name: str) -> str:
    return ",".join(map(str, parse_sort(sort, GRAPH[type_name], GRAPH)))


def test_a_type_is_sorted_by_its_attributes_and_those_of_to_one_relationships() -> None:
    own = ["id", "first_name", "last_name", "full_name", "email"]
    assert sort_names(PERSON, GRAPH) == [*own, *AUTHORSHIP]
    assert sort_names(COMPUTER, GRAPH) == [
        *["id", "serial", "owner"],
        *AUTHORSHIP,
        *(f"owner.{name}" for name in own),
    ]


@pytest.mark.parametrize(
    ("sort", "type_name", "order"),
    [
        ("last_name", "person", "last_name,_id"),
        ("-last_name", "person", "-last_name,-_id"),
        ("last_name,-email", "person", "last_name,-email,-_id"),
        ("-last_name,email", "person", "-last_name,email,_id"),
        ("id", "person", "_id"),
        ("-id", "person", "-_id"),
        ("last_name,-id", "person", "last_name,-_id"),
        ("-id,last_name", "person", "-_id"),
        ("owner", "computer", "person,_id"),
        ("owner.id", "computer", "owner._id,_id"),
        ("-owner.last_name,serial", "computer", "-owner.last_name,serial,_id"),
        ("owner.last_name", "computer", "owner.last_name,owner._id,_id"),
        ("serial,-owner.last_name", "computer", "serial,-owner.last_name,-owner._id,-_id"),
        ("owner.id,owner.email", "computer", "owner._id,owner.email,_id"),
        ("owner.last_name,id", "computer", "owner.last_name,_id"),
    ],
)
def test_the_id_breaks_ties_in_the_direction_of_the_last_key(
    sort: str, type_name: str, order: str
) -> None:
    assert parsed(sort, type_name) == order


def test_an_empty_sort_is_the_default_order() -> None:
    assert parse_sort("", PERSON, GRAPH) == BY_ID


@pytest.mark.parametrize(
    "sort",
    [
        *["password", "version", "_id", "$natural", "computers", "computers.serial", "owner"],
        *["first_name.", ".", ",", "last_name,", "--id", "+id", " id", "ID", "-", "id;email"],
        *["last_name,-last_name", "id,id", "owner.owner"],
    ],
)
def test_an_unknown_or_repeated_field_is_refused(sort: str) -> None:
    with pytest.raises(ApiErrors) as raised:
        parse_sort(sort, PERSON, GRAPH)
    assert {error.parameter for error in raised.value.errors} == {"sort"}
