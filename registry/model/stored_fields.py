"""Names that clients use -> fields of stored records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from registry.model.attributes import Attribute, ResourceId
from registry.model.resource import Resource

ID = "_id"
"""The stored field of the id."""


@dataclass(frozen=True, slots=True)
class StoredField:
    """A field that resources can be filtered and sorted by: its stored name and its values."""

    stored_name: str
    attribute: Attribute


@lru_cache(maxsize=64)
def stored_fields(resource: Resource) -> Mapping[str, StoredField]:
    """Return the stored field of each name that resources can be filtered and sorted by.

    Names: `id`, the attributes, and the to-one relationships, which are stored as foreign keys.
    """
    return {
        "id": StoredField(ID, ResourceId(nullable=False)),
        **{name: StoredField(name, one) for name, one in resource.attributes.items()},
        **{
            link.name: StoredField(link.foreign_key, ResourceId(nullable=True))
            for link in resource.links
        },
    }


@lru_cache(maxsize=64)
def fieldset_names(resource: Resource) -> frozenset[str]:
    """Return the names allowed in `fields[type]` (section 2.4 of the service description)."""
    foreign_keys = (link.foreign_key for link in resource.links)
    return frozenset({"id", *resource.attributes, *resource.relationships, *foreign_keys})
