"""`sort` -> the order of a collection (JSON:API 1.0, Sorting)."""

from __future__ import annotations

from dataclasses import dataclass, field

from registry.jsonapi.errors import InvalidParameter, quoted
from registry.model.attributes import Attribute, ResourceId
from registry.model.graph import Graph
from registry.model.resource import Relationship, Resource
from registry.model.stored_fields import stored_fields

_PARAMETER = "sort"
_RESOURCE_ID = ResourceId(nullable=False)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of an order: a stored field of the type, or of what a to-one relationship leads to.

    Null, and so each field of a related resource that is not there, is less than any value.
    attribute: what the values of the field are, so that cursors can hold them.
    """

    column: str
    descending: bool = False
    relationship: Relationship | None = None
    attribute: Attribute = field(default=_RESOURCE_ID, compare=False)

    def __str__(self) -> str:
        related = f"{self.relationship.name}." if self.relationship else ""
        return f"{'-' if self.descending else ''}{related}{self.column}"


Order = tuple[Key, ...]
"""Keys of falling weight; the last is the id, which no two resources share."""

BY_ID: Order = (Key("_id"),)
"""The order of what is not sorted."""


def parse_sort(value: str, resource: Resource, graph: Graph) -> Order:
    """Return the order that `sort` asks for; an empty value asks for none in particular.

    Resources that are equal in all keys are ordered by id, in the direction of the last key.
    Raises InvalidParameter if there is no such field, or if one is named twice.
    """
    if not value:
        return BY_ID
    keys = [_key(name, resource, graph) for name in value.split(",")]
    fields = [(key.relationship, key.column) for key in keys]
    if len(set(fields)) < len(fields):
        raise InvalidParameter(f"{quoted(value)} names a field twice.", parameter=_PARAMETER)
    if (None, "_id") in fields:
        return tuple(keys[: fields.index((None, "_id")) + 1])  # what follows decides nothing
    return (*keys, Key("_id", keys[-1].descending))


def sort_names(resource: Resource, graph: Graph) -> list[str]:
    """Return what resources of this type can be sorted by: `serial`, `owner.last_name`."""
    related = [
        f"{name}.{field}"
        for name, relationship in resource.relationships.items()
        if not relationship.to_many
        for field in _fields(graph[relationship.target])
    ]
    return [*stored_fields(resource), *related]


def _fields(target: Resource) -> list[str]:
    return ["id", *target.attributes]


def _key(sent: str, resource: Resource, graph: Graph) -> Key:
    name, descending = sent.removeprefix("-"), sent.startswith("-")
    if name not in sort_names(resource, graph):
        raise InvalidParameter(
            f"`{resource.type}` cannot be sorted by {quoted(name)}; "
            f"there are {quoted(*sort_names(resource, graph))}.",
            parameter=_PARAMETER,
        )
    if name in stored_fields(resource):
        own = stored_fields(resource)[name]
        return Key(own.stored_name, descending, attribute=own.attribute)
    relationship_name, _, field_name = name.partition(".")
    relationship = resource.relationships[relationship_name]
    related = stored_fields(graph[relationship.target])[field_name]
    return Key(related.stored_name, descending, relationship, related.attribute)
