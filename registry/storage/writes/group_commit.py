"""Group commit: concurrent requests share a transaction."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from registry.capacity import GROUPS
from registry.jsonapi.error_objects import RequestError
from registry.model.graph import Graph
from registry.storage.mongo.batching import Batcher
from registry.storage.mongo.transactions import (
    Committed,
    Transaction,
    TransactionConflict,
    Transactions,
)
from registry.storage.writes.id_allocation import Counters, retrieve_error
from registry.storage.writes.identity_map import RecordKey
from registry.storage.writes.unit_of_work import UnitOfWork
from registry.storage.writes.write_requests import RequestOutcome, WriteRequest, WriteResult, sealed

_MAX_RESOURCES = 1_000
"""Resources that the requests of a group name."""

_Pending: TypeAlias = asyncio.Future[list[WriteResult] | None]
"""What a request waits for: its results, or None if it is to be tried again."""

_Outcomes: TypeAlias = dict[WriteRequest, list[WriteResult] | _Pending | Exception]
"""What becomes of the requests of a group."""


class _Group:
    """Requests that share a transaction, or one that runs alone.

    claims: the records that no other group may write meanwhile. outdated: the records that other
    groups have written since this one began. ended: awaited by requests for the same records.
    """

    def __init__(self) -> None:
        self.claims: set[RecordKey] = set()
        self.outdated: set[RecordKey] = set()
        self.ended: _Pending = asyncio.get_running_loop().create_future()


class _Deferred(Exception):
    """A request that runs alone has to wait for a group that writes the same records."""

    def __init__(self, writer: _Group) -> None:
        super().__init__()
        self.writer = writer


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
        self._batcher: Batcher[WriteRequest, list[WriteResult] | _Pending] = Batcher(
            self._run_group, name="writes", limits=GROUPS
        )
        self._groups: set[_Group] = set()  # in flight
        self._writers: dict[RecordKey, _Group] = {}  # the groups that have claimed records
        self._tasks: set[_Pending] = set()  # outside the batches

    async def close(self) -> None:
        """Wait until all requests have ended."""
        await self._batcher.close()
        while self._tasks:
            await asyncio.wait(self._tasks)
            await self._batcher.close()  # of requests that have waited for one of these

    async def write(self, request: WriteRequest) -> list[WriteResult]:
        """Apply the writes of a request, all or none; return the result of each.

        Raises Unavailable, or what the methods of UnitOfWork raise.
        """
        while True:
            if request.is_alone:
                outcome: list[WriteResult] | _Pending = self._start_alone(request)
            else:
                outcome = await self._batcher.load(request)
            if isinstance(outcome, list):
                return outcome
            if (results := await asyncio.shield(outcome)) is not None:
                return results

    async def _run_group(
        self, requests: Sequence[WriteRequest]
    ) -> list[list[WriteResult] | _Pending | Exception]:
        """Run requests as a group; return the outcome of each."""
        group, outcomes, admitted, size = self._begin(), _Outcomes(), list[WriteRequest](), 0
        for request in requests:
            if size and size + request.size > _MAX_RESOURCES:
                outcomes[request] = group.ended
            elif writer := self._claim(group, request):
                outcomes[request] = writer.ended
            else:
                admitted.append(request)
                size += request.size
        try:
            if admitted:
                apply = partial(self._apply, group, admitted, outcomes)
                outcomes |= _timed(await self._transactions.attempt_shared(apply))
        except TransactionConflict:
            for request in (one for one in admitted if one not in outcomes):
                request.is_alone = True
                outcomes[request] = self._start_alone(request)
        except Exception as error:  # noqa: BLE001 - raised to the callers
            outcomes = _Outcomes(dict.fromkeys(admitted, error)) | outcomes
        finally:
            self._end(group)
        return [outcomes[request] for request in requests]

    def _start_alone(self, request: WriteRequest) -> _Pending:
        """Run a request beside the batches, to its end even if its caller leaves."""
        task: _Pending = asyncio.create_task(self._run_alone(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(retrieve_error)
        return task

    async def _run_alone(self, request: WriteRequest) -> list[WriteResult] | None:
        """Run a request in a transaction of its own; return its results."""
        while True:
            group = self._begin()
            try:
                writer = self._claim(group, request)
                if writer is None:
                    apply = partial(self._apply, group, [request], {})
                    run = self._transactions.run(apply, commits=not request.rolls_back)
                    (results,) = (
                        one for one in _timed(await run).values() if isinstance(one, list)
                    )
                    return results
            except _Deferred as deferred:
                writer = deferred.writer
            finally:
                self._end(group)
            await writer.ended

    def _begin(self) -> _Group:
        group = _Group()
        self._groups.add(group)
        return group

    def _claim(self, group: _Group, request: WriteRequest) -> _Group | None:
        """Claim the records of a request for a group; return another group that has one of them.

        The other group claims the free ones, so that later requests do not overtake this one.
        """
        writers = (self._writers.get(key, group) for key in request.records)
        other = next((one for one in writers if one is not group), None)
        writer = other or group
        free = request.records - self._writers.keys()
        self._writers.update(dict.fromkeys(free, writer))
        writer.claims |= free
        return other

    def _end(self, group: _Group) -> None:
        """Free the claims of a group, and let the requests that wait for it continue."""
        self._groups.remove(group)
        for key in group.claims:
            del self._writers[key]
        for other in self._groups:
            other.outdated |= group.claims
        group.ended.set_result(None)

    async def _apply(
        self,
        group: _Group,
        requests: Sequence[WriteRequest],
        outcomes: _Outcomes,
        transaction: Transaction,
    ) -> list[RequestOutcome]:
        """Apply requests and return their outcomes; put what others wait for in `outcomes`."""
        unit = UnitOfWork(transaction, self._graph, self._counters)
        await unit.load(requests)
        applied: list[RequestOutcome] = []
        all_sealed = set[RecordKey]()  # records that later requests of the group must not write
        authors: dict[RecordKey, str | None] = {}  # of the records that are changed
        for request in requests:
            writer = group if all_sealed & request.records else None
            if writer is None:
                try:
                    results = await unit.apply(request)
                except RequestError as error:
                    if request.is_alone:  # some writes may be stored already
                        raise
                    applied.append((request, error))
                    continue
                author, touched = request.author, unit.records.before_request().keys()
                request.records |= touched
                writer = self._claim(group, request)
                # The change feed shows one author for the changes of a record in a transaction.
                is_shared = any(authors.get(key, author) != author for key in touched)
                if all_sealed & request.records or is_shared or touched & group.outdated:
                    writer = group
                if writer is None:
                    authors |= dict.fromkeys(touched, author)
                    all_sealed |= sealed(results)
                    applied.append((request, results))
                    continue
                unit.records.undo()
            if request.is_alone:
                raise _Deferred(writer)
            all_sealed |= request.records
            outcomes[request] = writer.ended
        await unit.flush(applied)
        return applied


def _timed(
    committed: Committed[list[RequestOutcome]],
) -> dict[WriteRequest, list[WriteResult] | RequestError]:
    """Return the outcomes of a transaction; the results get the time of the commit."""
    outcomes, time = committed
    for _, outcome in outcomes:
        for result in () if isinstance(outcome, RequestError) else outcome:
            result.time = time
    return dict(outcomes)
