"""Errors, their pointers and their JSON."""

from __future__ import annotations

import orjson
import pytest

from registry.jsonapi.documents import encode_errors
from registry.jsonapi.error_objects import ApiError, ApiErrors, DocumentPosition
from registry.jsonapi.error_types import (
    InvalidField,
    InvalidParameter,
    NotFound,
    TypeConflict,
    error_types,
)


def test_a_pointer_escapes_slashes_and_tildes() -> None:
    assert DocumentPosition(("data", "a/b~c", 0)).pointer == "/data/a~1b~0c/0"
    assert DocumentPosition(()).pointer == ""


def test_every_error_class_has_a_status_a_unique_code_and_a_title() -> None:
    classes = error_types()
    assert all(400 <= error.status < 600 for error in classes)
    assert len({error.code for error in classes}) == len(classes)
    assert all(error.title for error in classes)


@pytest.mark.parametrize(
    ("errors", "status"),
    [
        ([NotFound("a"), NotFound("b")], 404),
        ([InvalidField("a")], 422),
        ([InvalidField("a"), TypeConflict("b")], 400),
    ],
)
def test_errors_of_one_status_keep_it_and_others_are_400(
    errors: list[ApiError], status: int
) -> None:
    assert ApiErrors(errors).status == status


def test_lone_surrogates_in_an_error_are_replaced() -> None:
    body = encode_errors([InvalidParameter("\udcff", parameter="x\ud800")], "1")
    (error,) = orjson.loads(body)["errors"]
    assert (error["detail"], error["source"]) == ("?", {"parameter": "x?"})
