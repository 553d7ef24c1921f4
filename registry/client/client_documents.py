"""What documents tell a client: resources, with those that they lead to, and errors."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from registry import protocol

Document: TypeAlias = Mapping[str, Any]


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


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A change: `add`, `update` or `remove`, and the resource with the fields that changed.

    position: from where to continue after this change; within a transaction, before all of it.
    meta: `updated_at` and `updated_by`.
    """

    op: str
    resource: Resource
    position: str
    meta: Document


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


ERRORS = {
    "invalid_position": Gone,
    "position_expired": Gone,
    "precondition_failed": Conflict,
    "value_taken": Conflict,
}
"""By the code of an error object; other codes are a RegistryError."""


def member(value: Any, *path: str | int) -> Any:
    """Return a part of a document, None if there is none."""
    try:
        for step in path:
            value = value[step]
    except (LookupError, TypeError):
        return None
    return value


@contextmanager
def understood(path: str) -> Iterator[None]:
    """Raise RegistryError if a document has another form than the block expects."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError):
        reason = f"not a registry: the response of /{path} is not a document of one"
        raise RegistryError(reason) from None


def linked_resources(document: Any) -> list[Resource]:
    """Return the resources in `data`, which lead to those in `included`; see `understood`."""
    known: dict[tuple[str, str], Resource] = {}

    def resource_of(one: Any) -> Resource:
        key = one["type"], one["id"]
        return known.setdefault(key, Resource(*key))

    def linked(data: Any) -> Any:
        if isinstance(data, list):
            return list(map(resource_of, data))
        return data and resource_of(data)

    primary = document["data"] if isinstance(document["data"], list) else [document["data"]]
    for one in [*primary, *document.get("included", ())]:
        resource = resource_of(one)
        resource.attributes |= one.get("attributes", {})
        for name, relationship in one.get("relationships", {}).items():
            if "data" in relationship:
                resource.related[name] = linked(relationship["data"])
    return list(map(resource_of, primary))


def resource_change(text: bytes, position: str) -> ResourceChange:
    """Return a change, which is an operation (JSON:API, Atomic Operations); see `understood`."""
    change = orjson.loads(text)
    (resource,) = linked_resources({"data": change.get("data") or change["ref"]})
    return ResourceChange(change["op"], resource, position, change.get("meta", {}))
