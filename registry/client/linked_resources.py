"""Documents -> resources with those that they link to (JSON:API 1.0, Compound Documents)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from registry.client.client_errors import RegistryError, UnexpectedResponse


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


class Conflict(RegistryError):
    """Somebody else has changed the resource since it was read, or has its unique value.

    read: the resource as it was read, None for a new one. sent: the fields that were not stored.
    stored: the resource as it is stored, or the one that has the value; None if it cannot be read.
    """

    read: Resource | None = None
    sent: Mapping[str, Any] = {}
    stored: Resource | None = None


def linked_resources(document: Any) -> list[Resource]:
    """Return the resources in `data`, which lead to those in `included`.

    Raises UnexpectedResponse for a document of another form.
    """
    try:
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
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UnexpectedResponse("not a registry: the response has no resources") from None


def _linked(data: Any, pool: Mapping[tuple[str, str], Resource]) -> Any:
    if isinstance(data, list):
        return [_linked(one, pool) for one in data]
    key = data and (data["type"], data["id"])
    return key and pool.get(key, Resource(*key))
