"""Field names of the API -> fields of stored records."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from registry.model.attributes import Attribute, Integer, ResourceId
from registry.model.authorship import AUTHORSHIP
from registry.model.record import TEXT_BLOCK, VERSION
from registry.model.resource_type import ResourceType

ID = "_id"
"""The stored field of the id."""

UNINDEXED = frozenset(AUTHORSHIP)
"""The stored fields that filters and sorts use without an index. Each change would have to update
it: with one for `updated_at`, mongod takes a fifth more CPU for a batch of updates."""


@dataclass(frozen=True, slots=True)
class StoredField:
    """A field that resources can be filtered and sorted by: its names in API and database."""

    name: str
    stored_name: str
    attribute: Attribute


@lru_cache(maxsize=64)
def stored_fields(resource: ResourceType) -> Mapping[str, StoredField]:
    """Return the fields that resources can be filtered and sorted by, by name.

    They are `id`, the attributes, the to-one relationships, which are stored as foreign keys, and
    the authorship.
    """
    foreign_key = ResourceId(nullable=True)
    links = (StoredField(link.name, link.foreign_key, foreign_key) for link in resource.links)
    authorship = (StoredField(name, name, attribute) for name, attribute in AUTHORSHIP.items())
    return attribute_fields(resource) | {field.name: field for field in (*links, *authorship)}


@lru_cache(maxsize=64)
def attribute_fields(resource: ResourceType) -> dict[str, StoredField]:
    """Return the fields of the resources themselves, without links, by name: `id`, attributes."""
    fields = [
        StoredField("id", ID, ResourceId(nullable=False)),
        *(StoredField(name, name, attribute) for name, attribute in resource.attributes.items()),
    ]
    return {field.name: field for field in fields}


@lru_cache(maxsize=64)
def record_attributes(resource: ResourceType) -> Mapping[str, Attribute]:
    """Return what declares the values of each field of a record, by the name of the field."""
    stored = {one.stored_name: one.attribute for one in stored_fields(resource).values()}
    return {**stored, VERSION: Integer(), TEXT_BLOCK: Integer(), **resource.hidden}


@lru_cache(maxsize=64)
def fieldset_names(resource: ResourceType) -> frozenset[str]:
    """Return the names allowed in `fields[type]` (JSON:API 1.0, Sparse Fieldsets)."""
    foreign_keys = (link.foreign_key for link in resource.links)
    return frozenset({"id", *resource.readable, *resource.relationships, *foreign_keys})
