"""Errors of reading and writing stored resources, independent of the driver and the protocol."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from pymongo.errors import ExecutionTimeout, PyMongoError

from registry.jsonapi.changes import Identifier
from registry.jsonapi.error_objects import DATA, JsonPointer
from registry.model.resource_type import ResourceType

_log = logging.getLogger("registry")

DUPLICATE_KEY = 11_000
"""MongoDB's error code for a value that a unique index has already."""


class StorageError(Exception):
    """A request to the repository failed; nothing was written, except as Unavailable says."""


class RecordNotFound(StorageError):
    """A record does not exist: the one to read or write, or the targets of a linkage.

    type: the JSON:API type. missing: the id of each as the client sent it, and the JSON pointer to
    it; None where the id is not in the request document.
    """

    def __init__(self, type_name: str, missing: Iterable[tuple[str, str | None]]) -> None:
        self.type = type_name
        self.missing = list(missing)
        super().__init__(f"{type_name}: {', '.join(sent for sent, _ in self.missing)}")

    @classmethod
    def by_id(cls, type_name: str, id_: int) -> Self:
        """Return the error for a record that was requested by its id alone."""
        return cls(type_name, [(str(id_), None)])

    @classmethod
    def by_identifiers(cls, type_name: str, missing: Iterable[Identifier]) -> Self:
        """Return the error for resource identifiers of a request document."""
        return cls(type_name, ((id_.text, id_.pointer) for id_ in missing))


class VersionConflict(StorageError):
    """The record has none of the versions that the caller requires."""


class InvalidAttributes(StorageError):
    """Attributes that are sent, or missing, do not fit the stored resource.

    details: what is wrong, by JSON pointer into the request document.
    """

    def __init__(self, details: Mapping[str, str], position: JsonPointer) -> None:
        self.details = {position / "attributes" / name: one for name, one in details.items()}
        super().__init__(", ".join(self.details))


class IdTaken(StorageError):
    """An external writer has stored a record under an id that was just allocated."""


class DuplicateValue(StorageError):
    """Another resource has the value of a unique attribute.

    position: of the resource object in the request document. pointer: to the attribute in it. id:
    of the other resource, None if it is not stored, or not known.
    """

    def __init__(
        self,
        resource: ResourceType,
        attribute: str,
        position: JsonPointer = DATA,
        id_: int | None = None,
    ) -> None:
        super().__init__(f"{resource.type}.{attribute}")
        self.resource = resource
        self.attribute = attribute
        self.pointer = position / "attributes" / attribute
        self.id = id_


class RefusedWrites(StorageError):
    """Several writes of one request cannot be applied. errors: why; nothing was written."""

    def __init__(self, errors: Sequence[StorageError]) -> None:
        super().__init__(f"{len(errors)} errors, first: {errors[0]}")
        self.errors = errors


class InvalidRecord(StorageError):
    """A record does not have the form that its type declares. The message says where."""

    def __init__(self, collection: str, id_: object, reason: str) -> None:
        super().__init__(f"The record {collection}/{id_!r:.80} is not valid: {reason:.500}")


class TokenNameTaken(StorageError):
    """An access token that is not revoked has this name already."""


class TokenNotFound(StorageError):
    """There is no access token of this name that could be revoked."""


class FingerprintMismatch(StorageError):
    """The client has sent another request with the same idempotency key."""


class StoredResultTooLarge(StorageError):
    """The result is too large to be stored under an idempotency key; nothing was written."""


class InvalidPosition(StorageError):
    """A text is not a position in the changes of this database. The message says why."""


class PositionExpired(StorageError):
    """The changes after a position are no longer kept."""


class Unavailable(StorageError):
    """The database did not respond in time, or rejected the command; a write may be in effect."""


class BulkheadFull(StorageError):
    """The limit of a class of operations is reached; nothing was sent to the database.

    The message names the class and its limit. seconds: how long to wait before a retry.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class DiskNearlyFull(StorageError):
    """The disk lacks free space for changes. reserve: the bytes that have to be free."""

    def __init__(self, reserve: int) -> None:
        super().__init__(f"less than {reserve // 2**20} MB are free")
        self.reserve = reserve


class QueryTimeout(StorageError):
    """A valid query exceeded its time limit. seconds: the limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"not finished within {seconds:g} s")
        self.seconds = seconds


@contextmanager
def translated_errors(query_seconds: float | None = None) -> Iterator[None]:
    """Raise Unavailable for every error of the driver, and log its cause.

    query_seconds: the time limit of a query; exceeding it is a QueryTimeout instead.
    """
    try:
        yield
    except PyMongoError as error:
        if query_seconds is not None and isinstance(error, ExecutionTimeout):
            raise QueryTimeout(query_seconds) from error
        _log.error("MongoDB failed: %s", error)
        raise Unavailable from error
