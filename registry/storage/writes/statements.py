"""Statements: few commands that store changes of records, and why MongoDB rejects one of them."""

import logging
from collections.abc import Hashable, Sequence
from itertools import groupby
from typing import Any

from registry.jsonapi.changes import Write
from registry.model.record import LAST_WRITE, VERSION, Record
from registry.model.resource_type import ResourceType
from registry.storage.errors import (
    DUPLICATE_KEY,
    DuplicateValue,
    IdTaken,
    StorageError,
    Unavailable,
)
from registry.storage.mongo.transactions import Transaction, WriteRejected
from registry.storage.records import (
    VALIDATION_FAILURE,
    id_condition,
    refused_record,
)
from registry.storage.schema.unique_indexes import taken_attribute
from registry.storage.writes.identity_map import RecordChange

_log = logging.getLogger("registry")

_MAX_STATEMENTS = 1_000
"""Records per command: while the driver encodes them, no other thread runs."""


async def store(
    transaction: Transaction, resource: ResourceType, changes: Sequence[RecordChange]
) -> None:
    """Store changes of records of a type. Raises WriteRejected."""
    # In order, as a resource may get the unique value that another one had before.
    ordered = changes if resource.unique_attributes else sorted(changes, key=_command)
    for command, some in groupby(ordered, _command):
        of_command = list(some)
        for start in range(0, len(of_command), _MAX_STATEMENTS):
            chunk = of_command[start : start + _MAX_STATEMENTS]
            await _store(transaction, command, resource, chunk)


def rejection(
    writes: Sequence[Write], resource: ResourceType, rejected: WriteRejected
) -> StorageError:
    """Return why MongoDB has rejected what a request writes to records of a type.

    writes: those of the request, with the ids of new resources.
    """
    name = taken_attribute(rejected.error, resource)
    for write in reversed(writes):
        attributes = write.change.attributes
        is_rejected = write.resource is resource and write.target.id == rejected.id
        if is_rejected and name is not None and name in attributes:
            return DuplicateValue(resource, name, write.position)
    error = rejected.error
    if error["code"] == DUPLICATE_KEY and list(error.get("keyPattern", ())) == ["_id"]:
        return IdTaken()
    if error["code"] == VALIDATION_FAILURE:
        return refused_record(resource, rejected.id, error)
    _log.error("MongoDB rejects %s/%s: %s", resource.collection, rejected.id, error.get("errmsg"))
    return Unavailable()


def _command(change: RecordChange) -> str:
    if change.after is None:
        return "delete"
    return "insert" if change.before is None else "update"


async def _store(
    transaction: Transaction, command: str, resource: ResourceType, changes: Sequence[RecordChange]
) -> None:
    name = resource.collection
    if command == "insert":
        await transaction.insert(name, [one.after for one in changes if one.after])
    elif command == "delete":
        ids = [one.before["_id"] for one in changes if one.before]
        await transaction.delete(name, [{"q": {"_id": id_condition(ids)}, "limit": 0}])
    else:
        await transaction.update(name, _updates(changes, resource))


def _updates(changes: Sequence[RecordChange], resource: ResourceType) -> list[dict[str, Any]]:
    """Return the statements of updates: one for all records in which the same links change."""
    links = {VERSION, LAST_WRITE, *(link.foreign_key for link in resource.links)}
    links |= {*resource.tracking_fields}
    alike: dict[Hashable, tuple[Record, list[Any]]] = {}
    for one in changes:
        fields = one.fields
        key = tuple(fields.items()) if fields.keys() <= links else one.key
        alike.setdefault(key, (fields, []))[1].append(one.key[1])
    return [
        {"q": {"_id": id_condition(ids)}, "u": {"$set": fields}, "multi": len(ids) > 1}
        for fields, ids in alike.values()
    ]
