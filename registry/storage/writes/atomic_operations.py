"""Atomic operations: creations, updates and deletions in order, all in one transaction."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from registry.jsonapi.atomic_operations import Operation, Verb, operation_position
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.errors import RecordNotFound
from registry.storage.idempotency import IdempotencyKey, StoredResults
from registry.storage.transactions import Transaction
from registry.storage.writes.deletions import delete
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.unit_of_work import (
    RequestRejected,
    UnitOfWork,
    WriteOutcome,
    WriteRequest,
)


@dataclass(frozen=True, slots=True)
class Executed:
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
) -> Executed:
    """Execute operations in order, unless the key has a result. ids: by placeholder.

    Raises PyMongoError, IdTaken, RecordNotFound or DuplicateValue with the pointer into the first
    operation that fails, or what StoredResults raises; the caller then aborts the transaction.
    """
    if key is None:
        return await _execute(operations, ids, transaction)
    results = StoredResults(transaction)
    await results.load([key])
    if (records := results.get(key)) is not None:
        return _replayed(operations, records)
    executed = await _execute(operations, ids, transaction)
    results.add(key, [(one.resource, _shown(one, record)) for one, record in executed.operations])
    await results.flush()
    return executed


def _replayed(operations: Sequence[Operation], records: Sequence[Record]) -> Executed:
    pairs = list(zip(operations, records, strict=True))
    ids = {
        one.target.id: record["_id"]
        for one, record in pairs
        if one.verb is Verb.CREATE and one.target.id is not None
    }
    executed = [(one.with_assigned_ids(ids), record) for one, record in pairs]
    return Executed(executed, is_replayed=True)


def _shown(operation: Operation, record: Record) -> Record:
    """Return what the response shows of a record, and the id, which may replace a placeholder."""
    return record if operation.shown else {"_id": record["_id"]}


async def _execute(
    operations: Sequence[Operation], ids: Mapping[int, int], transaction: Transaction
) -> Executed:
    executed: list[tuple[Operation, Record]] = []
    for group in _groups([operation.with_assigned_ids(ids) for operation in operations]):
        if group[0].verb is Verb.DELETE:
            records = [await _delete(operation, transaction) for operation in group]
        else:
            records = await _write(group, len(executed), transaction)
        executed += zip(group, records, strict=True)
    return Executed(executed)


def _groups(operations: Iterable[Operation]) -> Iterator[list[Operation]]:
    """Yield operations that can be executed at once: deletions, or what one unit of work accepts.

    A unit of work sets the unique attributes of a resource once.
    """
    group: list[Operation] = []
    set_unique: set[tuple[str, int | None]] = set()
    for operation in operations:
        resource = (operation.resource.type, operation.target.id)
        sets_unique = operation.resource.has_unique(operation.change.attributes)
        is_other_kind = group and (group[0].verb is Verb.DELETE) != (operation.verb is Verb.DELETE)
        if is_other_kind or (sets_unique and resource in set_unique):
            yield group
            group, set_unique = [], set()
        group.append(operation)
        if sets_unique:
            set_unique.add(resource)
    yield group


async def _write(
    operations: Sequence[Operation], first: int, transaction: Transaction
) -> list[Record]:
    """Create and update resources; return their records. first: the index of the first operation.

    Raises as `execute` does.
    """
    requests = [_write_request(*each) for each in enumerate(operations, first)]
    try:
        outcomes = await UnitOfWork(transaction).apply(requests)
    except RequestRejected as rejected:
        raise rejected.error from None
    return list(map(_record, operations, outcomes))


async def _delete(operation: Operation, transaction: Transaction) -> Record:
    id_, record = operation.target.id, None
    if id_ is not None:
        record = await delete(transaction, operation.resource, id_)
    if record is None:
        raise _not_found(operation)
    return record


def _write_request(index: int, operation: Operation) -> WriteRequest:
    return WriteRequest(
        operation.resource,
        operation.target.id,
        operation.change,
        is_new=operation.verb is Verb.CREATE,
        position=operation_position(index) / "data",
    )


def _record(operation: Operation, outcome: WriteOutcome) -> Record:
    if outcome is None:
        raise _not_found(operation)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome.record


def _not_found(operation: Operation) -> RecordNotFound:
    return RecordNotFound.by_identifiers(operation.resource.type, [operation.target])
