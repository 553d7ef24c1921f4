"""Projections: the stored fields that a query returns. Hidden fields never leave the database."""

from collections.abc import Iterable
from functools import lru_cache

from registry.model.record import VERSION
from registry.model.resource_type import ResourceType


@lru_cache(maxsize=1024)  # bounded, as clients choose the names
def fields_of(resource: ResourceType, names: frozenset[str]) -> tuple[str, ...]:
    """Return the stored fields of the named attributes, without duplicates.

    All foreign keys are among them. A computed attribute is represented by its parts, as
    serialization computes it from them.
    """
    parts = {name: attribute.parts for name, attribute in resource.computed.items()}
    selected = [name for name in resource.readable if name in names]
    fields = [part for name in selected for part in parts.get(name, (name,))]
    foreign_keys = (link.foreign_key for link in resource.links)
    return tuple(dict.fromkeys([*fields, *foreign_keys]))


@lru_cache(maxsize=64)
def visible_fields(resource: ResourceType) -> tuple[str, ...]:
    """Return all stored fields that responses are built from, besides `_id`."""
    return (*fields_of(resource, frozenset(resource.readable)), VERSION)


def visible(resource: ResourceType) -> dict[str, bool]:
    """Return the projection to all fields that responses are built from."""
    return only(visible_fields(resource))


def only(fields: Iterable[str]) -> dict[str, bool]:
    """Return the projection to these fields and the id; an empty one would return all fields."""
    return dict.fromkeys(("_id", *fields), True)
