"""The errors a client can meet; each exception is one JSON:API error object.

The docstrings of these classes are what the OpenAPI description says of their responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

MOST_ERRORS = 100
"""Errors in an answer: a body of a mebibyte has room for more than 300,000 mistakes."""


_CURSOR_PROFILE = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination"


class ApiError(Exception):
    """One problem with one request (JSON:API 1.0, Error Objects).

    `detail` is a sentence for the reader; `pointer` is a JSON Pointer into the request document,
    `parameter` the name of a query parameter. `headers` go with the response. `about` is the URL
    by which the cursor profile names the kind of the problem, where it does.
    """

    status: int
    code: str
    title: str
    about: ClassVar[str | None] = None

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
        """Return the error object; `id` is the id of the request, under which the log has it."""
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
        if self.about is not None:
            error["links"] = {"type": self.about}
        if self.meta is not None:
            error["meta"] = self.meta
        return error


class MalformedRequest(ApiError):
    """The bytes are not an HTTP request, or its body cannot be decoded."""

    status = 400
    code = "malformed_request"
    title = "Malformed request"


class MalformedDocument(ApiError):
    """The body is not JSON, or not a JSON:API request document."""

    status = 400
    code = "malformed_document"
    title = "Malformed document"


class InvalidParameter(ApiError):
    """A query parameter is unknown or its value has no meaning."""

    status = 400
    code = "invalid_parameter"
    title = "Invalid query parameter"


class PageTooLarge(ApiError):
    """A page is asked for that is larger than the service gives."""

    status = 400
    code = "page_too_large"
    title = "Page too large"
    about = f"{_CURSOR_PROFILE}/max-size-exceeded"

    def __init__(self, parameter: str, most: int) -> None:
        super().__init__(
            f"A page has at most {most} resources.",
            parameter=parameter,
            meta={"page": {"maxSize": most}},
        )


class RangeNotSupported(ApiError):
    """A page is asked for that lies between two cursors."""

    status = 400
    code = "range_not_supported"
    title = "Range pagination not supported"
    about = f"{_CURSOR_PROFILE}/range-pagination-not-supported"

    def __init__(self) -> None:
        super().__init__(
            "A page is after a cursor or before one, not between two.", parameter="page[before]"
        )


class QueryTooSlow(ApiError):
    """The database would have to look at too much in order to filter, sort or count this."""

    status = 400
    code = "query_too_slow"
    title = "Query too slow"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"This did not end within {seconds:g} s. Indexes serve `eq`, `in` and `prefix`, and "
            "the order by one attribute of the type itself; a page after a cursor is found faster "
            "than one with a great number, and `page[total]=false` saves the counting."
        )


class NotFound(ApiError):
    """No such path, no such resource, or a linkage to a resource that does not exist."""

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
    """The path exists, but not with this method; `Allow` lists those it has."""

    status = 405
    code = "method_not_allowed"
    title = "Method not allowed"


class NotAcceptable(ApiError):
    """Every JSON:API media type in `Accept` carries parameters."""

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
    """The type of a resource is not the one this place takes."""

    status = 409
    code = "type_conflict"
    title = "Type conflict"


class PreconditionFailed(ApiError):
    """The resource changed since the client read what `If-Match` names."""

    status = 412
    code = "precondition_failed"
    title = "Precondition failed"

    def __init__(self) -> None:
        super().__init__("The resource is not as `If-Match` says; read it again.")


class BodyTooLarge(ApiError):
    """The body is larger than the service reads."""

    status = 413
    code = "body_too_large"
    title = "Body too large"

    def __init__(self, most: int) -> None:
        super().__init__(f"A body has at most {most} bytes.")


class UnsupportedMediaType(ApiError):
    """The body is not declared as JSON:API, or the media type carries parameters."""

    status = 415
    code = "unsupported_media_type"
    title = "Unsupported media type"


class ExpectationFailed(ApiError):
    """An `Expect` header asks for something else than `100-continue`."""

    status = 417
    code = "expectation_failed"
    title = "Expectation failed"

    def __init__(self) -> None:
        super().__init__("The only expectation that is met is `100-continue`.")


class InvalidField(ApiError):
    """An attribute or relationship is missing, unknown, read-only, or its value is not valid."""

    status = 422
    code = "invalid_field"
    title = "Invalid field"


class InternalError(ApiError):
    """A defect of the service; the log has the cause under the id of the request."""

    status = 500
    code = "internal_error"
    title = "Internal error"

    def __init__(self) -> None:
        super().__init__("The service failed to answer; its log says why.")


class Unavailable(ApiError):
    """The database does not answer at present, or not in time."""

    status = 503
    code = "unavailable"
    title = "Service unavailable"

    def __init__(self) -> None:
        super().__init__(
            "The database does not answer, or too many change the same resources. Whether a "
            "change took effect is not known: read before you send it again.",
            headers={"Retry-After": "5"},
        )


class ApiErrors(Exception):
    """All problems of one request at once."""

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
    """Gathers the problems of one request, in order to tell them at once."""

    def __init__(self) -> None:
        self._errors: list[ApiError] = []

    def add(self, error: ApiError) -> None:
        """Note a problem. Raises ApiErrors when there are as many as an answer holds."""
        self._errors.append(error)
        if len(self._errors) == MOST_ERRORS:
            raise ApiErrors(self._errors)

    def __enter__(self) -> None:
        """Begin a block that adds its problems in place of raising them."""

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> bool:
        """Add what was raised, if it is about the request."""
        if isinstance(error, ApiErrors):
            several = error.errors
        elif isinstance(error, ApiError):
            several = [error]
        else:
            return False
        for one in several:
            self.add(one)
        return True

    def raise_any(self) -> None:
        """Raise ApiErrors if there are problems."""
        if self._errors:
            raise ApiErrors(self._errors)


def pointer_to(*path: str | int) -> str:
    """Return the JSON Pointer (RFC 6901) to a place in the request document."""
    return "".join(f"/{_escape(str(token))}" for token in path)


def quoted(*names: str) -> str:
    """Return names as a list for the detail of an error, long ones shortened."""
    shown = (name if len(name) <= 80 else f"{name[:79]}…" for name in names)
    return ", ".join(f"`{name}`" for name in shown) or "none"


def _escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def _encodable(text: str) -> str:
    # A request line may hold bytes that are not UTF-8; they arrive here as lone surrogates.
    return text.encode("utf-8", "replace").decode("utf-8")
