"""Exceptions that become JSON:API error objects.

The OpenAPI description shows the docstrings of these classes as descriptions of the responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

MAX_ERRORS = 100
"""Errors per response: a request body of 1 MiB can contain more than 300,000."""

_CURSOR_PROFILE = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination"


class ApiError(Exception):
    """One error of one request (JSON:API 1.0, Error Objects).

    detail: a sentence about this occurrence. pointer: a JSON Pointer into the request document.
    parameter: the name of a query parameter. headers: added to the response. meta: as in the error
    object. type_url: identifies the error type in the cursor pagination profile, if it has one.
    """

    status: int
    code: str
    title: str
    type_url: ClassVar[str | None] = None

    def __init__(
        self,
        detail: str,
        *,
        pointer: str | None = None,
        parameter: str | None = None,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer
        self.parameter = parameter
        self.headers = headers or {}
        self.meta = meta

    def to_object(self, request_id: str) -> dict[str, Any]:
        """Return the error object. request_id: becomes `id`; the log contains the same id."""
        error: dict[str, Any] = {
            "id": request_id,
            "status": str(self.status),
            "code": self.code,
            "title": self.title,
            "detail": _encodable(self.detail),
        }
        if self.pointer is not None:
            error["source"] = {"pointer": self.pointer}
        elif self.parameter is not None:
            error["source"] = {"parameter": _encodable(self.parameter)}
        if self.type_url is not None:
            error["links"] = {"type": self.type_url}
        if self.meta is not None:
            error["meta"] = self.meta
        return error


class MalformedRequest(ApiError):
    """The request is not valid HTTP, or its body cannot be decoded."""

    status = 400
    code = "malformed_request"
    title = "Malformed request"


class MalformedDocument(ApiError):
    """The body is not valid JSON, or not a JSON:API request document."""

    status = 400
    code = "malformed_document"
    title = "Malformed document"


class InvalidParameter(ApiError):
    """A query parameter is unknown, or its value is not valid."""

    status = 400
    code = "invalid_parameter"
    title = "Invalid query parameter"


class PageTooLarge(ApiError):
    """The requested page size exceeds the maximum."""

    status = 400
    code = "page_too_large"
    title = "Page too large"
    type_url = f"{_CURSOR_PROFILE}/max-size-exceeded"

    def __init__(self, parameter: str, max_size: int) -> None:
        super().__init__(
            f"A page has at most {max_size} resources.",
            parameter=parameter,
            meta={"page": {"maxSize": max_size}},
        )


class RangeNotSupported(ApiError):
    """Both `page[after]` and `page[before]` are set; pages between cursors are not supported."""

    status = 400
    code = "range_not_supported"
    title = "Range pagination not supported"
    type_url = f"{_CURSOR_PROFILE}/range-pagination-not-supported"

    def __init__(self) -> None:
        super().__init__(
            "Send either `page[after]` or `page[before]`, not both.", parameter="page[before]"
        )


class QueryTooSlow(ApiError):
    """The database cannot filter, sort or count the resources within the time limit."""

    status = 400
    code = "query_too_slow"
    title = "Query too slow"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The query did not finish within {seconds:g} s. Indexes support the operators `eq`, "
            "`in` and `prefix`, and sorting by one attribute of the type itself. A page after a "
            "cursor is faster than a page with a large number, and `page[total]=false` skips "
            "counting."
        )


class NotFound(ApiError):
    """The path or the resource does not exist, or linkage refers to a missing resource."""

    status = 404
    code = "not_found"
    title = "Not found"

    @classmethod
    def resource(cls, type_name: str, identifier: str, pointer: str | None = None) -> NotFound:
        """Return the error for a resource that does not exist."""
        return cls(
            f"There is no {quoted(type_name)} with the id {quoted(identifier)}.", pointer=pointer
        )


class MethodNotAllowed(ApiError):
    """The path does not support this method; `Allow` lists the supported ones."""

    status = 405
    code = "method_not_allowed"
    title = "Method not allowed"


class NotAcceptable(ApiError):
    """Every JSON:API media type in `Accept` has parameters."""

    status = 406
    code = "not_acceptable"
    title = "Not acceptable"


class RequestTimeout(ApiError):
    """The head or the body of the request did not arrive in time."""

    status = 408
    code = "request_timeout"
    title = "Request timeout"

    def __init__(self, part: str, seconds: float) -> None:
        super().__init__(f"The {part} of the request did not arrive within {seconds:g} s.")


class TypeConflict(ApiError):
    """The type of a resource is not the expected one."""

    status = 409
    code = "type_conflict"
    title = "Type conflict"


class PreconditionFailed(ApiError):
    """The current version of the resource does not match `If-Match`."""

    status = 412
    code = "precondition_failed"
    title = "Precondition failed"

    def __init__(self) -> None:
        super().__init__("The resource does not match `If-Match`; read it again.")


class BodyTooLarge(ApiError):
    """The body exceeds the size limit."""

    status = 413
    code = "body_too_large"
    title = "Body too large"

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"The body must not exceed {max_bytes} bytes.")


class UnsupportedMediaType(ApiError):
    """`Content-Type` is not JSON:API without parameters, or the encoding is not supported."""

    status = 415
    code = "unsupported_media_type"
    title = "Unsupported media type"


class ExpectationFailed(ApiError):
    """The `Expect` header is not `100-continue`."""

    status = 417
    code = "expectation_failed"
    title = "Expectation failed"

    def __init__(self) -> None:
        super().__init__("The only supported expectation is `100-continue`.")


class InvalidField(ApiError):
    """An attribute or relationship is missing, unknown, read-only, or its value is not valid."""

    status = 422
    code = "invalid_field"
    title = "Invalid field"


class InternalError(ApiError):
    """The service has a defect; its log contains the cause with the id of the request."""

    status = 500
    code = "internal_error"
    title = "Internal error"

    def __init__(self) -> None:
        super().__init__("The service failed to process the request; its log contains the cause.")


class Unavailable(ApiError):
    """The database did not respond in time; the change may or may not have been applied."""

    status = 503
    code = "unavailable"
    title = "Service unavailable"

    def __init__(self) -> None:
        super().__init__(
            "The database did not respond in time, or too many requests changed the same "
            "resources. A change may or may not have been applied: read the resource before "
            "retrying.",
            headers={"Retry-After": "5"},
        )


class ApiErrors(Exception):
    """All errors of one request."""

    def __init__(self, errors: Sequence[ApiError]) -> None:
        first = errors[0].detail
        super().__init__(first if len(errors) == 1 else f"{len(errors)} errors, first: {first}")
        self.errors = errors

    @property
    def status(self) -> int:
        """The status all errors share, else 400 (JSON:API 1.0, Processing Errors)."""
        statuses = {error.status for error in self.errors}
        return statuses.pop() if len(statuses) == 1 else 400


class ErrorCollector:
    """Collects the errors of one request, in order to report all of them (cf. `ErrorStore`).

    As a context manager, it collects the errors that its block raises.
    """

    def __init__(self) -> None:
        self._errors: list[ApiError] = []

    def add(self, error: ApiError) -> None:
        """Add an error. Raises ApiErrors when MAX_ERRORS are reached."""
        self._errors.append(error)
        if len(self._errors) == MAX_ERRORS:
            raise ApiErrors(self._errors)

    def __enter__(self) -> None: ...

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> bool:
        if isinstance(error, ApiErrors):
            raised = error.errors
        elif isinstance(error, ApiError):
            raised = [error]
        else:
            return False
        for api_error in raised:
            self.add(api_error)
        return True

    def raise_any(self) -> None:
        """Raise ApiErrors if any error was added."""
        if self._errors:
            raise ApiErrors(self._errors)


def quoted(*names: str) -> str:
    """Return names in backticks, separated by commas; names over 80 characters are truncated."""
    truncated = (name if len(name) <= 80 else f"{name[:79]}…" for name in names)
    return ", ".join(f"`{name}`" for name in truncated) or "none"


def _encodable(text: str) -> str:
    # Bytes of the request line that are not UTF-8 arrive as lone surrogates.
    return text.encode("utf-8", "replace").decode("utf-8")
