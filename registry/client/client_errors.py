"""Responses to a client, and why requests fail."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from registry.protocol import REQUEST_ID


@dataclass(frozen=True, slots=True)
class Reply:
    """A response. document: None if it is not JSON."""

    status: int
    headers: Mapping[str, str]
    document: Any

    @property
    def is_success(self) -> bool:
        """Whether the request was executed."""
        return self.status // 100 == 2

    def member(self, *path: str | int) -> Any:
        """Return a part of the document, None if there is none."""
        value = self.document
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value


class RegistryError(Exception):
    """A request has failed; the message says why in one line.

    status: of the response, None without one. errors: its error objects (JSON:API 1.0, Error
    Objects). code, detail, pointer, parameter: of the first. request_id: for the service's log.
    """

    def __init__(self, message: str, reply: Reply | None = None) -> None:
        super().__init__(message)
        reply = reply or Reply(0, {}, None)
        self.status, self.request_id = reply.status or None, reply.headers.get(REQUEST_ID)
        self.errors = reply.member("errors") or []
        self.code, self.detail = (reply.member("errors", 0, one) for one in ("code", "detail"))
        self.pointer = reply.member("errors", 0, "source", "pointer")
        self.parameter = reply.member("errors", 0, "source", "parameter")


class UnexpectedResponse(RegistryError):
    """The response is not that of a registry, or that of an earlier version."""


class Gone(RegistryError):
    """The changes after a position are not kept, or it is one of another database."""
