"""Storage errors, and the JSON:API errors that they become."""

from __future__ import annotations

import pytest
from pymongo.errors import AutoReconnect, ExecutionTimeout

from registry.http.error_responses import from_storage_error
from registry.jsonapi.changes import Identifier
from registry.jsonapi.error_objects import MAX_ERRORS
from registry.storage.errors import (
    BulkheadFull,
    DiskNearlyFull,
    IdTaken,
    QueryTimeout,
    RecordNotFound,
    StorageError,
    Unavailable,
    VersionConflict,
    translated_errors,
)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RecordNotFound.by_id("person", 7), 404, "not_found"),
        (VersionConflict(), 412, "precondition_failed"),
        (QueryTimeout(0.5), 503, "query_timeout"),
        (BulkheadFull("", 0.5), 503, "overloaded"),
        (DiskNearlyFull(2**26), 503, "disk_full"),
        (Unavailable(), 503, "unavailable"),
        (IdTaken(), 503, "unavailable"),
    ],
)
def test_each_error_has_a_status(error: StorageError, status: int, code: str) -> None:
    errors = from_storage_error(error)
    assert errors.status == status
    assert [one.code for one in errors.errors] == [code]
    assert [one.pointer for one in errors.errors] == [None]


def test_a_query_timeout_states_the_limit() -> None:
    assert "within 0.5 s" in str(from_storage_error(QueryTimeout(0.5)))


def test_an_overload_states_the_limit_and_when_to_retry() -> None:
    (error,) = from_storage_error(BulkheadFull("The limit.", 1.2)).errors
    assert error.detail == "The limit. Nothing was changed."
    assert error.headers == {"Retry-After": "2"}


def test_a_full_disk_states_how_much_space_changes_need() -> None:
    (error,) = from_storage_error(DiskNearlyFull(2**26)).errors
    assert "less than 64 MB of free space" in error.detail
    assert error.headers == {"Retry-After": "5"}


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
