"""Atomic operations: creations, updates and deletions in order, all in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from motor.motor_asyncio import AsyncIOMotorDatabase

from registry.jsonapi.atomic_operations import Operation, Verb
from registry.model.graph import Graph
from registry.model.record import Record
from registry.storage.errors import RecordNotFound
from registry.storage.transactions import Session
from registry.storage.writes.deletions import Deletion
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.unit_of_work import Outcome, UnitOfWork, WriteRequest


async def with_ids(operations: Sequence[Operation], counters: Counters) -> list[Operation]:
    """Return the operations with an id for each resource that they create. Raises Unavailable."""
    created: dict[str, list[Operation]] = {}
    for operation in operations:
        if operation.verb is Verb.CREATE:
            created.setdefault(operation.resource.type, []).append(operation)
    ids: dict[int, int] = {}
    for several in created.values():
        allocated = await counters.allocate(several[0].resource, len(several))
        for operation, id_ in zip(several, allocated, strict=True):
            if operation.target.id is not None:
                ids[operation.target.id] = id_
    return [operation.with_assigned_ids(ids) for operation in operations]


async def execute(
    operations: Sequence[Operation],
    database: AsyncIOMotorDatabase[dict[str, Any]],
    graph: Graph,
    session: Session,
) -> list[Record]:
    """Execute operations on known ids, in order; return the record that each one wrote.

    Raises PyMongoError, IdTaken, or RecordNotFound with the pointer into the first operation that
    fails; the caller then aborts the transaction.
    """
    records: list[Record] = []
    for verb, group in groupby(operations, key=lambda one: one.verb is Verb.DELETE):
        several = list(group)
        if verb:
            outcomes = [await _delete(one, Deletion(database, graph, session)) for one in several]
        else:
            requests = [_write_request(one) for one in several]
            outcomes = await UnitOfWork(database, graph, session).apply(requests)
        records += map(_record, several, outcomes)
    return records


async def _delete(operation: Operation, deletion: Deletion) -> Outcome:
    if operation.target.id is None:
        return None
    return await deletion.delete(operation.resource, operation.target.id)


def _write_request(operation: Operation) -> WriteRequest:
    is_new = operation.verb is Verb.CREATE
    return WriteRequest(operation.resource, operation.target.id, operation.change, is_new=is_new)


def _record(operation: Operation, outcome: Outcome) -> Record:
    if outcome is None:
        raise RecordNotFound.by_identifiers(operation.resource.type, [operation.target])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
