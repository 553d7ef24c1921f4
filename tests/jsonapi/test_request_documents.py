"""Loading of request documents."""

from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.jsonapi.changes import Change, Verb
from registry.jsonapi.error_objects import DATA, MAX_ERRORS, RequestError
from registry.jsonapi.error_types import MalformedDocument
from registry.jsonapi.filtering import parse_filter
from registry.jsonapi.request_documents import MAX_CONTAINERS, DocumentLoader, load, load_member
from registry.model.graph import Graph
from registry.resources import RESOURCES
from tests.jsonapi.support import JSON, NAMED, check_pointers, errors_of

GRAPH = Graph(RESOURCES)
PERSON = GRAPH["person"]


@given(
    document=st.fixed_dictionaries({"data": NAMED | JSON}) | JSON,
    verb=st.sampled_from([Verb.ADD, Verb.UPDATE]),
)
def test_a_document_is_loaded_or_rejected_with_pointers(document: Any, verb: Verb) -> None:
    changes = list[Change]()
    errors = errors_of(lambda: changes.append(load(orjson.dumps(document), PERSON, verb)))
    check_pointers(document, errors)
    for change in changes:
        assert change.attributes.keys() <= PERSON.writable.keys()
        assert document["data"]["type"] == "person"


@given(st.binary(max_size=50))
def test_random_bytes_are_rejected(body: bytes) -> None:
    with pytest.raises(RequestError):
        load(body, PERSON, Verb.ADD)


def test_a_number_out_of_range_is_not_called_invalid_json() -> None:
    for number, text in (("1e400", "has a number that is out of range"), ("1e", "is not valid")):
        with pytest.raises(MalformedDocument, match=f"The body {text}"):
            load_member(b'{"data": %s}' % number.encode(), "data")
        (error,) = errors_of(partial(parse_filter, "filter", [], f"[{number}]", PERSON, GRAPH))
        assert error.detail.startswith(f"The value {text}")


def test_invalid_linkage_is_read_up_to_the_maximum_number_of_errors() -> None:
    load = partial(DocumentLoader().linkage, [{}] * 10_000, PERSON.relationships["computers"])
    assert len(errors_of(partial(load, Verb.UPDATE, DATA))) == MAX_ERRORS


def test_attributes_of_a_resource_without_a_type_are_checked() -> None:
    with pytest.raises(RequestError) as caught:
        load(b'{"data": {"attributes": {"serial": 5}}}', GRAPH["computer"], Verb.ADD)
    assert [error.pointer for error in caught.value.errors] == [
        "/data/type",
        "/data/attributes/serial",
    ]


@pytest.mark.parametrize("member", [b"{}", b"[]"])
def test_a_document_has_a_maximum_number_of_objects_and_arrays(member: bytes) -> None:
    most = MAX_CONTAINERS - 2
    assert len(load_member(b'{"data":[%s]}' % b",".join([member] * most), "data")) == most
    with pytest.raises(MalformedDocument, match="has more than 50,000 objects"):
        load_member(b'{"data":[%s]}' % b",".join([member] * (most + 1)), "data")
