"""`sort` -> sort keys (JSON:API 1.0, Sorting)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import orjson
from marshmallow import ValidationError

from registry.jsonapi.error_objects import ErrorCollector, quoted
from registry.jsonapi.error_types import InvalidParameter
from registry.model.attributes import Attribute
from registry.model.graph import Graph
from registry.model.implicit_attributes import ResourceId
from registry.model.resource_type import Relationship, ResourceType

_RESOURCE_ID = ResourceId(nullable=False)


@dataclass(frozen=True, slots=True)
class Key:
    """A sort key: a stored field of the type, or of the target of a to-one relationship.

    Null sorts first; the fields of a missing related resource are null. attribute: for cursors.
    """

    stored_name: str
    descending: bool = False
    relationship: Relationship | None = None
    attribute: Attribute = field(default=_RESOURCE_ID, compare=False)

    def __str__(self) -> str:
        related = f"{self.relationship.name}." if self.relationship else ""
        return f"{'-' if self.descending else ''}{related}{self.stored_name}"


Order = tuple[Key, ...]
"""Sort keys by precedence. The last is the id, so that the order is total."""

BY_ID: Order = (Key("_id"),)
"""The default order."""


def parse_sort(value: str, resource: ResourceType, graph: Graph) -> Order:
    """Return the requested order; by id if the value is empty. Raises ApiErrors with all errors.

    The id breaks ties, in the direction of the last key. After a field of a related resource, the
    id of that resource does so first, so that resources related to the same one stay together.
    """
    if not value:
        return BY_ID
    keys, errors = list[Key](), ErrorCollector()
    names = sort_names(resource, graph)
    for text in value.split(","):
        name, owner, relationship = text.removeprefix("-"), resource, None
        if name not in names:
            detail = f"Unknown sort field {quoted(name)}; available: {quoted(*names)}."
            errors.add(InvalidParameter(detail, parameter="sort"))
            continue
        target_name, _, field_name = name.rpartition(".")
        if target_name:
            relationship = resource.relationships[target_name]
            owner = graph[relationship.target]
        stored = owner.stored_fields[field_name]
        descending = text.startswith("-")
        keys.append(Key(stored.stored_name, descending, relationship, stored.attribute))
    fields = [(key.relationship, key.stored_name) for key in keys]
    if len(set(fields)) < len(fields):
        errors.add(InvalidParameter("`sort` must not repeat a field.", parameter="sort"))
    errors.raise_any()
    if (None, "_id") in fields:
        return tuple(keys[: fields.index((None, "_id")) + 1])  # ids are unique
    last = keys[-1]
    if last.relationship and (last.relationship, "_id") not in fields:
        keys.append(replace(last, stored_name="_id", attribute=_RESOURCE_ID))
    return (*keys, Key("_id", last.descending))


def sort_names(resource: ResourceType, graph: Graph) -> list[str]:
    """Return the sort fields of a type: `serial`, `owner.last_name`.

    Periods are not sorted by what they copy, as it has two places, nor by related resources, which
    may be deleted.
    """
    own = [name for name in resource.stored_fields if name not in resource.copies]
    if resource.read_only:
        return own
    related = [
        f"{name}.{field}"
        for name, relationship in resource.relationships.items()
        if not relationship.to_many
        for field in ("id", *graph[relationship.target].attributes)
    ]
    return [*own, *related]


Position: TypeAlias = tuple[Any, ...]
"""The stored values of the sort keys of a resource; empty: the end of the collection."""

END: Position = ()


@dataclass(frozen=True, slots=True)
class Cursors:
    """Encodes and decodes the cursors of one type in one order."""

    type: str
    order: Order

    def encode(self, position: Position) -> str:
        """Return the cursor of a position."""
        pairs = zip(self.order, position, strict=False)
        values = [None if one is None else key.attribute.to_cursor(one) for key, one in pairs]
        text = orjson.dumps([self._name(), values])
        return urlsafe_b64encode(text).rstrip(b"=").decode()

    def decode(self, cursor: str, parameter: str) -> Position:
        """Return a position. Raises InvalidParameter for a cursor of another type or order."""
        try:
            padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
            name, values = orjson.loads(urlsafe_b64decode(padded))
            if name != self._name() or not isinstance(values, list):
                raise ValueError(name)
            pairs = zip(self.order, values, strict=True) if values else ()
            return tuple(
                key.attribute.stored_null if value is None else key.attribute.from_cursor(value)
                for key, value in pairs
            )
        except (ValueError, TypeError, ValidationError) as error:
            reason = "is not a cursor of this collection in this order"
            detail = f"{quoted(cursor)} {reason}; cursors are in the links of a page."
            raise InvalidParameter(detail, parameter=parameter) from error

    def _name(self) -> str:
        return f"{self.type}:{','.join(map(str, self.order))}"
