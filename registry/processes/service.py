"""The servers of one process: of the application until cancelled, and of /metrics on a port.

While the application is served, what no event changes in the metrics is measured.
"""

import asyncio
import ctypes
import gc
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter, process_time
from typing import NoReturn

from registry.app import create_app
from registry.http.addresses import UI_PATH
from registry.http.app_keys import NOTICE, REPOSITORY
from registry.http.application import metrics_app
from registry.http.server import Runner
from registry.http.tls import Certificate
from registry.metrics import (
    CPU_SECONDS,
    EVENT_LOOP_LAG,
    LAST_BACKUP,
    MEMORY,
    REQUESTS_IN_PROGRESS,
    WORKERS,
    WORKERS_READY,
)
from registry.model.resource_type import InvalidDeclaration
from registry.openapi.swagger_ui import swagger_ui_version
from registry.processes.event_loop import ALL_ADDRESSES, FINISH_SECONDS, url_of
from registry.program import StartError
from registry.settings import Settings, flag
from registry.storage import Repository

_OPEN_FILES = 10_240
"""The wanted limit of open files, mostly connections; macOS allows no more."""

_FINISH_METRICS_SECONDS = 1.0

_INTERVAL_SECONDS = 0.25

_DATABASE_INTERVAL_SECONDS = 5.0


async def serve(
    settings: Settings,
    listen: Callable[[], socket.socket],
    announce: Callable[[str], None],
) -> NoReturn:
    """Serve on the socket that `listen` returns until cancelled; then finish open requests.

    `listen` is called, and `announce` gets one line with the URLs of the service, only once the
    service is ready. Raises StartError if the service cannot start, or its database fails.
    """
    certificate = Certificate(settings) if settings.tls_certificate else None
    _allow_connections()
    failures: asyncio.Queue[str] = asyncio.Queue()
    try:
        app = create_app(settings, on_failure=failures.put_nowait)
    except InvalidDeclaration as error:
        raise StartError(f"{flag('types')}: {error}") from error
    is_logged = settings.access_log == "on"
    runner = Runner(app, shutdown_timeout=FINISH_SECONDS, access_log=is_logged)
    try:
        await runner.setup()
        _tune_memory()
        listener = listen()
        await runner.listen(listener, certificate.context if certificate else None)
        if certificate:
            # Instead of stopping, as without TLS.
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, certificate.reload)
        async with _measured(runner, app[REPOSITORY]):
            announce(_announcement(settings, listener, app[NOTICE]))
            raise StartError(await failures.get())
    finally:
        await runner.cleanup()


@asynccontextmanager
async def metrics_server(settings: Settings, listener: socket.socket | None) -> AsyncIterator[None]:
    """Serve the metrics on the socket, if there is one."""
    if listener is None:
        yield
        return
    app, is_logged = metrics_app(settings), settings.access_log == "on"
    runner = Runner(app, shutdown_timeout=_FINISH_METRICS_SECONDS, access_log=is_logged)
    await runner.setup()
    try:
        await runner.listen(listener)
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _measured(runner: Runner, repository: Repository) -> AsyncIterator[None]:
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


def _announcement(settings: Settings, listener: socket.socket, notice: str) -> str:
    """Return the line for a service that is ready. notice: about access tokens, or empty."""
    url = settings.public_url or url_of(settings.scheme, listener)
    ready = (
        f"Registry ready: page {url}/, API {url}/persons, "
        f"Swagger UI {url}{UI_PATH}/ (version {swagger_ui_version()})"
    )
    is_wide = listener.getsockname()[0] in ALL_ADDRESSES
    reach = "It listens on all addresses of this machine" if is_wide else ""
    return ". ".join(filter(None, (ready, reach, notice)))


def _tune_memory() -> None:
    """Give back what only the start needs; collect garbage less often, and none that it created.

    aiohttp-swagger3 compiles a schema, for which glibc would keep 40 MiB.

    With the default thresholds, a page of 50 computers with owners takes 10 % more CPU time, and
    each full collection of what was created at the start delays all requests by 30 ms. What
    requests leave in reference cycles is collected every 250,000 objects at the latest.
    """
    gc.collect()
    with suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    gc.freeze()
    gc.set_threshold(10_000, 5, 5)


def _allow_connections() -> None:
    """Raise the limit of open files, often 1,024, to _OPEN_FILES or what the system allows.

    Beyond the limit, the event loop would close connections without a response.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if 0 <= soft < most:  # RLIM_INFINITY is negative
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
