"""Counters: the last id of each type, how many resources there are, and their places by id.

`{_id: "person", last: 1000000, count: 999988, deleted: {"17": 12}}`

- last: the id that was given out last. Ids begin with 1 and are never given out again.
- count: the number of resources.
- deleted: how many of the ids up to `last` have no resource any more, by block of 4,096 ids (the
  id divided by 4,096, rounded down). Blocks without deletions are missing, so creations do not
  change this field.

Each transaction that creates or deletes resources updates their counter, so in any snapshot, it
agrees with the collection. A total and a page cost the same at any size. Without it, mongod would
take 270 ms to count a million records, and as long to skip them.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import DuplicateKeyError, OperationFailure

from registry.model.graph import Graph
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.storage.mongo.mongo_client import Database
from registry.storage.mongo.transactions import Statement, Transaction, TransactionConflict
from registry.storage.records import Stage

COUNTERS = "counters"
"""The collection."""

FIELDS = LAST, COUNT, DELETED = "last", "count", "deleted"
"""The fields of a counter."""

BLOCK = 4_096
"""Ids per block. Where some are deleted, a page skips half of a block on average."""


class Place(NamedTuple):
    """Where a resource is in the order of the ids: start at `start`, and skip `skipped` ids."""

    start: int
    skipped: int


@dataclass(frozen=True, slots=True)
class IdCounter:
    """The counter of a type in a snapshot."""

    last: int = 0
    count: int = 0
    deleted: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the counter that a document has."""
        return cls(*(document[name] for name in FIELDS))

    @property
    def fields(self) -> Record:
        """What is stored of it."""
        return {name: getattr(self, name) for name in FIELDS}

    def place(self, offset: int, *, descending: bool = False) -> Place | None:
        """Return where the resource after `offset` others is; None beyond the last one.

        descending: whether to count from the greatest id.
        """
        if offset >= self.count:
            return None
        position = self.count - 1 - offset if descending else offset
        missing = 0  # ids without a resource below the block
        for block, deleted in sorted(
            (int(block), number) for block, number in self.deleted.items()
        ):
            first, end = max(block * BLOCK, 1), min((block + 1) * BLOCK, self.last + 1)
            if position + 1 + missing < first:
                break
            stored = end - first - deleted
            skipped = position - (first - 1 - missing)
            if skipped < stored:
                if descending:
                    return Place(end - 1, stored - 1 - skipped)
                return Place(first, skipped)
            missing += deleted
        return Place(position + 1 + missing, 0)


def increments(
    last: int, given: int, created: Collection[int], removed: Collection[int]
) -> dict[str, int]:
    """Return by how much a transaction changes the fields of a counter.

    last: the last id before. given: how many ids follow it. created, removed: the ids of the
    resources that are stored, and of those that no longer are.
    """
    gaps = given and set(range(last + 1, last + given + 1)).difference(created)
    changes = {LAST: given, COUNT: len(created) - len(removed)}
    if gaps or removed:
        for block, number in Counter(id_ // BLOCK for id_ in (*removed, *(gaps or ()))).items():
            changes[f"{DELETED}.{block}"] = number
    return {name: change for name, change in changes.items() if change}


class CountersChanged(TransactionConflict):
    """Another process has given out ids. is_locked: its transaction is not committed yet."""

    def __init__(self, *, is_locked: bool) -> None:
        super().__init__()
        self.is_locked = is_locked


class NewIds:
    """Gives out the ids of one transaction, in order and without gaps, and updates the counters.

    known: the last id of each type after the transaction before, None if it has failed. While no
    other process creates resources, they need not be read: the update of the counters checks them.
    `load` and `store` block and raise PyMongoError.
    """

    def __init__(self, transaction: Transaction, known: Mapping[str, int] | None) -> None:
        self._transaction = transaction
        self._known = known
        self._stored: Mapping[str, int] = {}
        self._last: dict[str, int] = {}
        self._savepoint: dict[str, int] = {}

    def load(self, *, holds: bool) -> None:
        """Learn the last id of each type.

        holds: whether to hold the counters from now on, for a transaction that takes long: it would
        be in vain if another process changed them meanwhile. Raises CountersChanged.
        """
        if holds:
            # Changes nothing that is read; other transactions conflict with it.
            update = {"$currentDate": {"held": True}}
            self._update([{"q": {ID: {"$type": "string"}}, "u": update, "multi": True}])
        if self._known is None:
            counters = self._transaction.find(COUNTERS, {}, {LAST: True})
            self._known = {counter[ID]: counter[LAST] for counter in counters if LAST in counter}
        self._stored, self._last = self._known, dict(self._known)

    @property
    def are_known(self) -> bool:
        """Whether `load` need not read the counters."""
        return self._known is not None

    @property
    def last(self) -> Mapping[str, int] | None:
        """The last id of each type after this transaction, None if it is not known."""
        return self._last or self._known

    def take(self, type_name: str) -> int:
        """Return the next id of a type."""
        id_ = self._last[type_name] = self._last[type_name] + 1
        return id_

    def savepoint(self) -> None:
        """Begin a request: `undo` refers to it from now on."""
        self._savepoint = self._last.copy()

    def undo(self) -> None:
        """Give back the ids since the savepoint, for the next request."""
        self._last = self._savepoint.copy()

    def store(
        self, created: Mapping[str, Collection[int]], removed: Mapping[str, Collection[int]]
    ) -> None:
        """Update the counters. created, removed: ids of resources by type, as they are stored.

        Raises CountersChanged.
        """
        statements: list[Statement] = []
        for type_name in {*self._last, *removed}:
            last = self._stored.get(type_name, 0)
            given, gone = self._last.get(type_name, 0) - last, removed.get(type_name, ())
            if given or gone:
                query = {ID: type_name, LAST: last} if given else {ID: type_name}
                changes = increments(last, given, created.get(type_name, ()), gone)
                statements.append({"q": query, "u": {"$inc": changes}})
        self._stored = self._last.copy()
        if statements and self._update(statements) < len(statements):
            raise CountersChanged(is_locked=False)

    def _update(self, statements: list[Statement]) -> int:
        """Update counters; return how many were found. Raises CountersChanged."""
        try:
            return self._transaction.update(COUNTERS, statements)
        except OperationFailure as error:
            if error.has_error_label("TransientTransactionError"):
                raise CountersChanged(is_locked=True) from error
            raise


async def count_records(
    database: Database,
    resource: ResourceType,
    last: int = 0,
    session: AsyncIOMotorClientSession | None = None,
) -> IdCounter:
    """Return the counter that agrees with a collection. Raises PyMongoError.

    last: the id that is known to have been given out last; there may be greater ones.
    """
    block = {"$floor": {"$divide": [f"${ID}", BLOCK]}}
    stages: list[Stage] = [
        {"$match": {ID: {"$type": ["int", "long"], "$gt": 0}}},
        {"$group": {ID: {"$toLong": block}, "stored": {"$sum": 1}, "last": {"$max": f"${ID}"}}},
    ]
    found = await database[resource.collection].aggregate(stages, session=session).to_list(None)
    stored = {group[ID]: group["stored"] for group in found}
    last = max([last, *(group["last"] for group in found)])
    sizes = {block: min(BLOCK, last + 1 - block * BLOCK) for block in range(last // BLOCK + 1)}
    sizes[0] -= 1  # there is no id 0
    deleted = {str(block): size - stored.get(block, 0) for block, size in sizes.items()}
    return IdCounter(
        last, sum(stored.values()), {block: number for block, number in deleted.items() if number}
    )


async def prepare_counters(database: Database, graph: Graph) -> None:
    """Create missing counters, and complete those with `last` alone. Raises PyMongoError.

    An upgrade leaves those of types that are not declared. Several processes may do that at once:
    only the first one stores a counter.
    """
    for resource in graph.values():
        counter = await database[COUNTERS].find_one({ID: resource.type})
        if counter is None or COUNT not in counter:
            await recount(database, resource)


async def recount(database: Database, resource: ResourceType) -> bool:
    """Store the counter that agrees with a collection; return whether it was stored.

    It is not if another process changes the counter meanwhile. Raises PyMongoError.
    """
    former = await database[COUNTERS].find_one({ID: resource.type}) or {}
    counted = await count_records(database, resource, former.get(LAST, 0))
    query = {ID: resource.type, **{name: former.get(name) for name in FIELDS}}
    try:
        await database[COUNTERS].update_one(query, {"$set": counted.fields}, upsert=True)
    except DuplicateKeyError:
        return False
    return True
