"""The errors that responses can have.

The OpenAPI description shows the docstrings of these classes as descriptions of the responses.
"""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, Self

from marshmallow.exceptions import SCHEMA

from registry.jsonapi.error_objects import ApiError, JsonPointer, quoted, unknown
from registry.model.resource_type import ResourceType
from registry.protocol import LARGEST_PAGE

_CURSOR_PROFILE = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination"


def retry_after(seconds: float) -> Mapping[str, str]:
    """Return the header that says when to send the request again."""
    return {"Retry-After": str(ceil(seconds))}


def challenge(**attributes: str) -> Mapping[str, str]:
    """Return the header that asks for an access token.

    attributes: `error`, and `scope` with the required scopes (RFC 6750, 3).
    """
    named = {"realm": "registry", **attributes}
    text = ", ".join(f'{name}="{value}"' for name, value in named.items())
    return {"WWW-Authenticate": f"Bearer {text}"}


class MalformedRequest(ApiError, status=400, code="malformed_request"):
    """The request is not valid HTTP, or its body cannot be decoded."""


class MalformedDocument(ApiError, status=400, code="malformed_document"):
    """The body is not valid JSON, or not a JSON:API request document."""


class InvalidParameter(
    ApiError, status=400, code="invalid_parameter", title="Invalid query parameter"
):
    """A query parameter is unknown, or its value is not valid."""


class InvalidPosition(ApiError, status=400, code="invalid_position"):
    """`Last-Event-ID` or `page[after]` is not a position in the changes of this database."""


class PageTooLarge(ApiError, status=400, code="page_too_large"):
    """The requested page size exceeds the maximum."""

    links: Mapping[str, str] = {"type": f"{_CURSOR_PROFILE}/max-size-exceeded"}
    meta: Mapping[str, Any] | None = {"page": {"maxSize": LARGEST_PAGE}}


class RangeNotSupported(
    ApiError, status=400, code="range_not_supported", title="Range pagination not supported"
):
    """Send either `page[after]` or `page[before]`, not both: there are no pages between cursors."""

    parameter = "page[before]"
    links: Mapping[str, str] = {"type": f"{_CURSOR_PROFILE}/range-pagination-not-supported"}


class InvalidAuthorization(ApiError, status=400, code="invalid_request"):
    """The request has more than one access token, or the form of `Authorization` is not valid."""

    headers = challenge(error="invalid_request")


class AuthenticationRequired(ApiError, status=401, code="authentication_required"):
    """The request has no access token: send one in the header `Authorization: Bearer`."""

    headers = challenge()


class InvalidToken(ApiError, status=401, code="invalid_token"):
    """The access token is malformed, unknown, expired or revoked."""

    headers = challenge(error="invalid_token")


class InsufficientScope(ApiError, status=403, code="insufficient_scope"):
    """The access token does not allow this request."""


class CrossSiteRequest(ApiError, status=403, code="cross_site_request"):
    """A page of another site has sent the request; the setting `--cors-origin` may allow it."""


class InvalidIdempotencyKey(ApiError, status=400, code="invalid_idempotency_key"):
    """`Idempotency-Key` is not a valid key, or sent more than once."""


class InvalidMerge(ApiError, status=400, code="invalid_merge"):
    """`Prefer: resolution=merge-duplicates` without a unique attribute, or with `If-Match`."""


class InvalidPreference(ApiError, status=400, code="invalid_preference"):
    """`Prefer: tx=rollback` is possible only for POST to a collection or to `/operations`."""


class NotFound(ApiError, status=404, code="not_found"):
    """The path or the resource does not exist, or linkage refers to a missing resource."""

    @classmethod
    def resource(cls, type_name: str, identifier: str, pointer: str | None = None) -> Self:
        """Return the error for a resource that does not exist."""
        kind = "local id" if pointer and pointer.endswith("/lid") else "id"
        detail = f"There is no {quoted(type_name)} with the {kind} {quoted(identifier)}."
        return cls(detail, pointer=pointer)


class MethodNotAllowed(ApiError, status=405, code="method_not_allowed"):
    """The path does not support this method; `Allow` lists the supported ones."""


class NotAcceptable(ApiError, status=406, code="not_acceptable"):
    """Every JSON:API media type in `Accept` has parameters."""


class RequestTimeout(ApiError, status=408, code="request_timeout"):
    """The body of the request did not arrive in time."""


class TypeConflict(ApiError, status=409, code="type_conflict"):
    """The type of a resource is not the expected one."""


class ValueTaken(ApiError, status=409, code="value_taken"):
    """Another resource has this value of a unique attribute; `links.about` leads to it."""

    def __init__(self, type_name: str, attribute: str, pointer: str, about: str | None) -> None:
        super().__init__(f"Another {quoted(type_name)} has this {quoted(attribute)}.", pointer)
        self.links = {"about": about} if about else {}


class PositionExpired(ApiError, status=410, code="position_expired"):
    """The changes after this position are no longer kept.

    List the resources again, and follow from the position in the header `Registry-Position` of that
    response.
    """


class PreconditionFailed(ApiError, status=412, code="precondition_failed"):
    """`If-Match` or `If-None-Match` does not hold; read the resource again."""


class BodyTooLarge(ApiError, status=413, code="body_too_large"):
    """The body exceeds the size limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"The body must not exceed {max_bytes} bytes.")


class ResultTooLarge(ApiError, status=413, code="result_too_large"):
    """The result exceeds the 16 MB that can be stored under an `Idempotency-Key`.

    Nothing was changed; send fewer operations per request.
    """


class TooManyRelated(ApiError, status=413, code="too_many_related"):
    """The change would unlink more resources than one transaction can take."""


class UnsupportedMediaType(ApiError, status=415, code="unsupported_media_type"):
    """`Content-Type` is not JSON:API without parameters, or the encoding is not supported."""


class ExpectationFailed(ApiError, status=417, code="expectation_failed"):
    """The only supported expectation is `100-continue`."""


class MisdirectedRequest(ApiError, status=421, code="misdirected_request"):
    """The host that the request names is not one of this service."""


class InvalidField(ApiError, status=422, code="invalid_field"):
    """An attribute or relationship is missing, unknown, read-only, or its value is not valid."""


def invalid_attributes(
    resource: ResourceType, defects: Mapping[str, Any], position: JsonPointer
) -> Iterator[InvalidField]:
    """Yield the errors for the attributes of a resource object, also nested ones.

    defects: by name, as in a ValidationError of marshmallow. position: of the resource object.
    """
    place = position / "attributes"
    for name, messages in defects.items():
        if name in resource.writable or messages not in ((), [resource.unknown_message]):
            detail = " ".join(_flat(messages))
        elif name in resource.readable:
            detail = "This attribute is read-only."
        else:
            detail = unknown(name, f"an attribute of `{resource.type}`", resource.attributes)
        yield InvalidField(detail, place if name == SCHEMA else place / name)


def _flat(messages: Any) -> Iterator[str]:
    if isinstance(messages, str):
        yield messages
        return
    for message in messages.values() if isinstance(messages, Mapping) else messages:
        yield from _flat(message)


class InvalidFile(ApiError, status=422, code="invalid_file"):
    """A file of rows cannot be imported, or no further."""


class IdempotencyKeyReused(ApiError, status=422, code="idempotency_key_reused"):
    """Another request with this `Idempotency-Key` has succeeded.

    Its path, query string, body or `Prefer` was different. Send a new key.
    """


class InternalError(ApiError, status=500, code="internal_error"):
    """The service failed to process the request; its log has the cause under the same id."""


class Unavailable(ApiError, status=503, code="unavailable", title="Service unavailable"):
    """The database did not respond in time, or too many requests changed the same resources.

    A change may or may not have been applied: read the resource before retrying, unless the request
    has an `Idempotency-Key`.
    """

    headers = retry_after(5)


class ServiceStopping(Unavailable, status=503, code="unavailable"):
    """The service stops; nothing was changed."""


class IssuerUnavailable(ApiError, status=503, code="issuer_unavailable"):
    """The keys of the OpenID Connect issuer cannot be read, so its tokens cannot be verified."""


class Overloaded(ApiError, status=503, code="overloaded"):
    """A limit of requests in progress is reached; nothing was changed."""


class DiskFull(ApiError, status=503, code="disk_full"):
    """The disk of the database has too little free space; nothing was changed."""

    headers = Unavailable.headers


class QueryTimeout(ApiError, status=503, code="query_timeout"):
    """The database did not filter, sort or count the resources within the time limit."""

    headers = Unavailable.headers

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The query did not finish within {seconds:g} s. Indexes support the operators `eq`, "
            "`in` and `prefix`, and sorting by one attribute of the type itself. A page after a "
            "cursor is faster than a page with a large number, and `page[total]=false` skips "
            "counting."
        )


def error_types() -> list[type[ApiError]]:
    """Return the types of the errors that responses can have."""
    return ApiError.__subclasses__()
