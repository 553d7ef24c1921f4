"""The ids of new resources, and the counters that a transaction leaves."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pymongo.errors import OperationFailure

from registry.model.record import ID
from registry.storage.counters import COUNTERS, LAST, increments
from registry.storage.mongo.transactions import Statement, Transaction, TransactionConflict
from registry.storage.writes.identity_map import RecordChange

_HOLD: Statement = {"$currentDate": {"held": True}}
"""An update that changes nothing which is read: other transactions conflict with it."""


class CountersChanged(TransactionConflict):
    """Another process has given out ids. is_locked: its transaction is not committed yet."""

    def __init__(self, *, is_locked: bool) -> None:
        super().__init__()
        self.is_locked = is_locked


class LastIds:
    """The last id of each type, as this process knows it between its transactions.

    While no other process creates resources, a transaction need not read them. It checks them in
    any case, as it stores what follows them.
    """

    def __init__(self) -> None:
        self._left: Mapping[str, int] = {}
        self.current: Mapping[str, int] | None = None

    def keep(self, read: Mapping[str, int], left: Mapping[str, int]) -> None:
        """Note the ids at the beginning and the end of a transaction that is committed."""
        self.current = left if read == self._left else None
        self._left = left

    def forget(self) -> None:
        """Let the next transaction read them, after one that has failed."""
        self.current = None


class NewIds:
    """Gives out the ids of one transaction, in order and without gaps.

    The methods raise PyMongoError.
    """

    def __init__(self, transaction: Transaction, known: LastIds) -> None:
        self._transaction = transaction
        self._known = known
        self._read: Mapping[str, int] = {}
        self._stored: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._savepoint: Mapping[str, int] = {}

    async def load(self, *, holds: bool) -> None:
        """Learn the last id of each type.

        holds: whether to hold the counters from now on, for a transaction that takes long: it would
        be in vain if another process changed them meanwhile. Raises CountersChanged.
        """
        if holds:
            every: Statement = {"q": {ID: {"$type": "string"}}, "u": _HOLD, "multi": True}
            await self._update([every])
        last = self._known.current
        if last is None:
            counters = await self._transaction.find(COUNTERS, {}, {LAST: True})
            last = {counter[ID]: counter[LAST] for counter in counters if LAST in counter}
        self._read, self._stored, self._last = last, dict(last), dict(last)

    def take(self, type_name: str) -> int:
        """Return the next id of a type."""
        id_ = self._last[type_name] = self._last[type_name] + 1
        return id_

    def savepoint(self) -> None:
        """Begin a request: `undo` refers to it from now on."""
        self._savepoint = self._last.copy()

    def undo(self) -> None:
        """Give back the ids since the savepoint, for the next request."""
        self._last = dict(self._savepoint)

    async def store(self, changes: Sequence[RecordChange]) -> None:
        """Update the counters of the types of records that are stored, created or deleted.

        Raises CountersChanged.
        """
        statements = self._statements(changes)
        self._stored = dict(self._last)
        if not statements:
            return
        if await self._update(statements) < len(statements):
            raise CountersChanged(is_locked=False)

    async def _update(self, statements: Sequence[Statement]) -> int:
        """Update counters; return how many were found. Raises CountersChanged."""
        try:
            return await self._transaction.update(COUNTERS, statements)
        except OperationFailure as error:
            if error.has_error_label("TransientTransactionError"):
                raise CountersChanged(is_locked=True) from error
            raise

    def _statements(self, changes: Sequence[RecordChange]) -> list[Statement]:
        created, removed = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        for change in changes:
            type_name, id_ = change.key
            if not isinstance(id_, int):
                continue  # the result under an idempotency key
            if change.before is None:
                created[type_name].append(id_)
            elif change.after is None:
                removed[type_name].append(id_)
        statements: list[Statement] = []
        for type_name in {*self._last, *removed}:
            last = self._stored.get(type_name, 0)
            given = self._last.get(type_name, 0) - last
            if given or type_name in removed:
                query = {ID: type_name, LAST: last} if given else {ID: type_name}
                added = increments(last, given, created[type_name], removed[type_name])
                statements.append({"q": query, "u": {"$inc": added}})
        return statements

    def committed(self) -> None:
        """Note that the transaction is committed."""
        if self._last:
            self._known.keep(self._read, self._last)
