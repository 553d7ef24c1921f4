"""Group commit: concurrent requests share a transaction."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import TypeAlias

from registry.capacity import GROUPS
from registry.metrics.families import BATCH_SIZE, BATCH_WAIT
from registry.model.graph import Graph
from registry.storage.errors import StorageError
from registry.storage.mongo.transactions import (
    Callback,
    Transaction,
    TransactionConflict,
    TransactionResult,
    Transactions,
)
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.identity_map import RecordKey
from registry.storage.writes.unit_of_work import UnitOfWork
from registry.storage.writes.write_requests import RequestOutcome, WriteRequest, WriteResult, sealed

_MAX_RESOURCES = 1_000
"""Resources that the requests of a group name."""

_ITERATIONS_BEFORE_GROUP = 2
"""Event-loop iterations to wait after a group, so that callers just answered can join the next."""

_Transact: TypeAlias = Callable[
    [Callback[list[RequestOutcome]]], Awaitable[TransactionResult[list[RequestOutcome]]]
]


class _Group:
    """Requests that share a transaction.

    claims: the records that no other group may write meanwhile. waiting: requests that have to wait
    until the group ends.
    """

    def __init__(self) -> None:
        self.requests: list[WriteRequest] = []
        self.size = 0
        self.claims: set[RecordKey] = set()
        self.waiting: list[WriteRequest] = []

    def add(self, request: WriteRequest) -> None:
        request.has_begun = True
        self.requests.append(request)
        self.size += request.size


class _Deferred(Exception):
    """The request waits for a group that writes the same records."""


class GroupCommit:
    """Collects concurrent requests into groups, and runs each group in a transaction.

    The requests of a group are applied in the order of their arrival; one that fails is answered
    alone. Groups in flight write different records: a request for a record that a group is writing
    waits for that group. If a transaction fails as a whole, because other processes write the same
    records or MongoDB rejects one of them, each request runs again in a transaction of its own. A
    request that has begun is completed even if its caller is cancelled.
    """

    def __init__(self, transactions: Transactions, graph: Graph, counters: Counters) -> None:
        self._transactions = transactions
        self._graph = graph
        self._counters = counters
        self._queue: deque[WriteRequest] = deque()
        self._writers: dict[RecordKey, _Group] = {}  # the groups that have claimed records
        self._tasks: set[asyncio.Task[None]] = set()
        self._groups = self._requests_in_flight = 0
        self._sizes = BATCH_SIZE.sample("writes")
        self._waits = BATCH_WAIT.sample("writes")

    async def close(self) -> None:
        """Wait until all requests have ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def write(self, request: WriteRequest) -> list[WriteResult]:
        """Apply the writes of a request, all or none; return the result of each.

        Raises Unavailable, or what the methods of UnitOfWork raise.
        """
        self._enqueue([request])
        self._dispatch()
        return await request.result

    def _enqueue(self, requests: Iterable[WriteRequest]) -> None:
        """Add requests to the queue; begin those that run alone."""
        for request in requests:
            if request.is_alone:
                if group := self._take(deque([request]), 1):
                    run = partial(self._transactions.run, commits=not request.rolls_back)
                    self._begin(self._run(group, run))
            else:
                self._queue.append(request)

    def _dispatch(self) -> None:
        """Begin the groups that can begin now."""
        while self._queue and self._groups < GROUPS.max_in_flight:
            if self._groups and len(self._queue) < self._group_size:
                break
            is_idle = not self._tasks
            if not (group := self._take(self._queue, self._group_size)):
                continue
            BATCH_SIZE.observe(self._sizes, len(group.requests))
            BATCH_WAIT.observe(self._waits, perf_counter() - group.requests[0].since)
            if is_idle and group.requests[0].is_single_command and len(group.requests) == 1:
                self._begin(self._run(group, self._transactions.attempt_single))
            else:
                self._groups += 1
                self._requests_in_flight += len(group.requests)
                self._begin(self._run_shared(group, len(group.requests)))

    @property
    def _group_size(self) -> int:
        """The size of the next group: an equal share of all requests for each group in flight.

        Otherwise the callers of one group would stay together, and the service and the database
        would take turns even with many callers.
        """
        share = -(-(len(self._queue) + self._requests_in_flight) // GROUPS.max_in_flight)
        return min(GROUPS.max_size, max(share, GROUPS.min_parallel))

    def _take(self, queue: deque[WriteRequest], count: int) -> _Group | None:
        """Remove a group from a queue; None if all requests in it have to wait."""
        group = _Group()
        while queue and len(group.requests) < count:
            if group.requests and group.size + queue[0].size > _MAX_RESOURCES:
                break
            request = queue.popleft()
            if request.result.done() and not request.has_begun:
                continue  # its caller was cancelled
            if writer := self._writer(request.records, group):
                self._wait_for(writer, request)
            else:
                self._claim(group, request.records)
                group.add(request)
        return group if group.requests else None

    def _writer(self, records: Iterable[RecordKey], group: _Group) -> _Group | None:
        """Return another group that has claimed one of the records, None if there is none."""
        writers = (self._writers.get(key, group) for key in records)
        return next((one for one in writers if one is not group), None)

    def _claim(self, group: _Group, records: Iterable[RecordKey]) -> None:
        self._writers.update(dict.fromkeys(records, group))
        group.claims.update(records)

    def _wait_for(self, group: _Group, request: WriteRequest) -> None:
        """Queue a request again when a group ends.

        The group claims the free records of the request, so that later ones do not overtake it.
        """
        group.waiting.append(request)
        self._claim(group, [key for key in request.records if key not in self._writers])

    def _begin(self, run: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(run)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_shared(self, group: _Group, count: int) -> None:
        try:
            await self._run(group, self._transactions.attempt_shared)
            if len(self._queue) < GROUPS.max_size:
                for _ in range(_ITERATIONS_BEFORE_GROUP):
                    await asyncio.sleep(0)
        finally:
            self._groups -= 1
            self._requests_in_flight -= count
            self._dispatch()

    async def _run(self, group: _Group, transact: _Transact) -> None:
        """Run a group, answer its requests, and let those that wait for it continue."""
        conflicting: list[WriteRequest] = []
        try:
            committed = await transact(partial(self._apply, group))
            for request, outcome in committed.result:
                if isinstance(outcome, StorageError):
                    request.fail(outcome)
                else:
                    request.succeed(outcome, committed.time)
        except TransactionConflict:
            conflicting = group.requests
        except _Deferred:
            pass  # it waits
        except Exception as error:  # noqa: BLE001 - raised to the callers
            for request in group.requests:
                request.fail(error)
        finally:
            self._end(group, conflicting)

    def _end(self, group: _Group, conflicting: Sequence[WriteRequest]) -> None:
        """Free the claims of a group. conflicting: its requests that run again, alone."""
        for key in group.claims:
            del self._writers[key]
        for request in conflicting:
            request.is_alone = request.compares_values = True
        self._enqueue(conflicting)
        if group.waiting:
            later, self._queue = self._queue, deque()
            self._enqueue([*sorted(group.waiting, key=attrgetter("since")), *later])
        self._dispatch()

    async def _apply(self, group: _Group, transaction: Transaction) -> list[RequestOutcome]:
        """Apply the requests of a group; return the outcome of each that need not wait."""
        unit = UnitOfWork(transaction, self._graph, self._counters)
        await unit.load(group.requests)
        outcomes: list[RequestOutcome] = []
        all_sealed = set[RecordKey]()  # records that later requests of the group must not write
        authors: dict[RecordKey, str | None] = {}  # of the records that are changed
        for request in list(group.requests):
            writer = group if all_sealed & request.records else None
            if writer is None:
                try:
                    results = await unit.apply(request)
                except TransactionConflict:
                    raise
                except StorageError as error:
                    if request.is_alone:  # some writes may be stored already
                        raise
                    outcomes.append((request, error))
                    continue
                author, touched = request.author, unit.touched
                request.records |= touched
                # The change feed shows one author for what a transaction changes in a record.
                is_shared = any(authors.get(key, author) != author for key in touched)
                writer = self._writer(request.records, group)
                if all_sealed & request.records or is_shared:
                    writer = group
                if writer is None:
                    authors |= dict.fromkeys(touched, author)
                    self._claim(group, request.records)
                    all_sealed |= sealed(results)
                    outcomes.append((request, results))
                    continue
                unit.undo()
            all_sealed |= request.records
            group.requests.remove(request)
            request.has_begun = False
            self._wait_for(writer, request)
            if request.is_alone:
                raise _Deferred
        await unit.flush(outcomes)
        return outcomes
