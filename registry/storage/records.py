"""Records: the stored form of resources, and what is asked of MongoDB to read and write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from registry.jsonapi.request_documents import Change
from registry.model.record import VERSION, LinkedIds, Record
from registry.model.resource import Resource

Versions: TypeAlias = frozenset[int] | None
"""The versions of which a record has to have one in order to be written; None for any."""

Stage: TypeAlias = dict[str, Any]
"""A stage of an aggregation pipeline."""

RECORDS_A_REPLY = 100_000
"""More than a reply has room for; without it, the first one brings 101 and the rest another."""

_LARGEST_VERSION = 10**18 - 1
"""No record gets there; what is greater was stored by another tool, and is no version."""

_PRESENT_VERSION: Stage = {
    "$cond": [
        {
            "$and": [
                {"$in": [{"$type": f"${VERSION}"}, ["int", "long"]]},
                {"$gte": [f"${VERSION}", 0]},
                {"$lte": [f"${VERSION}", _LARGEST_VERSION]},
            ]
        },
        f"${VERSION}",
        0,
    ]
}
"""What `version_of` says of a record, in the words of MongoDB."""

NEXT_VERSION = {VERSION: {"$add": [_PRESENT_VERSION, 1]}}
"""The version after the present one."""


def version_of(record: Record) -> int:
    """Return the version of a record, 0 if other tools have stored none or what is none."""
    found = record.get(VERSION)
    if not isinstance(found, int) or isinstance(found, bool):
        return 0
    return found if 0 <= found <= _LARGEST_VERSION else 0


def key_of(record: Record, column: str) -> int | None:
    """Return the id that a field of the record holds; other tools may have stored what is none."""
    found = record.get(column)
    if isinstance(found, int):
        return found
    return int(found) if isinstance(found, float) and found.is_integer() else None


def by_id(records: Iterable[Record]) -> list[Record]:
    """Return the records sorted: ids rise, and what other tools have stored instead follows."""
    found = list(records)
    try:
        found.sort(key=itemgetter("_id"))
    except TypeError:
        found.sort(key=_place)
    return found


def _place(record: Record) -> tuple[bool, Any]:
    found = record["_id"]
    return (False, found) if isinstance(found, int | float) else (True, str(found))


def new_record(resource: Resource, number: int, change: Change) -> Record:
    """Return the record of a resource that a request creates."""
    record = {
        "_id": number,
        **resource.hidden,
        **resource.read_only_defaults,
        **{link.foreign_key: None for link in resource.links},
        **change.attributes,
        **keys(change),
        VERSION: 1,
    }
    return record | {name: text.compute(record) for name, text in resource.computed.items()}


def chosen(number: int, versions: Versions) -> dict[str, Any]:
    """Return the query of the record with this id, if it has one of the versions."""
    if versions is None:
        return {"_id": number}
    return {"_id": number, "$expr": {"$in": [_PRESENT_VERSION, list(versions)]}}


def keys(change: Change) -> dict[str, LinkedIds]:
    """Return the keys that the to-one linkages set on the record itself."""
    return {
        linkage.relationship.foreign_key: linkage.linked_ids
        for linkage in change.linkages
        if not linkage.relationship.to_many
    }


def changes(resource: Resource, change: Change) -> list[Stage]:
    """Return the update of a record. A literal is no operator, whatever a client has sent."""
    new = change.attributes
    values = {name: {"$literal": value} for name, value in (new | keys(change)).items()}
    joined = {
        name: _concatenation(text.parts, new)
        for name, text in resource.computed.items()
        if not new.keys().isdisjoint(text.parts)
    }
    return [{"$set": {**values, **joined, **NEXT_VERSION}}]


def batch_update(resource: Resource, asked: Sequence[tuple[int, Change]]) -> list[Stage]:
    """Return one update of many records, which changes the attributes of each as its own."""
    numbers = [number for number, _ in asked]
    place = {"$indexOfArray": [{"$literal": numbers}, "$_id"]}
    new = {"$arrayElemAt": [{"$literal": [change.attributes for _, change in asked]}, place]}
    changed = {"$replaceWith": {"$mergeObjects": ["$$ROOT", new]}}
    return [changed, *joining(resource), {"$set": NEXT_VERSION}]


def joining(resource: Resource) -> list[Stage]:
    """Return the update that makes the joined fields anew; none for a type that has none."""
    joined = {name: _concatenation(text.parts, {}) for name, text in resource.computed.items()}
    return [{"$set": joined}] if joined else []


def _concatenation(parts: tuple[str, ...], new: Mapping[str, Any]) -> Stage:
    """Return the parts joined, of which the new ones are known and the others stored."""
    texts: list[Any] = []
    for part in parts:
        stored = {"input": f"${part}", "to": "string", "onError": "", "onNull": ""}
        texts += [" ", {"$literal": str(new[part])} if part in new else {"$convert": stored}]
    return {"$concat": texts[1:]}
