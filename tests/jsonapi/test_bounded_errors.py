"""Errors that quote values of a client, which may be of any depth and length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import orjson
import pytest

from registry.jsonapi.changes import Verb
from registry.jsonapi.error_objects import ApiError, ApiErrors
from registry.jsonapi.operation_documents import load_operations
from registry.jsonapi.pagination import PageSizes
from registry.jsonapi.query import QueryScope, parse_query
from registry.jsonapi.request_documents import load, load_linkage
from registry.model.graph import Graph
from registry.protocol import OPERATIONS
from registry.resources import RESOURCES

GRAPH = Graph(RESOURCES)
PERSON, COMPUTER = GRAPH["person"], GRAPH["computer"]
COMPUTERS, OWNER = PERSON.relationships["computers"], COMPUTER.relationships["owner"]

MARK, LONG_NAME = "@value", "@name"
LEVELS = 1000

VALUES = {
    "arrays": "[" * LEVELS + "]" * LEVELS,
    "objects": '{"a":' * LEVELS + "1" + "}" * LEVELS,
    "text": orjson.dumps("x" * 100_000).decode(),
    "list": f"[{','.join(['1'] * 50_000)}]",
}

IDENTIFIER = {"type": "computer", "id": "1"}
ADDED = {"type": "person", "attributes": {"first_name": "A", "last_name": "B"}}

RESOURCE_OBJECTS: list[Any] = [
    MARK,
    {"type": MARK},
    {"type": "person", "attributes": MARK},
    {"type": "person", "attributes": {"first_name": MARK, "email": MARK, "unknown": MARK}},
    {"type": "person", "attributes": {LONG_NAME: 1}},
    {"type": "person", "relationships": MARK},
    {"type": "person", "relationships": {LONG_NAME: {"data": None}}},
    {"type": "person", "relationships": {"computers": MARK}},
    {"type": "person", "relationships": {"computers": {"data": MARK}}},
    {"type": "person", "relationships": {"computers": {"data": [MARK]}}},
    {"type": "person", "relationships": {"computers": {"data": [{**IDENTIFIER, "type": MARK}]}}},
    {
        "type": "person",
        "relationships": {"computers": {"data": [{"type": "computer", "id": MARK}]}},
    },
]
OPERATION_OBJECTS: list[Any] = [
    MARK,
    {"op": MARK},
    {"op": "add", "data": {**ADDED, "lid": MARK}},
    {"op": "add", "data": {**ADDED, "type": MARK}},
    {"op": "remove", "href": MARK},
    {"op": "remove", "ref": MARK},
    {"op": "remove", "ref": {"type": MARK, "id": "1"}},
    {"op": "remove", "ref": {"type": "person", "id": MARK}},
    {"op": "remove", "ref": {"type": "person", "lid": MARK}},
    {"op": "update", "ref": {"type": "person", "id": "1", "relationship": MARK}, "data": []},
    {
        "op": "add",
        "ref": {"type": "person", "id": "1", "relationship": "computers"},
        "data": [{"type": "computer", "lid": MARK}, {"type": "computer", "id": MARK}, MARK],
    },
    *({"op": "update", "data": data} for data in RESOURCE_OBJECTS if isinstance(data, dict)),
]
PARAMETERS = [
    *["include", "sort", "filter", "fields[person]", "fields[x]", "page[size]", "page[number]"],
    *["page[after]", "page[total]", "page[computers][size]", "filter[id]", "filter[x]", "x"],
    *["filter[id][in]", "filter[last_name][x]", "filter[email][null]", "filter[id][null]"],
]


def body(member: str, content: Any, value: str) -> bytes:
    text = orjson.dumps({member: content}).decode()
    return text.replace(f'"{MARK}"', value).replace(LONG_NAME, "n" * 100_000).encode()


def check_bounded(call: Callable[[], object]) -> None:
    """Check that the errors that a call raises, if any, are short and can be encoded."""
    errors: Sequence[ApiError] = ()
    try:
        call()
    except ApiError as raised:
        errors = [raised]
    except ApiErrors as raised:
        errors = raised.errors
    assert all(len(orjson.dumps(error.to_object("id"))) < 10_000 for error in errors)


@pytest.mark.parametrize("value", VALUES)
def test_the_errors_of_any_document_are_short(value: str) -> None:
    for content in RESOURCE_OBJECTS:
        for verb in (Verb.ADD, Verb.UPDATE):
            check_bounded(partial(load, body("data", content, VALUES[value]), PERSON, verb))
    for linkage in ([MARK], MARK, [{"type": "computer", "id": MARK}], [{"type": MARK}]):
        for relationship in (COMPUTERS, OWNER):
            check_bounded(
                partial(
                    load_linkage, body("data", linkage, VALUES[value]), relationship, Verb.REMOVE
                )
            )


@pytest.mark.parametrize("value", VALUES)
def test_the_errors_of_any_operation_are_short(value: str) -> None:
    for operation in OPERATION_OBJECTS:
        for operations in ([operation], operation):
            check_bounded(
                partial(load_operations, body(OPERATIONS, operations, VALUES[value]), GRAPH)
            )


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("parameter", PARAMETERS)
def test_the_errors_of_any_query_string_are_short(parameter: str, value: str) -> None:
    scope = QueryScope(PERSON, GRAPH, PageSizes(50, 1000), many=True)
    check_bounded(
        partial(parse_query, [("include", "computers"), (parameter, VALUES[value])], scope)
    )


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("member", ["name", "op", "val", "and", "or", "not", "x", MARK])
def test_the_errors_of_any_condition_are_short(member: str, value: str) -> None:
    condition = {"name": "id", "op": "in", "val": [1]} if member in {"name", "op", "val"} else {}
    text = orjson.dumps([condition | {member: MARK}]).decode()
    scope = QueryScope(PERSON, GRAPH, PageSizes(50, 1000), many=True)
    check_bounded(
        partial(parse_query, [("filter", text.replace(f'"{MARK}"', VALUES[value], 1))], scope)
    )


def test_an_error_for_a_long_member_name_points_to_its_object() -> None:
    content = {"type": "person", "attributes": {LONG_NAME: 1, "n" * 255: 1}}
    with pytest.raises(ApiErrors) as raised:
        load(body("data", content, ""), PERSON, Verb.UPDATE)
    pointers = ["/data/attributes", f"/data/attributes/{'n' * 255}"]
    assert [error.pointer for error in raised.value.errors] == pointers
