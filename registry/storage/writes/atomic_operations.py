"""Atomic operations: creations, updates and deletions in order, all in one transaction."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from registry.jsonapi.atomic_operations import Operation, Verb
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.errors import RecordNotFound
from registry.storage.idempotency import IdempotencyKey, StoredResults
from registry.storage.transactions import Transaction
from registry.storage.writes.deletions import delete
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.unit_of_work import UnitOfWork, WriteOutcome, WriteRequest


@dataclass(frozen=True, slots=True)
class Performed:
    """Executed operations, their placeholders replaced by ids, each with the record it has written.

    is_replayed: whether an earlier request with the same idempotency key has executed them. The
    records of operations that are not shown then have only an id.
    """

    operations: Sequence[tuple[Operation, Record]]
    is_replayed: bool = False


async def allocate_ids(operations: Sequence[Operation], counters: Counters) -> dict[int, int]:
    """Return an id for each resource that the operations create, by placeholder.

    Raises Unavailable.
    """
    created: dict[Resource, list[int]] = defaultdict(list)
    for operation in operations:
        if operation.verb is Verb.CREATE and operation.target.id is not None:
            created[operation.resource].append(operation.target.id)
    ids: dict[int, int] = {}
    for resource, placeholders in created.items():
        allocated = await counters.allocate(resource, len(placeholders))
        ids.update(zip(placeholders, allocated, strict=True))
    return ids


async def execute(
    operations: Sequence[Operation],
    ids: Mapping[int, int],
    key: IdempotencyKey | None,
    transaction: Transaction,
) -> Performed:
    """Execute operations in order, unless the key has a result. ids: by placeholder.

    Raises PyMongoError, IdTaken, RecordNotFound with the pointer into the first operation that
    fails, or what StoredResults raises; the caller then aborts the transaction.
    """
    if key is None:
        return await _execute(operations, ids, transaction)
    results = StoredResults(transaction)
    await results.load([key])
    if (records := results.get(key)) is not None:
        return _replayed(operations, records)
    performed = await _execute(operations, ids, transaction)
    results.add(key, [(one.resource, _shown(one, record)) for one, record in performed.operations])
    await results.flush()
    return performed


def _replayed(operations: Sequence[Operation], records: Sequence[Record]) -> Performed:
    pairs = list(zip(operations, records, strict=True))
    ids = {
        one.target.id: record["_id"]
        for one, record in pairs
        if one.verb is Verb.CREATE and one.target.id is not None
    }
    performed = [(one.with_assigned_ids(ids), record) for one, record in pairs]
    return Performed(performed, is_replayed=True)


def _shown(operation: Operation, record: Record) -> Record:
    """Return what the response shows of a record, and the id, which may replace a placeholder."""
    return record if operation.shown else {"_id": record["_id"]}


async def _execute(
    operations: Sequence[Operation], ids: Mapping[int, int], transaction: Transaction
) -> Performed:
    performed: list[tuple[Operation, Record]] = []
    with_ids = (operation.with_assigned_ids(ids) for operation in operations)
    for is_deletion, group in groupby(with_ids, key=lambda each: each.verb is Verb.DELETE):
        members = list(group)
        if is_deletion:
            records = [await _delete(operation, transaction) for operation in members]
        else:
            outcomes = await UnitOfWork(transaction).apply(list(map(_write_request, members)))
            records = list(map(_record, members, outcomes))
        performed += zip(members, records, strict=True)
    return Performed(performed)


async def _delete(operation: Operation, transaction: Transaction) -> Record:
    id_, record = operation.target.id, None
    if id_ is not None:
        author = operation.change.author
        record = await delete(transaction, operation.resource, id_, author=author)
    if record is None:
        raise _not_found(operation)
    return record


def _write_request(operation: Operation) -> WriteRequest:
    is_new = operation.verb is Verb.CREATE
    return WriteRequest(operation.resource, operation.target.id, operation.change, is_new=is_new)


def _record(operation: Operation, outcome: WriteOutcome) -> Record:
    if outcome is None:
        raise _not_found(operation)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome.record


def _not_found(operation: Operation) -> RecordNotFound:
    return RecordNotFound.by_identifiers(operation.resource.type, [operation.target])
