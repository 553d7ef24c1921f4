"""How storage fails: with the errors that responses show.

What a request is refused for is raised as the protocol reports it (`registry.jsonapi.error_types`),
with the place in the request document. Nothing was written then, except as Unavailable says. Errors
of the driver become Unavailable or QueryTimeout here, and nowhere else.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pymongo.errors import ExecutionTimeout, PyMongoError

from registry.jsonapi.error_types import QueryTimeout, Unavailable

_log = logging.getLogger("registry")

DUPLICATE_KEY = 11_000
"""MongoDB's error code for a value that a unique index has already."""

VALIDATION_FAILURE = 121
"""MongoDB's error code for a record that the validator of its collection refuses."""


class RecordRefused(Unavailable, status=503, code="unavailable"):
    """The database refuses a record: another service may have declared other types."""


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
