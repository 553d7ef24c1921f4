"""Storage errors -> JSON:API errors, with their statuses and pointers."""

from __future__ import annotations

from registry.jsonapi.errors import (
    MAX_ERRORS,
    ApiErrors,
    NotFound,
    PreconditionFailed,
    QueryTooSlow,
    Unavailable,
)
from registry.storage.errors import QueryTimeout, RecordNotFound, StorageError, VersionConflict


def to_api_errors(error: StorageError) -> ApiErrors:
    """Return the errors to show to the client: 404 per missing id, 412, 400 or 503."""
    match error:
        case RecordNotFound():
            missing = error.missing[:MAX_ERRORS]
            return ApiErrors([NotFound.resource(error.type, *one) for one in missing])
        case VersionConflict():
            return ApiErrors([PreconditionFailed()])
        case QueryTimeout():
            return ApiErrors([QueryTooSlow(error.seconds)])
    return ApiErrors([Unavailable()])
