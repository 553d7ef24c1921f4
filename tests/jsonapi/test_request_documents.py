"""Loading of request documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.jsonapi.changes import Verb
from registry.jsonapi.error_objects import DATA, MAX_ERRORS, ApiError, ApiErrors
from registry.jsonapi.error_types import MalformedDocument
from registry.jsonapi.request_documents import MAX_CONTAINERS, DocumentLoader, load, load_member
from registry.model.graph import Graph
from registry.resources import RESOURCES

GRAPH = Graph(RESOURCES)
PERSON = GRAPH["person"]

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMED = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "type": st.just("person") | JSON,
        "attributes": st.dictionaries(
            st.sampled_from([*PERSON.attributes, "password", "x/~"]), JSON, max_size=4
        )
        | JSON,
        "relationships": st.fixed_dictionaries(
            {},
            optional={
                "computers": st.fixed_dictionaries(
                    {"data": st.lists(st.fixed_dictionaries({"type": JSON, "id": JSON})) | JSON}
                )
                | JSON,
                "x": JSON,
            },
        )
        | JSON,
    },
)


def resolve(document: Any, pointer: str) -> Any:
    """Return the value at a JSON Pointer (RFC 6901). Raises KeyError if it does not exist."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        document = document[int(name)] if isinstance(document, list) else document[name]
    return document


@given(
    document=st.fixed_dictionaries({"data": NAMED | JSON}) | JSON,
    verb=st.sampled_from([Verb.ADD, Verb.UPDATE]),
)
def test_a_document_is_loaded_or_rejected_with_pointers(document: Any, verb: Verb) -> None:
    try:
        change = load(orjson.dumps(document), PERSON, verb)
    except (ApiError, ApiErrors) as raised:
        errors = raised.errors if isinstance(raised, ApiErrors) else [raised]
        for error in errors:
            assert error.pointer is not None
            parent = error.pointer.rpartition("/")[0]
            if parent not in {"", "/data/attributes"}:
                resolve(document, parent)
    else:
        assert change.attributes.keys() <= PERSON.writable
        assert document["data"]["type"] == "person"


@given(st.binary(max_size=50))
def test_random_bytes_are_rejected(body: bytes) -> None:
    with pytest.raises((MalformedDocument, ApiErrors)):
        load(body, PERSON, Verb.ADD)


class CountedList(list[Any]):
    """An array that counts the members that are read."""

    read = 0

    def __iter__(self) -> Iterator[Any]:
        for member in super().__iter__():
            self.read += 1
            yield member


def test_linkage_that_is_not_valid_is_read_up_to_the_maximum_number_of_errors() -> None:
    members, relationship = CountedList([{}] * 10_000), PERSON.relationships["computers"]
    with pytest.raises(ApiErrors) as caught:
        DocumentLoader().linkage(members, relationship, Verb.UPDATE, DATA)
    assert len(caught.value.errors) == MAX_ERRORS
    assert members.read == MAX_ERRORS / 2  # each lacks a type and an id


@pytest.mark.parametrize("member", [b"{}", b"[]"])
def test_a_document_has_a_maximum_number_of_objects_and_arrays(member: bytes) -> None:
    most = MAX_CONTAINERS - 2
    assert len(load_member(b'{"data":[%s]}' % b",".join([member] * most), "data")) == most
    with pytest.raises(MalformedDocument, match="has more than 50,000 objects"):
        load_member(b'{"data":[%s]}' % b",".join([member] * (most + 1)), "data")
