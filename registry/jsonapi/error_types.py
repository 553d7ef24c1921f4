"""The errors that responses can have.

The OpenAPI description shows the docstrings of these classes as descriptions of the responses.
"""

from collections.abc import Mapping
from math import ceil
from typing import Self

from registry.jsonapi.error_objects import ApiError, quoted

_RETRY_AFTER: Mapping[str, str] = {"Retry-After": "5"}
"""Seconds, for errors that are not the client's."""

_CURSOR_PROFILE = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination"


class MalformedRequest(
    ApiError,
    status=400,
    code="malformed_request",
    example={"detail": "The host that the request names is not valid."},
):
    """The request is not valid HTTP, or its body cannot be decoded."""


class MalformedDocument(
    ApiError,
    status=400,
    code="malformed_document",
    example={"detail": "`data` must be a resource object.", "pointer": "/data"},
):
    """The body is not valid JSON, or not a JSON:API request document."""


class InvalidParameter(
    ApiError,
    status=400,
    code="invalid_parameter",
    title="Invalid query parameter",
    example={
        "detail": "`page[total]` must be `true` or `false`, not `1`.",
        "parameter": "page[total]",
    },
):
    """A query parameter is unknown, or its value is not valid."""


class PageTooLarge(
    ApiError,
    status=400,
    code="page_too_large",
    example={"parameter": "page[size]", "max_size": 1000},
):
    """The requested page size exceeds the maximum."""

    type_url = f"{_CURSOR_PROFILE}/max-size-exceeded"

    def __init__(self, parameter: str, max_size: int) -> None:
        detail, meta = f"A page has at most {max_size} resources.", {"page": {"maxSize": max_size}}
        super().__init__(detail, parameter=parameter, meta=meta)


class RangeNotSupported(
    ApiError,
    status=400,
    code="range_not_supported",
    title="Range pagination not supported",
):
    """Both `page[after]` and `page[before]` are set; pages between cursors are not supported."""

    type_url = f"{_CURSOR_PROFILE}/range-pagination-not-supported"

    def __init__(self) -> None:
        detail = "Send either `page[after]` or `page[before]`, not both."
        super().__init__(detail, parameter="page[before]")


class InvalidAuthorization(
    ApiError,
    status=400,
    code="invalid_request",
    example={"detail": "There is no access token in the header `Authorization`."},
):
    """The request has more than one access token, or the form of `Authorization` is not valid."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers=_challenge(error="invalid_request"))


class AuthenticationRequired(ApiError, status=401, code="authentication_required"):
    """The request has no access token."""

    def __init__(self) -> None:
        super().__init__(
            "Send an access token in the header `Authorization: Bearer`.", headers=_challenge()
        )


class TokenRejected(
    ApiError, status=401, code="invalid_token", example={"detail": "The access token is malformed."}
):
    """The access token is malformed, unknown, expired or revoked."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers=_challenge(error="invalid_token"))


class InsufficientScope(
    ApiError,
    status=403,
    code="insufficient_scope",
    example={
        "detail": "This requires the scope `persons:write`, which the access token lacks.",
        "scope": "persons:write",
    },
):
    """The access token does not allow this request."""

    def __init__(
        self, detail: str, scope: str, *, pointer: str | None = None, parameter: str | None = None
    ) -> None:
        """scope: the scopes that the request requires, separated by spaces (RFC 6750, 3)."""
        headers = _challenge(error="insufficient_scope", scope=scope)
        super().__init__(detail, pointer=pointer, parameter=parameter, headers=headers)


class CrossSiteRequest(ApiError, status=403, code="cross_site_request"):
    """A browser has sent the request for a page of another site."""

    def __init__(self) -> None:
        super().__init__(
            "This service does not respond to pages of other sites; the setting `--cors-origin` "
            "allows the origin of a page."
        )


class InvalidIdempotencyKey(
    ApiError, status=400, code="invalid_idempotency_key", example={"max_length": 255}
):
    """`Idempotency-Key` is not a valid key, or sent more than once."""

    def __init__(self, max_length: int) -> None:
        super().__init__(
            f"`Idempotency-Key` must be sent once, with 1 to {max_length} ASCII characters: a "
            "string in double quotes, or a text without spaces, quotes, backslashes, commas and "
            "semicolons."
        )


class NotFound(
    ApiError,
    status=404,
    code="not_found",
    example={"detail": "There is no `person` with the id `999`."},
):
    """The path or the resource does not exist, or linkage refers to a missing resource."""

    @classmethod
    def resource(cls, type_name: str, identifier: str, pointer: str | None = None) -> Self:
        """Return the error for a resource that does not exist."""
        detail = f"There is no {quoted(type_name)} with the id {quoted(identifier)}."
        return cls(detail, pointer=pointer)


class MethodNotAllowed(
    ApiError,
    status=405,
    code="method_not_allowed",
    example={
        "detail": "`/persons` supports GET, HEAD, OPTIONS, POST, not PUT.",
        "headers": {"Allow": "GET, HEAD, OPTIONS, POST"},
    },
):
    """The path does not support this method; `Allow` lists the supported ones."""


class NotAcceptable(
    ApiError,
    status=406,
    code="not_acceptable",
    example={
        "detail": "Every `application/vnd.api+json` in the header `Accept` has parameters; send "
        "one without parameters, or no `Accept`."
    },
):
    """Every JSON:API media type in `Accept` has parameters."""


class RequestTimeout(
    ApiError, status=408, code="request_timeout", example={"part": "head", "seconds": 30}
):
    """The head or the body of the request did not arrive in time."""

    def __init__(self, part: str, seconds: float) -> None:
        super().__init__(f"The {part} of the request did not arrive within {seconds:g} s.")


class TypeConflict(
    ApiError,
    status=409,
    code="type_conflict",
    example={"detail": "The type must be `person`, not `computer`.", "pointer": "/data/type"},
):
    """The type of a resource is not the expected one."""


class ValueTaken(
    ApiError,
    status=409,
    code="value_taken",
    example={
        "type_name": "person",
        "attribute": "email",
        "pointer": "/data/attributes/email",
        "about": "/persons/1",
    },
):
    """Another resource has this value of a unique attribute; `links.about` leads to it."""

    def __init__(self, type_name: str, attribute: str, pointer: str, about: str | None) -> None:
        detail = f"Another {quoted(type_name)} has this {quoted(attribute)}."
        super().__init__(detail, pointer=pointer)
        self.about = about


class PreconditionFailed(ApiError, status=412, code="precondition_failed"):
    """`If-Match` does not match the resource, or `If-None-Match` does."""

    def __init__(self) -> None:
        super().__init__("`If-Match` or `If-None-Match` does not hold; read the resource again.")


class BodyTooLarge(ApiError, status=413, code="body_too_large", example={"max_bytes": 2**20}):
    """The body exceeds the size limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"The body must not exceed {max_bytes} bytes.")


class ResultTooLarge(ApiError, status=413, code="result_too_large"):
    """The result is too large to be stored under an `Idempotency-Key`; nothing was changed."""

    def __init__(self) -> None:
        super().__init__(
            "The result exceeds the 16 MB that can be stored under an `Idempotency-Key`. Nothing "
            "was changed; send fewer operations per request."
        )


class UnsupportedMediaType(
    ApiError,
    status=415,
    code="unsupported_media_type",
    example={
        "detail": "The body must be sent as `Content-Type: application/vnd.api+json`, without "
        "other parameters such as `; charset=utf-8`, not as `application/json`."
    },
):
    """`Content-Type` is not JSON:API without parameters, or the encoding is not supported."""


class ExpectationFailed(ApiError, status=417, code="expectation_failed"):
    """The `Expect` header is not `100-continue`."""

    def __init__(self) -> None:
        super().__init__("The only supported expectation is `100-continue`.")


class MisdirectedRequest(
    ApiError, status=421, code="misdirected_request", example={"host": "other.example.org"}
):
    """The host that the request names is not one of this service."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"This service does not respond to requests for the host {quoted(host)}; the setting "
            "`--allowed-host` adds a name."
        )


class InvalidField(
    ApiError,
    status=422,
    code="invalid_field",
    example={"detail": "Field may not be null.", "pointer": "/data/attributes/first_name"},
):
    """An attribute or relationship is missing, unknown, read-only, or its value is not valid."""


class IdempotencyKeyReused(ApiError, status=422, code="idempotency_key_reused"):
    """Another request of this client has the same `Idempotency-Key`; nothing was changed."""

    def __init__(self) -> None:
        super().__init__(
            "Another request with this `Idempotency-Key` has succeeded; its path, query string or "
            "body was different. Send a new key."
        )


class HeaderFieldsTooLarge(
    ApiError, status=431, code="header_fields_too_large", example={"max_bytes": 2**16}
):
    """The header fields exceed the size limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"The header fields must not exceed {max_bytes} bytes in total.")


class InternalError(ApiError, status=500, code="internal_error"):
    """The service has a defect; its log contains the cause with the id of the request."""

    def __init__(self) -> None:
        super().__init__("The service failed to process the request; its log contains the cause.")


class InvalidStoredRecord(ApiError, status=500, code="invalid_record", title="Invalid record"):
    """A record in the database is not valid; the log of the service has its id."""

    def __init__(self) -> None:
        super().__init__(
            "A record in the database that the request needs is not valid, because another program "
            "has written it; the log of the service has its id."
        )


class ServiceUnavailable(ApiError, status=503, code="unavailable", title="Service unavailable"):
    """The database did not respond in time; the change may or may not have been applied."""

    def __init__(self) -> None:
        super().__init__(
            "The database did not respond in time, or too many requests changed the same "
            "resources. A change may or may not have been applied: read the resource before "
            "retrying, unless the request has an `Idempotency-Key`.",
            headers=_RETRY_AFTER,
        )


class IssuerUnavailable(
    ApiError,
    status=503,
    code="issuer_unavailable",
    example={"detail": "The keys of the OpenID Connect issuer cannot be read.", "seconds": 5},
):
    """The keys of the OpenID Connect issuer cannot be read, so its tokens cannot be verified."""

    def __init__(self, detail: str, seconds: float) -> None:
        super().__init__(detail, headers={"Retry-After": str(ceil(seconds))})


class Overloaded(
    ApiError,
    status=503,
    code="overloaded",
    example={"detail": "The limit of small requests in progress is reached.", "seconds": 5},
):
    """A limit of requests in progress is reached; nothing was changed."""

    def __init__(self, detail: str, seconds: float) -> None:
        super().__init__(
            f"{detail} Nothing was changed.", headers={"Retry-After": str(ceil(seconds))}
        )


class DiskFull(ApiError, status=503, code="disk_full", example={"reserve": 2**26}):
    """The disk of the database has too little free space; nothing was changed."""

    def __init__(self, reserve: int) -> None:
        super().__init__(
            f"The disk of the database has less than {reserve // 2**20} MB of free space. Nothing "
            "was changed. Resources can still be read.",
            headers=_RETRY_AFTER,
        )


class QueryTimedOut(ApiError, status=503, code="query_timeout", example={"seconds": 5}):
    """The database did not filter, sort or count the resources within the time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The query did not finish within {seconds:g} s. Indexes support the operators `eq`, "
            "`in` and `prefix`, and sorting by one attribute of the type itself. A page after a "
            "cursor is faster than a page with a large number, and `page[total]=false` skips "
            "counting.",
            headers=_RETRY_AFTER,
        )


def error_types() -> list[type[ApiError]]:
    """Return the types of the errors that responses can have."""
    return ApiError.__subclasses__()


def _challenge(**attributes: str) -> Mapping[str, str]:
    """Return the header that asks for an access token (RFC 6750, 3)."""
    named = {"realm": "registry", **attributes}
    text = ", ".join(f'{name}="{value}"' for name, value in named.items())
    return {"WWW-Authenticate": f"Bearer {text}"}
