"""Error objects, without a server."""

from __future__ import annotations

import orjson
import pytest

from registry.jsonapi import documents as document
from registry.jsonapi.errors import (
    ApiError,
    ApiErrors,
    InvalidField,
    InvalidParameter,
    NotFound,
    TypeConflict,
)
from registry.jsonapi.pointers import pointer_to


def test_a_pointer_escapes_what_separates() -> None:
    assert pointer_to("data", "a/b~c", 0) == "/data/a~1b~0c/0"
    assert pointer_to() == ""


def test_every_error_names_its_status_code_and_title_once() -> None:
    kinds = ApiError.__subclasses__()
    assert all(400 <= kind.status < 600 for kind in kinds)
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert all(kind.title for kind in kinds)


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


def test_text_that_is_no_utf_8_is_told_all_the_same() -> None:
    told = document.errors([InvalidParameter("\udcff", parameter="x\ud800")], "1")
    (error,) = orjson.loads(told)["errors"]
    assert (error["detail"], error["source"]) == ("?", {"parameter": "x?"})
