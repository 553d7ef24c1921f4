"""Several workers on one port: this process owns the port and mongod, and restarts what fails."""

import asyncio
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import registry
from registry.mongod.embedded import mongod
from registry.processes.event_loop import FINISH_SECONDS, reserve_port
from registry.processes.exchange import Totals, receive, send
from registry.program import StartError
from registry.settings import Settings
from registry.supervision import START_SECONDS, Supervisor, child_process, wait_for_exit

_PROGRAM = """
import sys
sys.path.append(sys.argv[1])
from registry.processes.worker import main
main()
"""
"""Runs a worker. With -P, Python imports nothing from the directory of the caller, which `-m` would
search first; the directory of this package may be nowhere else in its path."""

_STOP_SECONDS = FINISH_SECONDS + 3.0
"""The time after which a worker is killed."""


async def serve_with_workers(
    settings: Settings,
    listener: socket.socket,
    metrics_listener: socket.socket | None,
    announce: Callable[[str], None],
) -> NoReturn:
    """Serve with `settings.workers` processes on the port of `listener` until cancelled.

    metrics_listener: listens on the port for metrics, if there is one. Closes `listener` but keeps
    its port reserved. `announce` gets one line with the URLs of the service once all workers are
    ready. Raises StartError if a worker cannot start, or if a worker or the embedded mongod fails
    repeatedly.
    """
    failures: asyncio.Queue[str] = asyncio.Queue()
    async with AsyncExitStack() as stack:
        port = stack.enter_context(reserve_port(listener))
        workers = Workers()
        if metrics_listener is not None:
            # Imported late, because it loads slowly.
            from registry.processes.service import metrics_server  # noqa: PLC0415

            metrics = metrics_server(settings, metrics_listener, announce, workers.totals.scrape)
            announce = await stack.enter_async_context(metrics)
        supervisor = await stack.enter_async_context(Supervisor(failures.put_nowait))
        # They load in parallel with mongod, and stop before it.
        starting = [
            asyncio.create_task(supervisor.start("worker", workers.run))
            for _ in range(settings.workers)
        ]
        if settings.mongodb_uri is None:
            uri = await stack.enter_async_context(mongod(settings, failures.put_nowait))
            stack.push_async_callback(supervisor.stop)
            settings = replace(settings, mongodb_uri=uri)
        workers.configuration.set_result((settings, port.family, port.getsockname()))
        await asyncio.gather(*starting)
        if settings.tls_certificate:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, workers.hang_up)
        announce(workers.line)
        raise StartError(await failures.get())


class Workers:
    """The workers that run.

    configuration: the message that each receives, once it is known. line: what to announce, from
    the worker that was ready last.
    """

    def __init__(self) -> None:
        self.totals = Totals()
        self.line = ""
        self.configuration: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._processes: set[Process] = set()

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        """Run a worker, as `Supervisor.start` requires."""
        # A program of its own, because a process with threads should not fork.
        command = (sys.executable, "-P", "-c", _PROGRAM, str(Path(registry.__file__).parents[1]))
        async with AsyncExitStack() as stack:
            running = child_process(*command, stop=_terminate, seconds=_STOP_SECONDS)
            worker, own = await stack.enter_async_context(running)
            reader, writer = await asyncio.open_unix_connection(sock=own.dup())
            try:
                send(writer, await asyncio.shield(self.configuration))
                self.line = await _readiness(reader, worker)
                self._processes.add(worker)
                collecting = asyncio.create_task(self.totals.collect(reader, writer))
                try:
                    yield lambda: _wait(worker)
                finally:
                    self._processes.discard(worker)
                    await stack.aclose()
                    await collecting  # what it has counted until its end
            finally:
                writer.close()

    def hang_up(self) -> None:
        """Let all workers reload their certificate."""
        for worker in self._processes:
            with suppress(ProcessLookupError):
                worker.send_signal(signal.SIGHUP)


async def _readiness(reader: asyncio.StreamReader, worker: Process) -> str:
    """Return the line to announce once a worker is ready.

    Raises StartError if it says why it cannot start, ChildProcessError if it ends or hangs.
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            line, error = await receive(reader)
    except (asyncio.IncompleteReadError, ConnectionError):
        raise ChildProcessError(f"it ended with {await wait_for_exit(worker)}") from None
    except TimeoutError:
        raise ChildProcessError(f"it was not ready after {START_SECONDS:g} s") from None
    if error:
        raise error
    return str(line)


async def _wait(worker: Process) -> str:
    return f"{await wait_for_exit(worker)} (process {worker.pid})"


def _terminate(worker: Process, _: socket.socket) -> None:
    worker.terminate()
