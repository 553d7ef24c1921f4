"""Operations of the OpenAPI document: parameters, request bodies, responses and headers."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from registry.http.etags import make_etag
from registry.http.responses import IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED, REQUEST_ID
from registry.jsonapi.content_negotiation import MEDIA_TYPE
from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.request_documents import MAX_CONTAINERS
from registry.model.record import VERSION
from registry.model.stored_fields import ID
from registry.openapi import examples
from registry.openapi.parameters import references
from registry.openapi.schema_objects import Json, reference
from registry.resources import RESOURCES


def header(description: str, example: str, *, always: bool = True) -> Json:
    """Return a header of a response."""
    return {
        "description": description,
        "required": always,
        "schema": {"type": "string"},
        "example": example,
    }


_TAG_EXAMPLE = f'"{make_etag(b"", RESOURCES[0], {ID: 1, VERSION: 1})}"'

HEADERS: Json = {
    "RequestId": header("The id of the request; the log contains it too.", examples.EXAMPLE_ID),
    "Vary": header("The request headers that the response depends on.", "Accept, Accept-Encoding"),
    "ETag": header(
        "The entity tag of the response, for `If-None-Match` and `If-Match`.", _TAG_EXAMPLE
    ),
}

_COMMON_HEADERS: Json = {
    REQUEST_ID: reference("headers", "RequestId"),
    "Vary": reference("headers", "Vary"),
}

_ERROR_HEADERS = {
    "Retry-After": "Seconds to wait before the next attempt.",
    "WWW-Authenticate": "How to authenticate, and why the request is refused (RFC 6750, 3).",
}

REPLAYED: Json = {
    IDEMPOTENCY_REPLAYED: header(
        f"Present if an earlier request with the same `{IDEMPOTENCY_KEY}` has this result.",
        "true",
        always=False,
    )
}
"""The header of responses to POST."""

TAGGED: Json = {"ETag": reference("headers", "ETag")}
"""The header of responses that represent a resource or linkage."""

TAGGED_PAGE: Json = {
    "ETag": header(
        "The entity tag of a page, for `If-None-Match`; a whole collection has none.",
        _TAG_EXAMPLE,
        always=False,
    )
}


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation (OpenAPI 3.0.0, Operation Object).

    parameters: by component name. responses: of success, by status. errors: examples, which become
    the responses of failure. body: the request body, if there is one.
    """

    tag: str
    operation_id: str
    summary: str
    description: str
    parameters: Json
    responses: Json
    errors: Iterable[ApiError]
    body: Json | None = None

    def to_object(self) -> Json:
        """Return the Operation Object."""
        return {
            "tags": [self.tag],
            "operationId": self.operation_id,
            "summary": self.summary,
            "description": self.description,
            "parameters": references(self.parameters),
            **({"requestBody": self.body} if self.body else {}),
            "responses": self.responses | error_responses(self.errors),
        }


def body(schema: Json, example: Json, media_type: str = MEDIA_TYPE) -> Json:
    """Return a request body."""
    content = {media_type: {"schema": schema, "example": example}}
    description = f"A document of at most {MAX_CONTAINERS:,} objects and arrays."
    return {"description": description, "required": True, "content": content}


def response(
    description: str,
    schema: Json,
    documents: Json,
    headers: Json | None = None,
    media_type: str = MEDIA_TYPE,
) -> Json:
    """Return a response. documents: examples by name. headers: those that are not common to all."""
    named = {name: {"value": document} for name, document in documents.items()}
    return {
        **empty_response(description, headers),
        "content": {media_type: {"schema": schema, "examples": named}},
    }


def empty_response(description: str, headers: Json | None = None) -> Json:
    """Return a response without a body."""
    return {"description": description, "headers": _COMMON_HEADERS | (headers or {})}


def not_modified(headers: Json = TAGGED) -> Json:
    """Return the response to a read whose client has the document already."""
    return {"304": empty_response("`If-None-Match` has the entity tag of the response.", headers)}


def no_content(headers: Json | None = None) -> Json:
    """Return the response to a change that has no document."""
    return {"204": empty_response("The change has been applied.", headers)}


def with_article(noun: str) -> str:
    """Return the noun with its indefinite article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def error_responses(errors: Iterable[ApiError]) -> Json:
    """Return the responses of failure, by status, with an example of each error."""
    by_status: dict[int, list[ApiError]] = defaultdict(list)
    for error in errors:
        by_status[error.status].append(error)
    return {str(status): _error_response(by_status[status]) for status in sorted(by_status)}


def _error_response(errors: list[ApiError]) -> Json:
    return response(
        " ".join(dict.fromkeys(type(error).__doc__ or "" for error in errors)),
        reference("schemas", "ErrorDocument"),
        {error.code: examples.error(error) for error in errors},
        {
            name: header(_ERROR_HEADERS[name], value)
            for error in errors
            for name, value in error.headers.items()
        },
    )
