"""What documents tell a client: resources, with those that they lead to, and errors."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from registry import protocol


@dataclass(unsafe_hash=True, slots=True)
class Resource:
    """A resource as it was read; equal to any of the same type and id.

    `computer["serial"]` is an attribute. `computer.owner` is what a relationship leads to, if the
    response shows that: a resource, None, or a list. What is not included has no attributes.
    etag: of the version that was read, None if it is not known.
    """

    type: str
    id: str
    attributes: dict[str, Any] = field(default_factory=dict, compare=False)
    related: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    etag: str | None = field(default=None, compare=False, repr=False)

    def __getitem__(self, name: str) -> Any:
        """Return an attribute. Raises KeyError if it was not read."""
        return self.attributes[name]

    def __getattr__(self, name: str) -> Any:
        """Return what a relationship leads to. Raises AttributeError if it was not read."""
        if name.startswith("_") or name not in self.related:
            raise AttributeError(f"{self.type} {self.id} was read without {name!r}: see `include`")
        return self.related[name]


class RegistryError(Exception):
    """A request has failed; the message says why in one line.

    status: of the response, None without one. errors: its error objects (JSON:API 1.0, Error
    Objects). code, detail, pointer, parameter: of the first. request_id: for the service's log.
    retry_after: seconds that the service asks to wait for.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        document: Any = None,
    ) -> None:
        super().__init__(message)
        headers = headers or {}
        self.status, self.request_id = status, headers.get(protocol.REQUEST_ID)
        after = headers.get("Retry-After", "")
        self.retry_after = int(after[:9]) if after.isdecimal() else None
        errors = member(document, "errors")
        self.errors: Sequence[Any] = errors if isinstance(errors, list) else ()
        self.code: str | None = member(errors, 0, "code")
        self.detail: str | None = member(errors, 0, "detail")
        self.pointer: str | None = member(errors, 0, "source", "pointer")
        self.parameter: str | None = member(errors, 0, "source", "parameter")


class UnexpectedResponse(RegistryError):
    """The response is not that of a registry, or that of an earlier version."""


class Gone(RegistryError):
    """The changes after a position are not kept, or it is one of another database."""


class Conflict(RegistryError):
    """Somebody else has changed the resource (status 412), or has its unique value (status 409).

    read: the resource as it was read, None for a new one. sent: the fields that were not stored.
    stored: the resource as it is stored, or for 409 the one that has the value; None if it cannot
    be read.
    """

    read: Resource | None = None
    sent: Mapping[str, Any] = {}
    stored: Resource | None = None


def member(value: Any, *path: str | int) -> Any:
    """Return a part of a document, None if there is none."""
    try:
        for step in path:
            value = value[step]
    except (LookupError, TypeError):
        return None
    return value


def unexpected(path: str) -> UnexpectedResponse:
    """Return the error for a document of another form."""
    return UnexpectedResponse(f"not a registry: the response of /{path} is not a document of one")


@contextmanager
def understood(path: str) -> Iterator[None]:
    """Raise UnexpectedResponse if a document has another form than the block expects."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError):
        raise unexpected(path) from None


def linked_resources(document: Any) -> list[Resource]:
    """Return the resources in `data`, which lead to those in `included`; see `understood`."""
    data = document["data"]
    primary = data if isinstance(data, list) else [data]
    objects = [*primary, *document.get("included", ())]
    pool = {(one["type"], one["id"]): Resource(one["type"], one["id"]) for one in objects}
    for one in objects:
        resource = pool[one["type"], one["id"]]
        resource.attributes |= one.get("attributes", {})
        for name, relationship in one.get("relationships", {}).items():
            if "data" in relationship:
                resource.related[name] = _linked(relationship["data"], pool)
    return [pool[one["type"], one["id"]] for one in primary]


def _linked(data: Any, pool: Mapping[tuple[str, str], Resource]) -> Any:
    if isinstance(data, list):
        return [_linked(one, pool) for one in data]
    key = data and (data["type"], data["id"])
    return key and pool.get(key, Resource(*key))
