"""Group commit: the writes of concurrent requests share a transaction.

- One transaction of this process is in flight at a time. Requests that arrive meanwhile are the
  next group, and are applied in the order of their arrival.
- A request that is refused is answered alone; the others of its group are committed.
- A request that does not fit into the group that has begun is the first of the next one.
- A large request and a dry run have a transaction of their own. So has each request of a group
  whose transaction fails as a whole: another process writes the same records, or MongoDB rejects
  what one of them stores. It is tried again for some seconds, in turn with the groups.
- A group runs again as a whole if another process has created resources of the same types.
- A request whose transaction has begun is completed even if its caller leaves. One that waits is
  dropped then.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Sequence
from functools import partial

from bson.timestamp import Timestamp

from registry.capacity import GROUP_SIZE, RETRIED_WRITES
from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import Unavailable
from registry.metrics import BATCH_SIZE, BATCH_WAIT
from registry.model.graph import Graph
from registry.storage.mongo.transactions import Transaction, TransactionConflict, Transactions
from registry.storage.writes.new_ids import CountersChanged, LastIds, NewIds
from registry.storage.writes.unit_of_work import UnitOfWork
from registry.storage.writes.write_requests import Outcome, WriteRequest, WriteResult

_log = logging.getLogger("registry")

_MAX_RESOURCES = 1_000
"""Resources that the requests of a group name."""

_RETRY_SECONDS = 10.0
"""How long a request is tried again while others write the same records."""

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.1
"""The pause before a retry; it doubles each time. MongoDB reports a locked record at once."""

_COUNTER_PAUSE_SECONDS = 0.003
"""The pause before a group runs again whose counters another process holds, at first; the queue
gathers meanwhile. Later, it is a tenth of the time that it has taken so far."""

_GATHERING_ITERATIONS = 2
"""Event-loop iterations before a group that is not full, so that clients that have just received
their responses can join it."""


class GroupCommit:
    """Applies the writes of requests in transactions that they share."""

    def __init__(self, transactions: Transactions, graph: Graph) -> None:
        self._transactions = transactions
        self._graph = graph
        self._last_ids = LastIds()
        self._waiting = deque[WriteRequest]()
        self._retries = deque[WriteRequest]()  # each with a transaction of its own
        self._has_arrived = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._sizes = BATCH_SIZE.labels("writes")
        self._waits = BATCH_WAIT.labels("writes")

    async def close(self) -> None:
        """Wait until all requests have ended."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def write(self, request: WriteRequest) -> list[WriteResult]:
        """Apply the writes of a request, all or none; return the result of each.

        Raises Unavailable, or what UnitOfWork refuses the request with.
        """
        self._waiting.append(request)
        self._has_arrived.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await request.done

    async def _work(self) -> None:
        """Run transactions until no request is left."""
        while self._waiting or self._retries:
            due = self._due_retries()
            for request in due:
                await self._run([request])
            if group := self._next_group():
                await self._run(group)
                if len(self._waiting) < GROUP_SIZE:
                    for _ in range(_GATHERING_ITERATIONS):
                        await asyncio.sleep(0)
            elif not due:
                await self._pause()
        self._worker = None

    def _next_group(self) -> list[WriteRequest]:
        """Remove and return the requests that share the next transaction, the oldest first."""
        group, size = list[WriteRequest](), 0
        while self._waiting and len(group) < GROUP_SIZE:
            request = self._waiting[0]
            size += request.size
            if group and (request.is_alone or size > _MAX_RESOURCES):
                break
            self._waiting.popleft()
            if request.done.cancelled():
                request.end()
                size -= request.size
                continue
            group.append(request)
            if request.is_alone:
                break
        return group

    def _due_retries(self) -> list[WriteRequest]:
        """Remove and return the requests to try again before the next group."""
        due, later, now = list[WriteRequest](), deque[WriteRequest](), time.monotonic()
        for request in self._retries:
            if request.done.cancelled():
                request.end()
            elif request.retry_at <= now and len(due) < RETRIED_WRITES:
                due.append(request)
            else:
                later.append(request)
        self._retries = later
        return due

    async def _pause(self) -> None:
        """Wait for the next retry, or for another request."""
        self._has_arrived.clear()
        seconds = min((request.retry_at for request in self._retries), default=0) - time.monotonic()
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._has_arrived.wait()
        except TimeoutError:
            pass

    async def _run(self, requests: Sequence[WriteRequest]) -> None:
        """Run a transaction; afterwards each request is answered, or waits for another one."""
        self._sizes.observe(len(requests))
        self._waits.observe(time.perf_counter() - requests[0].arrived)
        apply = partial(self._apply, requests)
        is_alone, commits = requests[0].is_alone, not requests[0].rolls_back
        try:
            if is_alone:
                applied, committed_at = await self._transactions.attempt(apply, commits=commits)
            else:
                applied, committed_at = await self._transactions.attempt_shared(apply)
        except TransactionConflict as conflict:
            self._last_ids.forget()
            if isinstance(conflict, CountersChanged) and not is_alone:
                await self._repeat(requests, conflict)
                return
            for request in requests:
                self._retry(request, conflict)
        except Exception as error:  # noqa: BLE001 - raised to the callers
            self._last_ids.forget()
            for request in requests:
                # Not the same exception in several tasks: each would extend its traceback.
                request.fail(error if len(requests) == 1 else Unavailable())
        else:
            outcomes, new_ids = applied
            if commits:
                new_ids.committed()
            self._settle(requests, outcomes, committed_at)

    async def _apply(
        self, requests: Sequence[WriteRequest], transaction: Transaction
    ) -> tuple[list[Outcome], NewIds]:
        """Apply requests and store the result; return the outcome of each, and what was counted."""
        unit = UnitOfWork(transaction, self._graph, self._last_ids)
        await unit.load(requests)
        outcomes = [await unit.apply(request) for request in requests]
        if requests[0].is_alone and isinstance(outcomes[0], RequestError):
            raise outcomes[0]  # some writes may be stored already
        await unit.flush(requests, outcomes)
        return outcomes, unit.new_ids

    def _settle(
        self, requests: Sequence[WriteRequest], outcomes: Sequence[Outcome], time_: Timestamp | None
    ) -> None:
        """Answer the requests of a transaction that is committed. time_: of the commit."""
        postponed = list[WriteRequest]()
        for request, outcome in zip(requests, outcomes, strict=True):
            if outcome is None:
                postponed.append(request)
            elif isinstance(outcome, RequestError):
                request.fail(outcome)
            else:
                for result in outcome:
                    result.time = time_
                request.succeed(outcome)
        self._waiting.extendleft(reversed(postponed))

    async def _repeat(self, requests: Sequence[WriteRequest], conflict: CountersChanged) -> None:
        """Let a group run again as a whole: another process has created or deleted resources."""
        waiting = [request for request in requests if not self._is_given_up(request, conflict)]
        self._waiting.extendleft(reversed(waiting))
        if conflict.is_locked:
            now = time.monotonic()
            pause = max(_COUNTER_PAUSE_SECONDS, (now - (requests[0].retries_since or now)) / 10)
            pause *= random.uniform(0.7, 1.3)  # noqa: S311 - so that processes do not go in step
            await asyncio.sleep(min(pause, _LONGEST_PAUSE_SECONDS))

    def _retry(self, request: WriteRequest, conflict: TransactionConflict) -> None:
        """Try a request again in a transaction of its own, later if it had one."""
        if self._is_given_up(request, conflict):
            return
        if request.is_alone:
            request.retry_at = time.monotonic() + request.pause
            request.pause = min(2 * request.pause, _LONGEST_PAUSE_SECONDS)
        else:
            request.pause = _PAUSE_SECONDS
        request.is_alone = True
        self._retries.append(request)

    def _is_given_up(self, request: WriteRequest, conflict: TransactionConflict) -> bool:
        """Count an attempt; answer a request that has conflicted for too long."""
        now = time.monotonic()
        if request.retries_since is None:
            request.retries_since = now
        self._transactions.clean_up_if_stuck(request.retries_since)
        if now - request.retries_since <= _RETRY_SECONDS:
            return False
        reason = conflict.__cause__ or conflict
        _log.error("A transaction conflicts for %g s: %s", _RETRY_SECONDS, reason)
        request.fail(Unavailable())
        return True
