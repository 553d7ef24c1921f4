"""Stored records -> `attributes` of resource objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from registry.model.attributes import ComputedText
from registry.model.record import Record
from registry.model.resource import Resource

AttributeSerializer: TypeAlias = Callable[[Record], dict[str, Any]]
"""Returns the JSON values of a record by name, in the order of declaration."""


@lru_cache(maxsize=1024)  # bounded, as clients choose the names
def serializer_for(resource: Resource, names: frozenset[str]) -> AttributeSerializer:
    """Return the serializer of the named attributes; other names are ignored.

    A record of an external writer may lack an attribute; unless it is nullable, it is omitted.
    """
    copied = {name for name, one in resource.attributes.items() if one.is_json}
    copied -= resource.computed.keys()
    attributes = [
        (name, attribute, attribute.stored_type if name in copied else None)
        for name, attribute in resource.attributes.items()
        if name in names
    ]

    def serialize(record: Record) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, attribute, json_class in attributes:
            value = record.get(name)
            if value.__class__ is json_class:
                values[name] = value
            elif isinstance(attribute, ComputedText):
                values[name] = attribute.compute(record)
            elif value is not None or attribute.nullable:
                values[name] = attribute.to_json(value)
        return values

    return serialize
