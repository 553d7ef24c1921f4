"""The checks that support.py applies to every response: they reject invalid documents."""

from typing import Any

import pytest

from tests.support import check_document

ERROR = {"id": "1", "status": "404", "code": "not_found", "title": "Not found", "detail": "None."}
JSONAPI = {"jsonapi": {"version": "1.0"}}

COMPUTER = {
    "type": "computer",
    "id": "1",
    "attributes": {"serial": "SN-1"},
    "links": {"self": "/computers/1"},
}
COMPUTERS = {
    "data": [{"type": "computer", "id": "1"}],
    "links": {"self": "/persons/1/relationships/computers", "related": "/persons/1/computers"},
}
PERSON = {
    "type": "person",
    "id": "1",
    "attributes": {"email": None},
    "relationships": {"computers": COMPUTERS},
    "links": {"self": "/persons/1"},
}


def document(
    *, top: Any = None, person: Any = None, relationship: Any = None, included: Any = (COMPUTER,)
) -> dict[str, Any]:
    """Return a person with an included computer, with the given members replaced."""
    relationships = {"computers": COMPUTERS | (relationship or {})}
    data = PERSON | {"relationships": relationships} | (person or {})
    return JSONAPI | {"data": data, "included": list(included)} | (top or {})


@pytest.mark.parametrize(
    "valid",
    [
        document(),
        JSONAPI | {"data": None},
        JSONAPI | {"data": [PERSON], "meta": {"count": 1}, "links": {"self": "/", "next": None}},
        JSONAPI | {"data": [{"type": "computer", "id": "1"}], "included": [COMPUTER]},
        JSONAPI | {"errors": [ERROR | {"source": {"pointer": "/data"}}]},
    ],
)
def test_a_valid_document_is_accepted(valid: Any) -> None:
    check_document(valid)


@pytest.mark.parametrize(
    "invalid",
    [
        document(top={"jsonapi": {"version": "1.1"}}),
        document(top={"errors": [ERROR]}),
        document(top={"extra": 1}),
        document(top={"links": {"self": None}}),
        document(top={"data": [PERSON, PERSON]}),
        document(top={"data": PERSON | {"relationships": {}}}),
        document(person={"id": 1}),
        document(person={"extra": 1}),
        document(person={"attributes": {"computers": 1}}),
        document(person={"attributes": {"a b": 1}}),
        document(person={"attributes": {"nested": {}}}),
        document(person={"links": {"self": "/persons/2"}}),
        document(relationship={"links": {"self": "/persons/1/relationships/computers"}}),
        document(relationship={"meta": {}}),
        document(included=[COMPUTER, COMPUTER]),
        document(included=[COMPUTER | {"id": "2", "links": {"self": "/computers/2"}}]),
        JSONAPI | {"errors": []},
        JSONAPI | {"errors": [ERROR | {"status": 404}]},
        JSONAPI | {"errors": [ERROR | {"detail": "Traceback (most recent call last)"}]},
    ],
)
def test_an_invalid_document_is_rejected(invalid: Any) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check_document(invalid)
