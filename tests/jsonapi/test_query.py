"""Parsing of query strings."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import Schema, fields

from registry.jsonapi.error_objects import MAX_ERRORS
from registry.jsonapi.filtering import AllOf, AnyOf, Condition, Filter
from registry.jsonapi.query import QueryScope
from registry.jsonapi.query_parameters import (
    QUERY_PARAMETERS,
    parse_query,
)
from registry.model.attributes import Operator
from registry.model.fields import Enumeration
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.resources import RESOURCES
from tests.jsonapi.support import errors_of

GRAPH = Graph(RESOURCES)
PERSON, COMPUTER = GRAPH["person"], GRAPH["computer"]
PERSONS = QueryScope(PERSON, GRAPH, 50, many=True)

WORDS = st.sampled_from(
    [
        *["fields", "include", "sort", "filter", "page", "[", "]", "number", "size", "after", "-"],
        *["person", "computer", "owner", "computers", ".", ",", "id", "email", "1", "null", "eq"],
    ]
)
TEXT = st.lists(WORDS | st.text(max_size=3), max_size=8).map("".join)


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("page[number]=1.5&page[size]=-1", ["page[size]", "page[number]"]),
        ("filter[password]=a&page[size]=0", ["filter[password]", "page[size]"]),
        ("sort=x,id,-y&page[after]=z&page[size]=01", ["sort", "sort", "page[size]"]),
        (
            "include=x,computers,y.z&page[computers][size]=0&page[x][size]=7",
            ["include", "include", "page[computers][size]"],
        ),
        ("page[computers][size]=1&page[size]=x", ["page[computers][size]", "page[size]"]),
        ('filter=[1,{"name":"x","op":"eq","val":1}]&x=1', ["filter", "filter", "x"]),
        ("fields[x]=&fields[person]=x&sort=", ["fields[x]", "fields[person]"]),
        ("sort=id&sort=x&include=x", ["sort", "include"]),
        *((f"filter[search]={text}", ["filter[search]"]) for text in ("", " ", "a" * 1_001)),
        ("filter[search]=" + "+".join(map(str, range(90))), ["filter[search]"]),
        (
            "filter[search][contains]=a&filter[search][]=a",
            ["filter[search][contains]", "filter[search][]"],
        ),
        ("withCount=", ["withCount"]),
        ("withCount=computers,,owner", ["withCount", "withCount"]),
        ("withCount=computers,computers", ["withCount"]),
        ("withCount=computers.owner", ["withCount"]),
        ("withCount=computers.assignments", ["withCount"]),
        ("withCount=computers.owner&include=computers", ["withCount"]),
        ("withCount=a.b.c.d&sort=x", ["sort", "withCount"]),
    ],
)
def test_all_errors_of_a_query_string_are_reported(query: str, parameters: list[str]) -> None:
    errors = errors_of(partial(parse_query, parse_qsl(query, keep_blank_values=True), PERSONS))
    assert [(error.status, error.parameter) for error in errors] == [(400, p) for p in parameters]


def test_at_most_a_hundred_errors_of_a_query_string_are_reported() -> None:
    parameters = [("sort", ",".join("x" * 99)), ("include", ",".join("y" * 99))]
    assert len(errors_of(partial(parse_query, parameters, PERSONS))) == MAX_ERRORS


def rejection(name: str, scope: QueryScope) -> str:
    """Return the detail of the error for an unknown parameter."""
    (error,) = errors_of(partial(parse_query, [(name, "1")], scope))
    assert error.parameter == name
    return error.detail


def test_an_unknown_parameter_names_all_that_are_supported() -> None:
    assert rejection("colour", PERSONS) == (
        "Unknown query parameter `colour`; supported: `page[size]`, `page[number]`, "
        "`page[after]`, `page[before]`, `page[total]`, `sort`, `include`, `page[PATH][size]`, "
        "`withCount`, `fields[TYPE]`, `filter`, `filter[search]`, `filter[FIELD]`, "
        "`filter[FIELD][OPERATOR]`, `filter[FIELD][]`."
    )
    assert rejection("page[offset]", replace(PERSONS, many=False)) == (
        "Unknown query parameter `page[offset]`; supported: `include`, "
        "`page[PATH][size]`, `withCount`, `fields[TYPE]`."
    )


@given(st.lists(st.tuples(TEXT, TEXT), max_size=4))
def test_a_query_string_is_parsed_or_rejected(parameters: list[tuple[str, str]]) -> None:
    names = [name for name, _ in parameters]
    errors = errors_of(partial(parse_query, parameters, PERSONS))
    assert errors or len(set(names)) == len(names)
    assert all(error.parameter in {*names, "page[before]"} for error in errors)
    assert {error.status for error in errors} <= {400}


def test_the_documentation_has_the_table_of_parameters() -> None:
    rows = [f"| `{row.name}` | {row.applies_to} | {row.sentence} |" for row in QUERY_PARAMETERS]
    table = "\n".join(["| parameter | of | value |", "|---|---|---|", *rows])
    assert table in (Path(__file__).parents[2] / "docs/tour.md").read_text(), table


def parsed_filter(query: str) -> Filter:
    (condition,) = parse_query(parse_qsl(query), PERSONS).filters.values()
    return condition


def test_several_values_can_be_sent_as_parameters_with_brackets() -> None:
    several = parsed_filter("filter[id][]=1&filter[id][]=2")
    assert several == parsed_filter("filter[id][in]=1,2")
    assert parsed_filter("filter[id][]=1") == parsed_filter("filter[id][in]=1")
    assert parsed_filter("filter[last_name][]=King, Ada") == Condition(
        "last_name", Operator.IN, ("King, Ada",)
    )
    (error,) = errors_of(partial(parsed_filter, "filter[id][]=1&filter[id][]=x"))
    assert (error.status, error.parameter) == (400, "filter[id][]")


def test_a_search_compares_own_text_attributes_that_clients_see() -> None:
    schema = Schema.from_dict(
        {
            "name": fields.String(),
            "site": Enumeration("north", "south"),
            "pin": fields.String(load_only=True),
            "bought": fields.Date(),
        }
    )
    graph = Graph([ResourceType("tool", "tools", schema)])
    scope = QueryScope(graph["tool"], graph, 50, many=True)
    (condition,) = parse_query([("filter[search]", " a.b  C\ta.b ")], scope).filters.values()
    words = [AnyOf((Condition("name", Operator.CONTAINS, word),)) for word in ("a.b", "C")]
    assert condition == AllOf(tuple(words))


def test_an_attribute_called_search_is_no_search() -> None:
    schema = Schema.from_dict({"search": fields.String(), "name": fields.String()})
    graph = Graph([ResourceType("tool", "tools", schema)])
    scope = QueryScope(graph["tool"], graph, 50, many=True)
    (condition,) = parse_query([("filter[search]", "a b")], scope).filters.values()
    assert condition == Condition("search", Operator.EQ, "a b")
    (error,) = errors_of(
        partial(
            parse_query, [("filter[search]", "a")], replace(PERSONS, resource=GRAPH["assignment"])
        )
    )
    assert error.detail == "`assignment` has no text attributes to search."
