"""Errors of the driver, and missing targets as errors of JSON:API."""

from __future__ import annotations

import pytest
from pymongo.errors import AutoReconnect, ExecutionTimeout

from registry.http.error_responses import from_storage_error
from registry.jsonapi.changes import Identifier
from registry.jsonapi.error_objects import MAX_ERRORS
from registry.storage.errors import (
    QueryTimeout,
    RecordNotFound,
    StorageError,
    Unavailable,
    translated_errors,
)


def test_each_missing_target_has_an_error_with_its_pointer() -> None:
    missing = [Identifier(None, "x", "/data/0/id"), Identifier(9, "9", "/data/1/id")]
    errors = from_storage_error(RecordNotFound.by_identifiers("computer", missing)).errors
    assert [error.pointer for error in errors] == ["/data/0/id", "/data/1/id"]
    assert "`computer` with the id `x`" in errors[0].detail


def test_missing_targets_are_reported_up_to_the_limit() -> None:
    missing = [Identifier(id_, str(id_), f"/data/{id_}/id") for id_ in range(MAX_ERRORS + 1)]
    errors = from_storage_error(RecordNotFound.by_identifiers("computer", missing)).errors
    assert len(errors) == MAX_ERRORS


@pytest.mark.parametrize(
    ("query_seconds", "cause", "expected"),
    [
        (None, AutoReconnect("gone"), Unavailable),
        (None, ExecutionTimeout("slow"), Unavailable),
        (2.0, AutoReconnect("gone"), Unavailable),
        (2.0, ExecutionTimeout("slow"), QueryTimeout),
    ],
)
def test_errors_of_the_driver_are_translated(
    query_seconds: float | None, cause: Exception, expected: type[StorageError]
) -> None:
    with pytest.raises(expected) as caught, translated_errors(query_seconds):
        raise cause
    assert caught.value.__cause__ is cause
