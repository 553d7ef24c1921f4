"""Measures what no event changes in the metrics: the present state of a process that serves."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter, process_time
from typing import NoReturn

from registry.http.server import Runner
from registry.metrics import (
    CPU_SECONDS,
    EVENT_LOOP_LAG,
    LAST_BACKUP,
    MEMORY,
    REQUESTS_IN_PROGRESS,
    WORKERS,
    WORKERS_READY,
)
from registry.storage import Repository

_INTERVAL_SECONDS = 0.25

_DATABASE_INTERVAL_SECONDS = 5.0


@asynccontextmanager
async def measured(runner: Runner, repository: Repository) -> AsyncIterator[None]:
    """Measure this process in the background until the end of the context."""
    WORKERS.set(1)
    tasks = [
        asyncio.create_task(_measure_process(runner, repository)),
        asyncio.create_task(_measure_database(repository)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


async def _measure_process(runner: Runner, repository: Repository) -> NoReturn:
    cpu_seconds = 0.0
    while True:
        CPU_SECONDS.inc(process_time() - cpu_seconds)
        cpu_seconds = process_time()
        REQUESTS_IN_PROGRESS.set(runner.requests_in_progress)
        repository.bulkheads.measure()
        _measure_memory()
        begin = perf_counter()
        await asyncio.sleep(_INTERVAL_SECONDS)
        # A timer of uvloop, which has a resolution of a millisecond, may be called too early.
        EVENT_LOOP_LAG.observe(max(0.0, perf_counter() - begin - _INTERVAL_SECONDS))


def _measure_memory() -> None:
    with suppress(OSError):  # only Linux has it
        _, pages, *_ = Path("/proc/self/statm").read_text().split()
        MEMORY.set(int(pages) * resource.getpagesize())


async def _measure_database(repository: Repository) -> NoReturn:
    while True:
        WORKERS_READY.set(await repository.is_available())
        if (last_backup := await repository.last_backup()) is not None:
            LAST_BACKUP.set(last_backup)
        await asyncio.sleep(_DATABASE_INTERVAL_SECONDS)
