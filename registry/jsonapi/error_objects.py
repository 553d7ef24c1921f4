"""The base of the exceptions that become JSON:API error objects."""

from collections.abc import Mapping
from typing import Any, ClassVar


class ApiError(Exception):
    """One error of one request (JSON:API 1.0, Error Objects).

    A subclass declares its status and code, and a title if it is not the code in words.

    detail: a sentence about this occurrence. pointer: a JSON Pointer into the request document.
    parameter: the name of a query parameter. headers: added to the response. meta: as in the error
    object. type_url: identifies the error type in the cursor pagination profile, if it has one.
    about: the path of a resource with further details, if there is one.
    """

    status: int
    code: str
    title: str
    type_url: ClassVar[str | None] = None
    about: str | None = None

    def __init_subclass__(cls, *, status: int, code: str, title: str | None = None) -> None:
        cls.status, cls.code = status, code
        cls.title = title or code.replace("_", " ").capitalize()

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

    def to_object(self, id_: str) -> dict[str, Any]:
        """Return the error object. id_: of this occurrence."""
        error: dict[str, Any] = {
            "id": id_,
            "status": str(self.status),
            "code": self.code,
            "title": self.title,
            "detail": _encodable(self.detail),
        }
        if self.pointer is not None:
            error["source"] = {"pointer": self.pointer}
        elif self.parameter is not None:
            error["source"] = {"parameter": _encodable(self.parameter)}
        links = {"about": self.about, "type": self.type_url}
        if any(links.values()):
            error["links"] = {name: url for name, url in links.items() if url}
        if self.meta is not None:
            error["meta"] = self.meta
        return error


def _encodable(text: str) -> str:
    # Bytes of the request line that are not UTF-8 arrive as lone surrogates.
    return text.encode("utf-8", "replace").decode("utf-8")
