"""Names that clients use -> fields of stored records."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from registry.model.resource import Resource


@lru_cache(maxsize=64)
def stored_fields(resource: Resource) -> Mapping[str, str]:
    """Return the stored field of each name that resources can be filtered and sorted by.

    Names: `id`, the attributes, and the to-one relationships, which are stored as foreign keys.
    """
    foreign_keys = {link.name: link.foreign_key for link in resource.links}
    return {"id": "_id", **{name: name for name in resource.attributes}, **foreign_keys}


@lru_cache(maxsize=64)
def fieldset_names(resource: Resource) -> frozenset[str]:
    """Return the names allowed in `fields[type]` (section 2.4 of the service description)."""
    foreign_keys = (link.foreign_key for link in resource.links)
    return frozenset({"id", *resource.attributes, *resource.relationships, *foreign_keys})
