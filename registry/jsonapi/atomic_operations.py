"""The names of the documents of operations (JSON:API extension Atomic Operations)."""

from registry.jsonapi.pointers import DocumentPosition

EXTENSION = "https://jsonapi.org/ext/atomic"
"""The URI of the extension in the media type."""

OPERATIONS = "atomic:operations"
RESULTS = "atomic:results"


def operation_position(index: int) -> DocumentPosition:
    """Return the position of an operation in its document."""
    return DocumentPosition((OPERATIONS, index))
