"""Atomic operations: creations, updates and deletions in order, all in one transaction."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

from registry.jsonapi.atomic_operations import Operation, Verb
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.errors import RecordNotFound
from registry.storage.records import Outcome
from registry.storage.transactions import Transaction
from registry.storage.writes.deletions import delete
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.unit_of_work import UnitOfWork, WriteRequest


async def with_ids(operations: Sequence[Operation], counters: Counters) -> list[Operation]:
    """Return the operations with an id for each resource that they create. Raises Unavailable."""
    created: dict[Resource, list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.verb is Verb.CREATE:
            created[operation.resource].append(operation)
    ids: dict[int, int] = {}
    for resource, creations in created.items():
        allocated = await counters.allocate(resource, len(creations))
        for operation, id_ in zip(creations, allocated, strict=True):
            if operation.target.id is not None:
                ids[operation.target.id] = id_
    return [operation.with_assigned_ids(ids) for operation in operations]


async def execute(
    operations: Sequence[Operation], transaction: Transaction
) -> list[tuple[Operation, Record]]:
    """Execute operations on known ids, in order; return each with the record that it wrote.

    Raises PyMongoError, IdTaken, or RecordNotFound with the pointer into the first operation that
    fails; the caller then aborts the transaction.
    """
    performed: list[tuple[Operation, Record]] = []
    for is_deletion, group in groupby(operations, key=lambda each: each.verb is Verb.DELETE):
        members = list(group)
        if is_deletion:
            outcomes = [await _delete(operation, transaction) for operation in members]
        else:
            outcomes = await UnitOfWork(transaction).apply(list(map(_write_request, members)))
        performed += zip(members, map(_record, members, outcomes), strict=True)
    return performed


async def _delete(operation: Operation, transaction: Transaction) -> Outcome:
    if operation.target.id is None:
        return None
    author = operation.change.author
    return await delete(transaction, operation.resource, operation.target.id, author=author)


def _write_request(operation: Operation) -> WriteRequest:
    is_new = operation.verb is Verb.CREATE
    return WriteRequest(operation.resource, operation.target.id, operation.change, is_new=is_new)


def _record(operation: Operation, outcome: Outcome) -> Record:
    if outcome is None:
        raise RecordNotFound.by_identifiers(operation.resource.type, [operation.target])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
