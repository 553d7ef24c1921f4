"""Exceptions that become JSON:API error objects: their base, their collection, their parts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import orjson

MAX_ERRORS = 100
"""Errors per response: a request body of 1 MiB can contain more than 300,000."""

_MAX_NAME = 255
"""The maximum length of a member name in a pointer; clients choose the names of some members."""


class RequestError(Exception):
    """Why a request fails: one ApiError, or several.

    status: of the response; the one that all errors share, else 400, the most generally applicable
    one for 4xx errors (JSON:API 1.0, Processing Errors), as of errors of the query string (400) and
    of the document (422), which are reported together.
    """

    status: int

    def __init__(self, errors: Sequence["ApiError"]) -> None:
        first = errors[0].detail
        super().__init__(first if len(errors) == 1 else f"{len(errors)} errors, first: {first}")
        self._errors = errors
        statuses = {error.status for error in errors}
        self.status = statuses.pop() if len(statuses) == 1 else 400

    @property
    def errors(self) -> Sequence["ApiError"]:
        """What is reported, in the order in which it was found; at least one error."""
        return self._errors


class ApiError(RequestError):
    """One error of one request (JSON:API 1.0, Error Objects).

    A subclass declares its status and code, a title if it is not the code in words, and what its
    instances have in common.

    description: what the docstring says of all occurrences. detail: about this one, by default the
    description. pointer: a JSON Pointer into the request document. parameter: the name of a query
    parameter. headers: added to the response. links, meta: as in the error object.
    """

    code: str
    title: str
    description: ClassVar[str]
    detail: str
    parameter: str | None = None
    headers: Mapping[str, str] = {}
    links: Mapping[str, str] = {}
    meta: Mapping[str, Any] | None = None

    def __init_subclass__(cls, *, status: int, code: str, title: str | None = None) -> None:
        cls.status, cls.code = status, code
        cls.title = title or code.replace("_", " ").capitalize()
        cls.description = " ".join((cls.__doc__ or "").split())

    def __init__(
        self,
        detail: str | None = None,
        pointer: str | None = None,
        *,
        parameter: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.detail = detail or self.description
        self.pointer = pointer
        self.parameter = self.parameter if parameter is None else parameter
        self.headers = headers or self.headers
        Exception.__init__(self, self.detail)

    @property
    def errors(self) -> Sequence["ApiError"]:
        """The error itself."""
        return (self,)  # not stored, as it would be in a reference cycle

    def to_object(self, id_: str | None = None) -> dict[str, Any]:
        """Return the error object. id_: of this occurrence, if it has one of its own."""
        error: dict[str, Any] = {
            **({"id": id_} if id_ else {}),
            "status": str(self.status),
            "code": self.code,
            "title": self.title,
            "detail": _encodable(self.detail),
        }
        if self.pointer is not None:
            error["source"] = {"pointer": self.pointer}
        elif self.parameter is not None:
            error["source"] = {"parameter": _encodable(self.parameter)}
        if self.links:
            error["links"] = self.links
        if self.meta is not None:
            error["meta"] = self.meta
        return error


def _encodable(text: str) -> str:
    # Bytes of the request line that are not UTF-8 arrive as lone surrogates.
    return text.encode("utf-8", "replace").decode("utf-8")


class ErrorCollector:
    """Collects the errors of one request.

    `with errors:` swallows RequestErrors raised in the block; names bound there are valid only
    after `raise_any()`.
    """

    def __init__(self) -> None:
        self._errors: list[ApiError] = []

    def add(self, error: ApiError) -> None:
        """Add an error. Raises RequestError when MAX_ERRORS are reached."""
        self._errors.append(error)
        if len(self._errors) >= MAX_ERRORS:
            raise RequestError(self._errors[:MAX_ERRORS])  # a copy, which may be added again

    def extend(self, errors: Iterable[ApiError]) -> None:
        """Add errors, as `add` does."""
        for error in errors:
            self.add(error)

    def __enter__(self) -> None: ...

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> bool:
        if not isinstance(error, RequestError):
            return False
        self.extend(error.errors)
        return True

    def raise_any(self) -> None:
        """Raise RequestError if any error was added."""
        if self._errors:
            raise RequestError(self._errors)


def json_defect(error: orjson.JSONDecodeError) -> str:
    """Return what is wrong with a text that is not read as JSON, for after its subject."""
    is_large = "infinity" in error.msg  # valid JSON, such as 1e400
    return f"{'has a number that is out of range' if is_large else 'is not valid JSON'}: {error}"


class JsonPointer(str):
    """A position in a request document (RFC 6901)."""

    __slots__ = ()

    def __truediv__(self, step: str | int) -> "JsonPointer":
        """Return the position one step below; this one if the name is too long to report."""
        name = str(step)
        if len(name) > _MAX_NAME:
            return self
        escaped = name.replace("~", "~0").replace("/", "~1")
        return JsonPointer(f"{self}/{escaped}")


DATA = JsonPointer("/data")


def unknown(name: str, kind: str, available: Iterable[str]) -> str:
    """Return the detail of the error for a name of nothing. kind: what it should be the name of."""
    return f"{quoted(name)} is not {kind}; available: {quoted(*available)}."


def quoted(*names: str) -> str:
    """Return names in backticks. As clients choose some, long ones and long lists are truncated."""
    truncated = (name if len(name) <= 80 else f"{name[:79]}…" for name in names[:50])
    omitted = ", …" if len(names) > 50 else ""
    return ", ".join(f"`{name}`" for name in truncated) + omitted or "none"
