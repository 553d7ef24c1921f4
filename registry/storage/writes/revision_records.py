"""Revisions: what each request has changed of each resource, stored in its transaction."""

import datetime
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from registry.model.graph import Graph
from registry.model.record import ID, Record
from registry.model.resource_type import Link, ResourceType
from registry.model.revisions import (
    ACTION,
    AFTER,
    AT,
    AUTHOR,
    BEFORE,
    CREATED,
    DELETED,
    REVISION,
    UPDATED,
)
from registry.storage.records import is_same
from registry.storage.writes.identity_map import IdentityMap


def add_revisions(records: IdentityMap, graph: Graph, time: str) -> None:
    """Add a revision for each resource that a request has changed; its net effect counts.

    time: of the changes, as stored.
    """
    at = datetime.datetime.fromisoformat(time)
    keys = {link.target: link.foreign_key for link in graph[REVISION].links}
    for (type_name, id_), stored in list(records.before_request.items()):
        if type_name not in keys:
            continue
        before, after = stored or {}, records.get((type_name, id_)) or {}
        if names := _differing(graph[type_name], before, after):
            revision: Record = {
                ID: records.new_ids.take(REVISION),
                AT: at,
                ACTION: UPDATED if before and after else CREATED if after else DELETED,
                BEFORE: _values(graph[type_name], names, before),
                AFTER: _values(graph[type_name], names, after),
                keys[type_name]: id_,
            }
            if records.author is not None:
                revision[AUTHOR] = records.author
            records.put((REVISION, revision[ID]), revision)


@lru_cache(maxsize=64)
def _compared(resource: ResourceType) -> Mapping[str, Link | None]:
    """Return the stored fields of what revisions show, with the link of foreign keys."""
    attributes = (name for name, each in resource.attributes.items() if not each.is_computed)
    return {**dict.fromkeys(attributes), **{link.foreign_key: link for link in resource.links}}


def _differing(resource: ResourceType, before: Record, after: Record) -> list[str]:
    """Return the stored fields with different values; all of a resource that is created."""
    return [
        name
        for name in _compared(resource)
        if before.get(name) is not after.get(name)
        and not is_same(before.get(name), after.get(name))
    ]


def _values(resource: ResourceType, names: Iterable[str], record: Record) -> dict[str, Any]:
    """Return the values of stored fields in JSON, by the names that clients know; none is null."""
    values: dict[str, Any] = {}
    for name in names:
        link, value = _compared(resource)[name], record.get(name)
        if value is None:
            continue
        if link:
            values[link.name] = {"type": link.target, "id": str(value)}
        else:
            values[name] = resource.json_value(name, record)
    return values
