"""Errors that quote values of a client, which may be of any depth and length."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson
import pytest

from registry.jsonapi.changes import Verb
from registry.jsonapi.error_objects import MAX_ERRORS, ErrorCollector
from registry.jsonapi.error_types import NotFound
from registry.jsonapi.operation_documents import load_operations
from registry.jsonapi.query import QueryScope
from registry.jsonapi.query_parameters import parse_query
from registry.jsonapi.request_documents import load, load_linkage
from registry.model.graph import Graph
from registry.protocol import OPERATIONS
from registry.resources import RESOURCES
from tests.jsonapi.support import errors_of
from tests.support import PERSON, add, identifier, new, update

GRAPH = Graph(RESOURCES)
PERSONS = QueryScope(GRAPH["person"], GRAPH, 50, many=True)

MARK, LONG_NAME = "@value", "@name"
LEVELS = 1000

VALUES = {
    "arrays": "[" * LEVELS + "]" * LEVELS,
    "objects": '{"a":' * LEVELS + "1" + "}" * LEVELS,
    "text": orjson.dumps("x" * 100_000).decode(),
    "list": f"[{','.join(['1'] * 50_000)}]",
}

LINKAGE: list[Any] = [
    *[MARK, [MARK], identifier("computer", MARK), [identifier(MARK, "1")]],
    [identifier("computer", MARK), {"type": "computer", "lid": MARK}],
]
RESOURCES_SENT: list[Any] = [
    *[MARK, {"type": MARK}, {"type": "person", "attributes": MARK}],
    *[new("person", first_name=MARK, email=MARK, unknown=MARK), new("person", **{LONG_NAME: 1})],
    {"type": "person", "relationships": MARK},
    *(new("person", {name: value}) for name, value in ((LONG_NAME, {}), ("computers", MARK))),
    *(new("person", {"computers": {"data": linkage}}) for linkage in LINKAGE),
]
OPERATIONS_SENT: list[Any] = [
    *[MARK, {"op": MARK}, add(PERSON | {"lid": MARK}), add(PERSON | {"type": MARK})],
    *({"op": "remove", **target} for target in ({"href": MARK}, {"ref": MARK})),
    *({"op": "remove", "ref": ref} for ref in (identifier(MARK, "1"), identifier("person", MARK))),
    {"op": "remove", "ref": {"type": "person", "lid": MARK}},
    *(
        {"op": "add", "ref": {**identifier("person", "1"), "relationship": name}, "data": linkage}
        for name in ("computers", MARK)
        for linkage in LINKAGE
    ),
    *(update(data) for data in RESOURCES_SENT if isinstance(data, dict)),
]
PARAMETERS = [
    *["include", "sort", "filter", "fields[person]", "fields[x]", "page[size]", "page[number]"],
    *["page[after]", "page[total]", "page[computers][size]", "filter[id]", "filter[x]", "x"],
    *["filter[id][in]", "filter[last_name][x]", "filter[email][null]", "filter[id][null]"],
]
CONDITIONS: list[Any] = [
    *({"name": "id", "op": "in", "val": [1]} | {name: MARK} for name in ("name", "op", "val")),
    *({name: MARK} for name in ("and", "or", "not", "x", MARK)),
]


def body(member: str, content: Any, value: str) -> bytes:
    text = orjson.dumps({member: content}).decode()
    return text.replace(f'"{MARK}"', value).replace(LONG_NAME, "n" * 100_000).encode()


def calls(value: str) -> Iterator[Callable[[], object]]:
    """Yield calls with a value at each place of a document or a query string."""
    person, computer = GRAPH["person"], GRAPH["computer"]
    for content in RESOURCES_SENT:
        for verb in (Verb.ADD, Verb.UPDATE):
            yield partial(load, body("data", content, value), person, verb)
    for linkage in LINKAGE:
        for relationship in (person.relationships["computers"], computer.relationships["owner"]):
            yield partial(load_linkage, body("data", linkage, value), relationship, Verb.REMOVE)
    for operation in OPERATIONS_SENT:
        for operations in ([operation], operation):
            yield partial(load_operations, body(OPERATIONS, operations, value), GRAPH)
    for parameter in PARAMETERS:
        yield partial(parse_query, [("include", "computers"), (parameter, value)], PERSONS)
    for condition in CONDITIONS:
        text = orjson.dumps([condition]).decode().replace(f'"{MARK}"', value, 1)
        yield partial(parse_query, [("filter", text)], PERSONS)


@pytest.mark.parametrize("value", VALUES)
def test_the_errors_of_any_request_are_short(value: str) -> None:
    rejected = 0
    for call in calls(VALUES[value]):
        errors = errors_of(call)
        assert all(len(orjson.dumps(error.to_object("id"))) < 10_000 for error in errors), call
        rejected += bool(errors)
    assert rejected > 100


def test_errors_that_are_collected_twice_are_reported_up_to_the_maximum() -> None:
    def collect() -> None:
        errors = ErrorCollector()
        with errors:
            for _ in range(MAX_ERRORS + 1):
                errors.add(NotFound("-"))

    assert len(errors_of(collect)) == MAX_ERRORS


def test_an_error_for_a_long_member_name_points_to_its_object() -> None:
    content = new("person", **{LONG_NAME: 1, "n" * 255: 1})
    errors = errors_of(partial(load, body("data", content, ""), GRAPH["person"], Verb.UPDATE))
    pointers = ["/data/attributes", f"/data/attributes/{'n' * 255}"]
    assert [error.pointer for error in errors] == pointers
