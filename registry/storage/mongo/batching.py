"""Batching across requests: concurrent callers share a round trip to the database."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Generic, TypeAlias, TypeVar

from registry.capacity import SHARING_CALLERS, BatchLimits
from registry.metrics import BATCH_SIZE, BATCH_WAIT

_Key = TypeVar("_Key")
_Result = TypeVar("_Result")

BatchFunction: TypeAlias = Callable[[Sequence[_Key]], Awaitable[Sequence[_Result | Exception]]]
"""Takes the keys of a batch and returns the result or the exception of each, in the same order."""

Fetch: TypeAlias = Callable[[], Awaitable[_Result]]

_Call: TypeAlias = tuple[_Key, asyncio.Future[_Result], float]
"""The key of a caller, what it waits for, and since when."""

_Batch: TypeAlias = list[_Call[_Key, _Result]]

_ITERATIONS_BEFORE_PARTIAL_BATCH = 2
"""Event-loop iterations to wait after a batch of several keys, before a partial one may leave, so
that callers that have just received their results can join it."""


_FETCHES = BatchLimits(SHARING_CALLERS)


class Batcher(Generic[_Key, _Result]):
    """Collects the keys of concurrent callers and loads them in batches.

    After each event, BatchLimits decides whether a batch leaves. A key only joins a batch that has
    not left, so a result is never older than the call. A cancelled caller does not affect others.

    batch_fn: loads a batch. name: in metrics. on_idle: called when no batch or caller is left.
    is_cancellable: whether a batch is cancelled when all its callers are.
    """

    def __init__(
        self,
        batch_fn: BatchFunction[_Key, _Result],
        *,
        name: str,
        limits: BatchLimits,
        on_idle: Callable[[], Any] | None = None,
        is_cancellable: bool = False,
    ) -> None:
        self._loop = asyncio.get_running_loop()  # which takes a system call in Python 3.11
        self._batch_fn = batch_fn
        self._limits = limits
        self._keys_in_flight = 0
        self._on_idle = on_idle
        self._is_cancellable = is_cancellable
        self._queue: deque[_Call[_Key, _Result]] = deque()
        self._batches: dict[asyncio.Task[None], _Batch[_Key, _Result]] = {}
        self._sizes = BATCH_SIZE.labels(name)
        self._waits = BATCH_WAIT.labels(name)

    async def close(self) -> None:
        """Wait until the batches under way have ended."""
        while self._batches:
            await asyncio.wait(self._batches)

    async def load(self, key: _Key) -> _Result:
        """Return the result of the key. Raises what its batch failed with."""
        future: asyncio.Future[_Result] = self._loop.create_future()
        self._queue.append((key, future, perf_counter()))
        self._start()
        try:
            return await future
        except asyncio.CancelledError:
            if self._is_cancellable:
                self._cancel_unwanted(future)
            raise

    def _start(self) -> None:
        """Start a batch if one may leave now: the step after each event."""
        if self._limits.may_start(len(self._queue), self._keys_in_flight, len(self._batches)):
            batch: _Batch[_Key, _Result] = []
            task = self._loop.create_task(self._run(batch))
            self._batches[task] = batch
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._batches[task]
        self._start()
        if self._on_idle and not self._batches:
            self._on_idle()

    def _cancel_unwanted(self, cancelled: asyncio.Future[_Result]) -> None:
        """Cancel the batch of a cancelled caller if it has no other one."""
        for task, batch in self._batches.items():
            callers = [future for _, future, _ in batch]
            if cancelled in callers and all(future.cancelled() for future in callers):
                task.cancel()

    async def _run(self, batch: _Batch[_Key, _Result]) -> None:
        """Load the callers that wait by now. batch: becomes the list of them."""
        self._fill(batch)
        if not batch:
            return
        self._sizes.observe(len(batch))
        self._waits.observe(perf_counter() - batch[0][2])
        self._keys_in_flight += len(batch)
        try:
            results = await self._batch_fn([key for key, _, _ in batch])
        except Exception as error:  # noqa: BLE001 - raised to each caller
            results = [error] * len(batch)
        finally:
            self._keys_in_flight -= len(batch)
        for (_, future, _), result in zip(batch, results, strict=True):
            if not future.done():
                if isinstance(result, Exception):
                    future.set_exception(_copied(result))
                else:
                    future.set_result(result)
        if len(batch) > 1 and len(self._queue) < self._limits.max_size:
            for _ in range(_ITERATIONS_BEFORE_PARTIAL_BATCH):
                await asyncio.sleep(0)

    def _fill(self, batch: _Batch[_Key, _Result]) -> None:
        """Move the oldest callers from the queue to a batch, without those that were cancelled."""
        size = self._limits.size(len(self._queue), self._keys_in_flight)
        while self._queue and len(batch) < size:
            call = self._queue.popleft()
            if not call[1].done():
                batch.append(call)


class Coalescer(Generic[_Result]):
    """Shares a fetch between callers with equal keys; it is cancelled when all of them are.

    A caller never joins a fetch that has begun. Without sharing, equal pages take twice the CPU
    time. name: in metrics.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._batchers: dict[Hashable, Batcher[Fetch[_Result], _Result]] = {}

    async def load(self, key: Hashable, fetch: Fetch[_Result]) -> _Result:
        """Return what the `fetch` of this or another caller returns. Raises what it raises."""
        if key not in self._batchers:
            forget = partial(self._batchers.pop, key)
            self._batchers[key] = Batcher(
                _fetch_once,
                name=self._name,
                limits=_FETCHES,
                on_idle=forget,
                is_cancellable=True,
            )
        return await self._batchers[key].load(fetch)


def _copied(error: Exception) -> Exception:
    """Return an error for one caller: in a shared one, the tracebacks of all would gather."""
    own = error.__class__.__new__(error.__class__, *error.args)  # not every __init__ takes these
    own.__dict__.update(error.__dict__)
    own.__cause__, own.__context__ = error.__cause__, error.__context__
    own.__suppress_context__ = error.__suppress_context__
    return own.with_traceback(error.__traceback__)


async def _fetch_once(fetches: Sequence[Fetch[_Result]]) -> Sequence[_Result]:
    result = await fetches[0]()
    return [result] * len(fetches)
