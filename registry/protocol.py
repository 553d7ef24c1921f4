"""What the service and its clients have in common: names of members and headers, limits."""

MEDIA_TYPE = "application/vnd.api+json"

EVENT_STREAM = "text/event-stream"

CSV_TYPE = "text/csv"

NDJSON_TYPE = "application/x-ndjson"

EXTENSION = "https://jsonapi.org/ext/atomic"
"""The URI of the extension Atomic Operations in the media type."""

OPERATIONS = "atomic:operations"
RESULTS = "atomic:results"

IDEMPOTENCY_KEY = "Idempotency-Key"
IDEMPOTENCY_REPLAYED = "Idempotency-Replayed"
LAST_EVENT_ID = "Last-Event-ID"
"""The position from which a client follows the change feed, as server-sent events have it."""

REQUEST_ID = "X-Request-ID"

LARGEST_PAGE = 1_000
"""Resources on a page. Whole collections, without `page`, are streamed instead."""

PREFER, PREFERENCE_APPLIED = "Prefer", "Preference-Applied"
MERGE = "resolution=merge-duplicates"
"""The preference to update what has a unique value, instead of creating it (RFC 7240)."""

ROLL_BACK = "tx=rollback"
"""The preference to undo everything at the end."""


def media_type(extension: str | None = None) -> str:
    """Return the media type of JSON:API, with the URI of an extension if one is applied."""
    return MEDIA_TYPE if extension is None else f'{MEDIA_TYPE}; ext="{extension}"'
