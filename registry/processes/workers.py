"""Several workers on one port: a supervisor owns the port and mongod, and restarts what fails.

Each worker is a program whose standard input is a socket. Through it, it gets its settings, tells
when it is ready, and exchanges metrics: the supervisor adds up what all workers have counted. What
one has counted remains in the sums when it has ended, so that counters never fall.
"""

import asyncio
import os
import pickle
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self

import registry
from registry import metrics
from registry.metrics import MetricsSnapshot
from registry.mongod.embedded import mongod
from registry.processes import event_loop
from registry.processes.event_loop import FINISH_SECONDS, listen, reserve_port
from registry.processes.logs import log_in_background
from registry.program import StartError
from registry.settings import Settings
from registry.supervision import START_SECONDS, Supervisor, child_process, wait_for_exit

_PROGRAM = """
import sys
sys.path.append(sys.argv[1])
from registry.processes.workers import main
main()
"""
"""Runs a worker. With -P, Python imports nothing from the directory of the caller, which `-m` would
search first; the directory of this package may be nowhere else in its path."""

_STOP_SECONDS = FINISH_SECONDS + 3.0
"""The time after which a worker is killed."""

_REPORT_SECONDS = 1.0
"""How often a worker sends what it has counted."""

_LENGTH_BYTES = 4
"""Bytes before each message, with its length."""


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
        if settings.mongodb_uri is None:
            uri = await stack.enter_async_context(mongod(settings, failures.put_nowait))
            settings = replace(settings, mongodb_uri=uri)
        workers = Workers((settings, port.family, port.getsockname()))
        if metrics_listener is not None:
            # Imported late, because it loads slowly.
            from registry.processes.service import metrics_server  # noqa: PLC0415

            serving = metrics_server(settings, metrics_listener, workers.scrape)
            await stack.enter_async_context(serving)
        supervisor = await stack.enter_async_context(Supervisor(failures.put_nowait))
        starting = (supervisor.start("worker", workers.run) for _ in range(settings.workers))
        await asyncio.gather(*starting)
        if settings.tls_certificate:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, workers.hang_up)
        announce(workers.line)
        raise StartError(await failures.get())


class Workers:
    """The workers that run, as the supervisor sees them, and the sums of their metrics.

    configuration: the settings of each, and the family and the address on which it listens. line:
    what to announce, from the worker that was ready last.
    """

    def __init__(self, configuration: tuple[Settings, int, Any]) -> None:
        self._configuration = configuration
        self.line = ""
        self._latest: dict[Process, MetricsSnapshot] = {}
        self._ended: MetricsSnapshot = {}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        """Run a worker, as `Supervisor.start` requires."""
        # A program of its own, because a process with threads should not fork.
        command = (sys.executable, "-P", "-c", _PROGRAM, str(Path(registry.__file__).parents[1]))
        async with AsyncExitStack() as stack:
            running = child_process(
                *command, stop=lambda worker, _: worker.terminate(), seconds=_STOP_SECONDS
            )
            worker, own = await stack.enter_async_context(running)
            reader, writer = await asyncio.open_unix_connection(sock=own.dup())
            try:
                _send(writer, self._configuration)
                self.line = await _readiness(reader, worker)
                self._latest[worker] = {}
                collecting = asyncio.create_task(self._collect(worker, reader, writer))
                try:
                    yield lambda: _wait(worker)
                finally:
                    await stack.aclose()
                    await collecting  # what it has counted until its end
            finally:
                writer.close()

    def hang_up(self) -> None:
        """Let all workers reload their certificate."""
        for worker in self._latest:
            with suppress(ProcessLookupError):
                worker.send_signal(signal.SIGHUP)

    async def scrape(self) -> MetricsSnapshot:
        """Return the sums over this process, the workers, and those that have ended.

        What running workers have counted may be missing for a second.
        """
        return metrics.total([metrics.take(), self._ended, *self._latest.values()])

    async def _collect(
        self, worker: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Take the counts that a worker sends, until it ends; answer each time with the sums."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self._latest[worker] = await _receive(reader)
                _send(writer, await self.scrape())
        last = self._latest.pop(worker)
        self._ended = metrics.total([self._ended, metrics.without_gauges(last)])


async def _readiness(reader: asyncio.StreamReader, worker: Process) -> str:
    """Return the line to announce once a worker is ready.

    Raises StartError if it says why it cannot start, ChildProcessError if it ends or hangs.
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            line, error = await _receive(reader)
    except (asyncio.IncompleteReadError, ConnectionError):
        raise ChildProcessError(f"it ended with {await wait_for_exit(worker)}") from None
    except TimeoutError:
        raise ChildProcessError(f"it was not ready after {START_SECONDS:g} s") from None
    if error:
        raise error
    return str(line)


async def _wait(worker: Process) -> str:
    return f"{await wait_for_exit(worker)} (process {worker.pid})"


def main() -> None:
    """Run a worker: the entry point of the program."""
    event_loop.run(_work())


async def _work() -> None:
    """Serve until a signal, or until the supervisor ends."""
    # Imported late, because it loads slowly, and the supervisor does not need it.
    from registry.processes.service import serve  # noqa: PLC0415

    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=0))
    settings, family, address = await _receive(reader)
    log_in_background(settings.log_format)
    listening = partial(listen, family, address, reuse_port=True)
    async with _Reporter(reader, writer) as reporter:
        try:
            await serve(settings, listening, reporter.ready, reporter.scrape)
        except StartError as error:
            _send(writer, ("", error))


class _Reporter:
    """Tells the supervisor what this worker does; sends the last counts at the end of the context.

    If the supervisor is killed, this process ends at once: writes that were acknowledged are in the
    journal of MongoDB.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._answers: deque[asyncio.Future[MetricsSnapshot]] = deque()
        self._reporting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._receiving = asyncio.create_task(self._receive_sums())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._receiving.cancel()
        if self._reporting is not None:
            self._reporting.cancel()
            self._send_counts()
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def ready(self, line: str) -> None:
        """Report that the worker is ready, and send its counts from now on. line: to announce."""
        _send(self._writer, (line, None))
        self._reporting = asyncio.create_task(self._report())

    async def scrape(self) -> MetricsSnapshot:
        """Return the sums of the supervisor, with what this worker has counted by now."""
        # The answer arrives also if the request is cancelled.
        return await asyncio.shield(self._send_counts())

    async def _report(self) -> None:
        with suppress(ConnectionError):
            while True:
                await asyncio.sleep(_REPORT_SECONDS)
                self._send_counts()
                await self._writer.drain()

    async def _receive_sums(self) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                sums = await _receive(self._reader)
                self._answers.popleft().set_result(sums)
        os._exit(0)

    def _send_counts(self) -> asyncio.Future[MetricsSnapshot]:
        """Send what this worker has counted; return the sums when they arrive."""
        self._answers.append(asyncio.get_running_loop().create_future())
        _send(self._writer, metrics.take())
        return self._answers[-1]


def _send(writer: asyncio.StreamWriter, message: Any) -> None:
    """Send a message to the other process."""
    pickled = pickle.dumps(message)
    writer.write(len(pickled).to_bytes(_LENGTH_BYTES, "big") + pickled)


async def _receive(reader: asyncio.StreamReader) -> Any:
    """Return the next message. Raises IncompleteReadError or ConnectionError if there is none."""
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    return pickle.loads(await reader.readexactly(length))  # noqa: S301 - from our own processes
