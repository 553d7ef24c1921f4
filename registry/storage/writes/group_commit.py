"""Group commit: the writes of concurrent requests share a transaction.

- One transaction of this process is in flight at a time. Requests that arrive meanwhile are the
  next group, and are applied in the order of their arrival.
- A request that is refused is answered alone; the others of its group are committed.
- A large request and a dry run have a transaction of their own. So has each request of a group
  whose transaction fails as a whole: another process writes the same records, or MongoDB rejects
  what one of them stores. It is tried again for some seconds.
- Groups take turns with requests that run alone. Between two groups, at most one of these is large,
  and the groups after it have as much time as it took, so large ones have half of the time.
- A group runs again as a whole if another process has created resources of the same types.
- A request whose transaction has begun is completed even if its caller leaves. One that waits is
  dropped then.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Mapping, Sequence

from bson.timestamp import Timestamp

from registry.capacity import GROUP_SIZE, RETRIED_WRITES
from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import Unavailable
from registry.metrics import BATCH_SIZE, BATCH_WAIT
from registry.model.graph import Graph
from registry.storage.counters import CountersChanged
from registry.storage.mongo.mongo_client import observed
from registry.storage.mongo.transactions import TransactionConflict, Transactions
from registry.storage.writes.row_batches import RowBatch, RowUnit
from registry.storage.writes.unit_of_work import UnitOfWork
from registry.storage.writes.write_requests import Outcome, WriteRequest, WriteResult

_log = logging.getLogger("registry")

_MAX_RESOURCES = 1_000
"""Resources that the requests of a group name."""

_RETRY_SECONDS = 10.0
"""How long a request is tried again while others write the same records."""

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.003, 0.1
"""The pause after a conflict, at first and at most. In between, it is a quarter of the time since
the first conflict. MongoDB reports a locked record at once, and the queue gathers meanwhile."""

_GATHERING_SECONDS = 0.01
"""How long a group waits at most for clients that have just received their responses."""


class GroupCommit:
    """Applies the writes of requests in transactions that they share."""

    def __init__(self, transactions: Transactions, graph: Graph) -> None:
        self._transactions = transactions
        self._graph = graph
        self._last_ids: Mapping[str, int] | None = None  # of each type, after the last transaction
        self._waiting = deque[WriteRequest]()  # for the next group
        self._alone = deque[WriteRequest]()  # small ones, each for a transaction of its own
        self._large = deque[WriteRequest]()
        self._pausing = set[asyncio.Task[None]]()  # those that wait before they run alone again
        self._lane: asyncio.Task[None] | None = None
        self._sizes = BATCH_SIZE.labels("writes")
        self._waits = BATCH_WAIT.labels("writes")

    async def close(self) -> None:
        """Wait until all requests have ended."""
        while tasks := [task for task in (*self._pausing, self._lane) if task and not task.done()]:
            await asyncio.wait(tasks)

    async def write(self, request: WriteRequest) -> list[WriteResult]:
        """Apply the writes of a request, all or none; return the result of each.

        Raises Unavailable, or what UnitOfWork refuses the request with.
        """
        self._enqueue(request)
        return await request.done

    def _enqueue(self, request: WriteRequest) -> None:
        self._queue_of(request).append(request)
        if self._lane is None or self._lane.done():
            self._lane = asyncio.create_task(self._run_lane())

    def _queue_of(self, request: WriteRequest) -> deque[WriteRequest]:
        if not request.is_alone:
            return self._waiting
        return self._large if request.is_large else self._alone

    async def _run_lane(self) -> None:
        """Run groups and requests alone by turns until none waits."""
        groups_end = 0.0  # when the time of groups is over, in seconds of `time.monotonic`
        while self._waiting or self._alone or self._large:
            if group := self._next_group():
                await self._run(group)
            small = [self._alone.popleft() for _ in range(min(len(self._alone), RETRIED_WRITES))]
            for request in small:
                await self._run_alone(request)
            if self._large and not (group and time.monotonic() < groups_end):
                begin = time.monotonic()
                await self._run_alone(self._large.popleft())
                groups_end = 2 * time.monotonic() - begin
            elif self._large or not small:
                await self._gather(len(group))

    async def _run_alone(self, request: WriteRequest) -> None:
        if not _is_dropped(request):
            await self._run([request])

    async def _gather(self, answered: int) -> None:
        """Let the next group wait for the clients of the last one, which often send again at once.

        Otherwise the clients would form two groups that take turns: at 64 connections, a create
        would take 1.15 times the CPU time of the service and 1.6 times that of mongod. For an
        iteration of the event loop for each client at most: with few clients, or others in
        between, waiting costs more than it saves. Before a large request, which takes much longer,
        for the whole time.
        """
        awaited = min(len(self._waiting) + answered, GROUP_SIZE)
        end = time.monotonic() + _GATHERING_SECONDS
        steps, pause = (10, _GATHERING_SECONDS / 10) if self._large else (answered, 0.0)
        for _ in range(steps):
            if len(self._waiting) >= awaited or time.monotonic() > end:
                return
            await asyncio.sleep(pause)

    def _next_group(self) -> list[WriteRequest]:
        """Remove and return the requests that share the next transaction, the oldest first."""
        group, size = list[WriteRequest](), 0
        while self._waiting and len(group) < GROUP_SIZE:
            request = self._waiting[0]
            if group and size + request.size > _MAX_RESOURCES:
                break
            self._waiting.popleft()
            if not _is_dropped(request):
                group.append(request)
                size += request.size
        return group

    async def _run(self, requests: Sequence[WriteRequest]) -> None:
        """Run a transaction, and answer the requests or let them wait for another one."""
        self._sizes.observe(len(requests))
        self._waits.observe(time.perf_counter() - requests[0].arrived)
        is_alone = requests[0].is_alone  # before the transaction, which may find that one is large
        try:
            outcomes, committed_at = await observed("transaction", self._transact(requests))
        except TransactionConflict as conflict:
            waiting = [each for each in requests if not self._is_given_up(each, conflict)]
            if is_alone:
                for request in waiting:
                    self._enqueue_later(request)
            elif isinstance(conflict, CountersChanged):
                self._enqueue_again(waiting)
                if conflict.is_locked and waiting:
                    await _pause(waiting[0])
            else:
                for request in waiting:
                    request.is_alone = True
                    self._enqueue(request)
        except Exception as error:  # noqa: BLE001 - raised to the callers
            for request in requests:
                # Not the same exception in several tasks: each would extend its traceback.
                request.end(error if len(requests) == 1 else Unavailable())
        else:
            self._settle(requests, outcomes, committed_at)

    def _enqueue_again(self, requests: Sequence[WriteRequest]) -> None:
        """Let requests of a group be the first of the next one, except those that are large now."""
        self._waiting.extendleft(each for each in reversed(requests) if not each.is_alone)
        for request in requests:
            if request.is_alone:
                self._enqueue(request)

    def _enqueue_later(self, request: WriteRequest) -> None:
        """Let a request that runs alone wait for a while before its next transaction."""

        async def enqueue() -> None:
            await _pause(request)
            self._enqueue(request)

        task = asyncio.create_task(enqueue())
        self._pausing.add(task)
        task.add_done_callback(self._pausing.discard)

    async def _transact(
        self, requests: Sequence[WriteRequest]
    ) -> tuple[list[Outcome], Timestamp | None]:
        """Apply requests; return the outcome of each, and the time of the commit."""
        first = requests[0]
        known, self._last_ids = self._last_ids, None  # until it is committed
        async with self._transactions.begin(is_shared=not first.is_alone) as transaction:
            if isinstance(first, RowBatch):
                unit: UnitOfWork = RowUnit(first, transaction, self._graph, known)
            else:
                unit = UnitOfWork(transaction, self._graph, known)
            outcomes = await unit.run(requests)
        self._last_ids = known if first.rolls_back else unit.last_ids
        return outcomes, transaction.committed_at

    def _settle(
        self, requests: Sequence[WriteRequest], outcomes: Sequence[Outcome], time_: Timestamp | None
    ) -> None:
        """Answer the requests of a transaction that is committed. time_: of the commit."""
        again = list[WriteRequest]()
        for request, outcome in zip(requests, outcomes, strict=True):
            if outcome is None:
                again.append(request)
                continue
            if not isinstance(outcome, RequestError):
                for result in outcome:
                    result.time = time_
            request.end(outcome)
        self._enqueue_again(again)

    def _is_given_up(self, request: WriteRequest, conflict: TransactionConflict) -> bool:
        """Return whether a request has conflicted for too long, and answer it then."""
        now = time.monotonic()
        if request.conflicts_since is None:
            request.conflicts_since = now
        self._transactions.clean_up_if_stuck(request.conflicts_since)
        if now - request.conflicts_since <= _RETRY_SECONDS:
            return False
        reason = conflict.__cause__ or conflict
        _log.error("A transaction conflicts for %g s: %s", _RETRY_SECONDS, reason)
        request.end(Unavailable())
        return True


def _is_dropped(request: WriteRequest) -> bool:
    """Return whether the caller of a request has left, and end it then."""
    if not request.done.cancelled():
        return False
    request.on_end()
    return True


async def _pause(request: WriteRequest) -> None:
    """Wait before a request runs again that has conflicted."""
    now = time.monotonic()
    pause = max(_PAUSE_SECONDS, (now - (request.conflicts_since or now)) / 4)
    pause *= random.uniform(0.7, 1.3)  # noqa: S311 - so that processes do not go in step
    await asyncio.sleep(min(pause, _LONGEST_PAUSE_SECONDS))
