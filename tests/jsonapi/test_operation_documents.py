"""Loading of documents of operations."""

from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.jsonapi.changes import Write
from registry.jsonapi.error_objects import MAX_ERRORS
from registry.jsonapi.error_types import MalformedDocument
from registry.jsonapi.operation_documents import MAX_OPERATIONS, load_operations
from registry.model.graph import Graph
from registry.protocol import OPERATIONS
from registry.resources import RESOURCES
from tests.jsonapi.support import JSON, NAMED, check_pointers, errors_of
from tests.support import COMPUTER, PERSON, add, identifier, new, traced_memory, update

GRAPH = Graph(RESOURCES)
ONE, REMOVE = identifier("person", "1"), {"op": "remove"}
COMPUTERS = {**ONE, "relationship": "computers"}
OWNER = {**identifier("computer", "1"), "relationship": "owner"}

NO_TEXTS: list[Any] = [1, [], {}]

INVALID: list[tuple[Any, int, str]] = [
    *[(None, 400, ""), ([], 400, ""), ({}, 400, "/op"), ({"op": None}, 400, "/op")],
    *(({"op": op, "data": PERSON}, 400, "/op") for op in (["add"], "ADD", "replace")),
    *[({"op": "add"}, 400, ""), ({"op": "update"}, 400, ""), (REMOVE, 400, "")],
    *[({"op": "add", "data": None}, 400, "/data"), ({"op": "add", "data": {}}, 400, "/data")],
    ({"op": "add", "data": [PERSON]}, 400, "/data"),
    ({"op": "add", "href": "/persons"}, 400, ""),
    ({**add(PERSON), "href": "/persons/1"}, 400, ""),
    ({**add(PERSON), "ref": ONE}, 400, ""),
    ({**add(PERSON), "ref": {"type": "person"}}, 400, "/ref/id"),
    (add({"type": "x"}), 404, "/data/type"),
    ({**add(COMPUTER), "href": "/persons"}, 409, "/data/type"),
    *((add({**PERSON, "lid": lid}), 400, "/data/lid") for lid in [None, *NO_TEXTS]),
    (update(PERSON), 400, "/data/id"),
    ({**update(PERSON), "href": "/persons"}, 400, ""),
    ({"op": "update", "href": "/persons/1"}, 400, ""),
    ({"op": "update", "href": "/persons/1", "data": None}, 400, "/data"),
    ({"op": "update", "href": "/persons/1", "data": COMPUTER}, 409, "/data/type"),
    ({**REMOVE, "data": ONE}, 400, ""),
    ({**REMOVE, "href": "/persons"}, 400, ""),
    ({**REMOVE, "href": "/persons/1", "ref": ONE}, 400, ""),
    *(({**REMOVE, "href": href}, 400, "/href") for href in [None, *NO_TEXTS]),
    *(({**REMOVE, "ref": ref}, 400, "/ref") for ref in (None, {"id": "1"}, {**ONE, "lid": "a"})),
    *(
        ({**REMOVE, "ref": {"type": "person"} | id_}, 400, "/ref/id")
        for id_ in ({}, {"id": None}, {"id": {"$gt": 0}})
    ),
    ({**REMOVE, "ref": identifier("x", "1")}, 404, "/ref/type"),
    ({**REMOVE, "ref": COMPUTERS}, 400, ""),
    *(
        ({**REMOVE, **value, "data": []}, 400, "/data")
        for value in ({"ref": ONE}, {"href": "/persons/1"})
    ),
    ({"op": "update", "ref": COMPUTERS, "data": None}, 400, "/data"),
    ({"op": "add", "ref": COMPUTERS, "data": COMPUTER}, 400, "/data"),
    ({"op": "add", "ref": COMPUTERS, "data": [ONE]}, 409, "/data/0/type"),
    ({"op": "update", "ref": OWNER, "data": []}, 400, "/data"),
    *(({"op": op, "ref": OWNER, "data": None}, 400, "/op") for op in ("add", "remove")),
    ({"op": "update", "ref": {**OWNER, "type": "person"}}, 404, "/ref/relationship"),
    # Not taken for the whole resource.
    *(
        ({**REMOVE, "ref": {**ONE, "relationship": name}, "data": []}, 400, "/ref/relationship")
        for name in [None, 0, False, *NO_TEXTS]
    ),
    *(
        ({**REMOVE, "ref": {**ONE, "relationship": name}, "data": []}, 404, "/ref/relationship")
        for name in ("", "cars", "serial")
    ),
    *(
        ({**REMOVE, "href": href}, 404, "/href")
        for href in (
            *("", "/", "persons/1", "/people/1", "/persons/1/", "/persons/1/computers"),
            *("/persons/1/relationships", "/persons/1/relationships/owner", "/persons%2F1"),
            *("/persons/1?include=computers", "/persons/1#x", "//elsewhere/persons/1"),
            *("http://elsewhere/persons/1", "http://[/persons/1", "/persons/1\n"),
        )
    ),
]

PATHS = ["/persons", "/persons/1", "/persons/1/relationships/computers", "//[", "/computers/x"]
REFERENCE = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["person", "computer"]) | JSON,
        "id": st.just("1") | JSON,
        "lid": st.just("a") | JSON,
        "relationship": st.sampled_from(["computers", "owner"]) | JSON,
    },
)
OPERATION = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "update", "remove"]) | JSON,
        "ref": REFERENCE | JSON,
        "href": st.sampled_from(PATHS) | st.text(max_size=9) | JSON,
        "data": NAMED | REFERENCE | st.lists(REFERENCE, max_size=2) | JSON,
    },
)
DOCUMENT = (
    st.fixed_dictionaries({OPERATIONS: st.lists(OPERATION | JSON, max_size=4) | JSON})
    | st.dictionaries(st.sampled_from([OPERATIONS, "data", "errors"]), JSON)
    | JSON
)


def load(*operations: Any) -> list[Write]:
    return load_operations(orjson.dumps({OPERATIONS: operations}), GRAPH)


def rejections(*operations: Any) -> list[tuple[int, str]]:
    """Return the status and the pointer, relative to the array, of each error."""
    errors = [
        (error.status, error.pointer or "") for error in errors_of(partial(load, *operations))
    ]
    assert all(pointer.startswith(f"/{OPERATIONS}/") for _, pointer in errors)
    return [(status, pointer.removeprefix(f"/{OPERATIONS}")) for status, pointer in errors]


@given(document=DOCUMENT)
def test_a_document_is_loaded_or_rejected_with_pointers(document: Any) -> None:
    operations = list[Write]()
    errors = errors_of(lambda: operations.extend(load_operations(orjson.dumps(document), GRAPH)))
    check_pointers(document, errors)
    assert errors or 0 < len(operations) == len(document[OPERATIONS]) <= 3


@pytest.mark.parametrize(("sent", "status", "pointer"), INVALID)
def test_an_invalid_operation_is_rejected_with_a_pointer(
    sent: Any, status: int, pointer: str
) -> None:
    assert rejections(sent) == [(status, f"/0{pointer}")]


def test_long_hrefs_are_not_kept() -> None:
    with traced_memory() as size:
        for number in range(20):
            rejections({"op": "remove", "href": f"/{number}{'a' * 500_000}"})
        assert size() < 2**20


def test_a_local_id_that_no_preceding_operation_adds_is_rejected() -> None:
    reference = {"type": "person", "lid": "a"}
    assert rejections(
        {**REMOVE, "ref": reference},
        add(new("computer", {"owner": {"data": reference}}, serial="x"), "a"),
        {"op": "update", "data": reference},
        add(PERSON, "a"),
        {"op": "add", "ref": COMPUTERS, "data": [{"type": "computer", "lid": "b"}]},
        {**REMOVE, "ref": {"type": "person", "lid": 1}},
    ) == [
        (400, "/0/ref/lid"),
        (400, "/1/data/relationships/owner/data/lid"),
        (400, "/2/data/lid"),
        (400, "/4/data/0/lid"),
        (400, "/5/ref/lid"),
    ]


def test_local_ids_are_unique_per_type() -> None:
    added, person, computer = add(PERSON, "a"), {"type": "person"}, {"type": "computer"}
    load(added, add(COMPUTER, "a"))
    assert rejections(added, added) == [(400, "/1/data/lid")]
    owner = {"op": "update", "ref": OWNER}
    sent = [add(COMPUTER, "a"), {**owner, "data": {**person, "lid": "a"}}]
    assert rejections(*sent) == [(400, "/1/data/lid")]
    assert rejections({**owner, "data": {**computer, "lid": "a"}}) == [(409, "/0/data/type")]


def test_references_to_a_rejected_operation_are_not_reported_again() -> None:
    assert rejections(
        add({"type": "person"}, "a"), {**REMOVE, "ref": {"type": "person", "lid": "a"}}
    ) == [(422, f"/0/data/attributes/{name}") for name in ("first_name", "last_name")]


def test_up_to_100_errors_of_all_operations_are_reported() -> None:
    invalid = add(new("person", **PERSON["attributes"], full_name="A B"))
    errors = rejections(invalid, add(PERSON), {"op": "x"})
    assert errors[-1] == (400, "/2/op")
    assert {pointer.split("/")[1] for _, pointer in errors} == {"0", "2"}
    assert len(rejections(*[invalid] * 1_000)) == MAX_ERRORS == 100


def test_the_number_of_operations_is_limited() -> None:
    assert len(load(*[add(PERSON)] * MAX_OPERATIONS)) == MAX_OPERATIONS == 1_000
    with pytest.raises(MalformedDocument, match="1 to 1000"):
        load(*[add(PERSON)] * (MAX_OPERATIONS + 1))


def test_a_document_of_operations_has_an_array_of_them_and_no_other_data() -> None:
    operations = {OPERATIONS: [add(PERSON)]}
    for document, name in (
        *(
            ({OPERATIONS: value}, OPERATIONS)
            for value in [None, "add", 0, {"op": "add"}, *NO_TEXTS]
        ),
        *((operations | {name: []}, name) for name in ("data", "included", "errors")),
        (operations | {"atomic:results": []}, "atomic:results"),
    ):
        with pytest.raises(MalformedDocument) as caught:
            load_operations(orjson.dumps(document), GRAPH)
        assert caught.value.pointer == f"/{name}"
    beside = {"meta": {}, "links": {}, "jsonapi": {"version": "1.1"}}
    assert len(load_operations(orjson.dumps(operations | beside), GRAPH)) == 1
