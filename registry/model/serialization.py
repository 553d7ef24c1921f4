"""Stored records -> attributes as JSON has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from registry.model.attributes import ComputedText
from registry.model.record import Record
from registry.model.resource import Resource

AttributeSerializer: TypeAlias = Callable[[Record], dict[str, Any]]
"""Takes a record and returns JSON values by name, in the order of declaration."""


@lru_cache(maxsize=1024)  # bounded, as clients choose the names
def serializer_for(resource: Resource, names: frozenset[str]) -> AttributeSerializer:
    """Return the serializer of the named attributes; other names are ignored.

    An attribute that cannot be null is left out where a record, of an external writer, lacks it.
    """
    chosen = [
        (
            name,
            one.stored_type if one.is_json else None,
            one.compute if isinstance(one, ComputedText) else None,
            one,
        )
        for name, one in resource.attributes.items()
        if name in names
    ]

    def serialize(record: Record) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, json_class, compute, attribute in chosen:
            if compute is not None:
                values[name] = compute(record)
                continue
            value = record.get(name)
            if value.__class__ is json_class:
                values[name] = value
            elif value is not None or attribute.nullable:
                values[name] = attribute.to_json(value)
        return values

    return serialize
