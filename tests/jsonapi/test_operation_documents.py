"""Loading of documents of operations."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.jsonapi.changes import Write
from registry.jsonapi.error_objects import MAX_ERRORS, ApiError, ApiErrors
from registry.jsonapi.error_types import MalformedDocument
from registry.jsonapi.operation_documents import MAX_OPERATIONS, load_operations
from registry.model.graph import Graph
from registry.protocol import OPERATIONS
from registry.resources import RESOURCES
from tests.jsonapi.test_request_documents import JSON, NAMED, resolve
from tests.support import traced_memory

GRAPH = Graph(RESOURCES)

PERSON = {"type": "person", "attributes": {"first_name": "Grace", "last_name": "Hopper"}}
COMPUTER = {"type": "computer", "attributes": {"serial": "SN-1"}}
COMPUTERS = {"type": "person", "id": "1", "relationship": "computers"}
OWNER = {"type": "computer", "id": "1", "relationship": "owner"}

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


def errors_of(*operations: Any) -> list[tuple[int, str]]:
    """Return the status and the pointer, relative to the array, of each error."""
    with pytest.raises(ApiErrors) as caught:
        load(*operations)
    errors = [(error.status, error.pointer or "") for error in caught.value.errors]
    assert all(pointer.startswith(f"/{OPERATIONS}/") for _, pointer in errors)
    return [(status, pointer.removeprefix(f"/{OPERATIONS}")) for status, pointer in errors]


@given(document=DOCUMENT)
def test_a_document_is_loaded_or_rejected_with_pointers(document: Any) -> None:
    try:
        operations = load_operations(orjson.dumps(document), GRAPH)
    except (ApiError, ApiErrors) as raised:
        errors = raised.errors if isinstance(raised, ApiErrors) else [raised]
        for error in errors:
            assert error.pointer is not None
            parent = error.pointer.rpartition("/")[0]
            if parent and not parent.endswith("/attributes"):
                resolve(document, parent)
    else:
        assert 0 < len(operations) == len(document[OPERATIONS]) <= 3


@given(st.binary(max_size=50))
def test_random_bytes_are_rejected(body: bytes) -> None:
    with pytest.raises(MalformedDocument):
        load_operations(body, GRAPH)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (None, [(400, "/0")]),
        ([], [(400, "/0")]),
        ({}, [(400, "/0/op")]),
        ({"op": None}, [(400, "/0/op")]),
        ({"op": ["add"]}, [(400, "/0/op")]),
        ({"op": "ADD", "data": PERSON}, [(400, "/0/op")]),
        ({"op": "replace", "data": PERSON}, [(400, "/0/op")]),
        ({"op": "add"}, [(400, "/0")]),
        ({"op": "add", "data": None}, [(400, "/0/data")]),
        ({"op": "add", "data": {}}, [(400, "/0/data")]),
        ({"op": "add", "data": [PERSON]}, [(400, "/0/data")]),
        ({"op": "add", "href": "/persons"}, [(400, "/0")]),
        ({"op": "add", "href": "/persons/1", "data": PERSON}, [(400, "/0")]),
        ({"op": "add", "ref": {"type": "person", "id": "1"}, "data": PERSON}, [(400, "/0")]),
        ({"op": "add", "ref": {"type": "person"}, "data": PERSON}, [(400, "/0/ref/id")]),
        ({"op": "add", "data": {"type": "x"}}, [(404, "/0/data/type")]),
        ({"op": "add", "href": "/persons", "data": COMPUTER}, [(409, "/0/data/type")]),
        ({"op": "update"}, [(400, "/0")]),
        ({"op": "update", "data": PERSON}, [(400, "/0/data/id")]),
        ({"op": "update", "href": "/persons", "data": PERSON}, [(400, "/0")]),
        ({"op": "update", "href": "/persons/1"}, [(400, "/0")]),
        ({"op": "update", "href": "/persons/1", "data": None}, [(400, "/0/data")]),
        ({"op": "update", "href": "/persons/1", "data": COMPUTER}, [(409, "/0/data/type")]),
        ({"op": "remove"}, [(400, "/0")]),
        ({"op": "remove", "data": {"type": "person", "id": "1"}}, [(400, "/0")]),
        ({"op": "remove", "href": "/persons"}, [(400, "/0")]),
        (
            {"op": "remove", "href": "/persons/1", "ref": {"type": "person", "id": "1"}},
            [(400, "/0")],
        ),
        ({"op": "remove", "ref": None}, [(400, "/0/ref")]),
        ({"op": "remove", "ref": {"id": "1"}}, [(400, "/0/ref")]),
        ({"op": "remove", "ref": {"type": "person"}}, [(400, "/0/ref/id")]),
        ({"op": "remove", "ref": {"type": "person", "id": None}}, [(400, "/0/ref/id")]),
        ({"op": "remove", "ref": {"type": "person", "id": {"$gt": 0}}}, [(400, "/0/ref/id")]),
        ({"op": "remove", "ref": {"type": "x", "id": "1"}}, [(404, "/0/ref/type")]),
        ({"op": "remove", "ref": {"type": "person", "id": "1", "lid": "a"}}, [(400, "/0/ref")]),
        ({"op": "remove", "ref": COMPUTERS}, [(400, "/0")]),
        *(
            ({"op": "remove", **target, "data": []}, [(400, "/0/data")])
            for target in ({"ref": {"type": "person", "id": "1"}}, {"href": "/persons/1"})
        ),
        ({"op": "update", "ref": COMPUTERS, "data": None}, [(400, "/0/data")]),
        ({"op": "add", "ref": COMPUTERS, "data": COMPUTER}, [(400, "/0/data")]),
        (
            {"op": "add", "ref": COMPUTERS, "data": [{"type": "person", "id": "1"}]},
            [(409, "/0/data/0/type")],
        ),
        ({"op": "update", "ref": OWNER, "data": []}, [(400, "/0/data")]),
        ({"op": "add", "ref": OWNER, "data": {"type": "person", "id": "1"}}, [(400, "/0/op")]),
        ({"op": "remove", "ref": OWNER, "data": None}, [(400, "/0/op")]),
        ({"op": "update", "ref": {**OWNER, "type": "person"}}, [(404, "/0/ref/relationship")]),
    ],
)
def test_an_invalid_operation_is_rejected_with_a_pointer(sent: Any, expected: Any) -> None:
    assert errors_of(sent) == expected


@pytest.mark.parametrize("name", ["", None, 0, False, [], {}, "cars", "serial"])
def test_an_invalid_relationship_is_not_taken_for_the_whole_resource(name: Any) -> None:
    sent = {"op": "remove", "ref": {"type": "person", "id": "1", "relationship": name}, "data": []}
    status = 404 if isinstance(name, str) else 400
    assert errors_of(sent) == [(status, "/0/ref/relationship")]


@pytest.mark.parametrize(
    "href",
    [
        "",
        "/",
        "persons/1",
        "/people/1",
        "/persons/1/",
        "/persons/1/computers",
        "/persons/1/relationships",
        "/persons/1/relationships/owner",
        "/persons%2F1",
        "/persons/1?include=computers",
        "/persons/1#x",
        "//elsewhere/persons/1",
        "http://elsewhere/persons/1",
        "http://[/persons/1",
        "/persons/1\n",
    ],
)
def test_an_href_that_is_not_a_path_of_the_service_is_not_found(href: str) -> None:
    assert errors_of({"op": "remove", "href": href}) == [(404, "/0/href")]


def test_long_hrefs_are_not_kept() -> None:
    with traced_memory() as size:
        for number in range(20):
            errors_of({"op": "remove", "href": f"/{number}{'a' * 500_000}"})
        assert size() < 2**20


@pytest.mark.parametrize("href", [None, 1, [], {"path": "/persons/1"}])
def test_an_href_must_be_a_string(href: Any) -> None:
    assert errors_of({"op": "remove", "href": href}) == [(400, "/0/href")]


def test_a_local_id_that_no_preceding_operation_adds_is_rejected() -> None:
    reference = {"type": "person", "lid": "a"}
    own = {**COMPUTER, "lid": "a", "relationships": {"owner": {"data": reference}}}
    assert errors_of(
        {"op": "remove", "ref": reference},
        {"op": "add", "data": own},
        {"op": "update", "data": reference},
        {"op": "add", "data": {**PERSON, "lid": "a"}},
        {"op": "add", "ref": COMPUTERS, "data": [{"type": "computer", "lid": "b"}]},
        {"op": "remove", "ref": {"type": "person", "lid": 1}},
    ) == [
        (400, "/0/ref/lid"),
        (400, "/1/data/relationships/owner/data/lid"),
        (400, "/2/data/lid"),
        (400, "/4/data/0/lid"),
        (400, "/5/ref/lid"),
    ]


def test_local_ids_are_unique_per_type() -> None:
    added = {"op": "add", "data": {**PERSON, "lid": "a"}}
    load(added, {"op": "add", "data": {**COMPUTER, "lid": "a"}})
    assert errors_of(added, added) == [(400, "/1/data/lid")]
    person = {"op": "update", "ref": OWNER, "data": {"type": "person", "lid": "a"}}
    assert errors_of({"op": "add", "data": {**COMPUTER, "lid": "a"}}, person) == [
        (400, "/1/data/lid")
    ]
    computer = {"op": "update", "ref": OWNER, "data": {"type": "computer", "lid": "a"}}
    assert errors_of(computer) == [(409, "/0/data/type")]


@pytest.mark.parametrize("sent", [None, 1, [], {}])
def test_a_local_id_must_be_a_string(sent: Any) -> None:
    assert errors_of({"op": "add", "data": {**PERSON, "lid": sent}}) == [(400, "/0/data/lid")]


def test_references_to_a_rejected_operation_are_not_reported_again() -> None:
    reference = {"type": "person", "lid": "a"}
    assert errors_of(
        {"op": "add", "data": {"type": "person", "lid": "a"}}, {"op": "remove", "ref": reference}
    ) == [(422, "/0/data/attributes/first_name"), (422, "/0/data/attributes/last_name")]


def test_up_to_100_errors_of_all_operations_are_reported() -> None:
    invalid = {"op": "add", "data": {**PERSON, "attributes": {"full_name": "A B"}}}
    errors = errors_of(invalid, {"op": "add", "data": PERSON}, {"op": "x"})
    assert errors[-1] == (400, "/2/op")
    assert {pointer.split("/")[1] for _, pointer in errors} == {"0", "2"}
    assert len(errors_of(*[invalid] * 1_000)) == MAX_ERRORS == 100


@pytest.mark.parametrize("sent", [[], None, {}, "add", 0, {"op": "add"}])
def test_operations_must_be_a_nonempty_array(sent: Any) -> None:
    with pytest.raises(MalformedDocument) as caught:
        load_operations(orjson.dumps({OPERATIONS: sent}), GRAPH)
    assert caught.value.pointer == f"/{OPERATIONS}"


def test_the_number_of_operations_is_limited() -> None:
    added = {"op": "add", "data": PERSON}
    assert len(load(*[added] * MAX_OPERATIONS)) == MAX_OPERATIONS == 1_000
    with pytest.raises(MalformedDocument, match="1 to 1000"):
        load(*[added] * (MAX_OPERATIONS + 1))


@pytest.mark.parametrize("name", ["data", "included", "errors", "atomic:results"])
def test_a_document_of_operations_must_not_have_other_top_level_members(name: str) -> None:
    document = {OPERATIONS: [{"op": "add", "data": PERSON}], name: []}
    with pytest.raises(MalformedDocument) as caught:
        load_operations(orjson.dumps(document), GRAPH)
    assert caught.value.pointer == f"/{name}"


def test_meta_links_and_jsonapi_are_allowed_in_a_document_of_operations() -> None:
    beside = {"meta": {}, "links": {}, "jsonapi": {"version": "1.1"}}
    body = orjson.dumps({OPERATIONS: [{"op": "add", "data": PERSON}], **beside})
    assert len(load_operations(body, GRAPH)) == 1
