"""Several workers on one port: a supervisor owns the port and mongod, and restarts what fails.

Each worker is a program whose standard input is a socket. Through it, it gets its settings, and
tells when it is ready, or why it cannot serve.
"""

import asyncio
import os
import pickle
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from prometheus_client.multiprocess import mark_process_dead

import registry
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
    ready. Raises StartError if a worker cannot start or fails repeatedly, or if the embedded mongod
    ends.
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

            serving = metrics_server(settings, metrics_listener)
            await stack.enter_async_context(serving)
        supervisor = await stack.enter_async_context(Supervisor(failures.put_nowait))
        starting = (supervisor.start("worker", workers.run) for _ in range(settings.workers))
        await asyncio.gather(*starting)
        if settings.tls_certificate:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, workers.hang_up)
        announce(workers.line)
        raise StartError(await failures.get())


class Workers:
    """The workers that run, as the supervisor sees them.

    configuration: the settings of each, and the family and the address on which it listens. line:
    what to announce, from the worker that was ready last.
    """

    def __init__(self, configuration: tuple[Settings, int, Any]) -> None:
        self._configuration = configuration
        self.line = ""
        self._running: set[Process] = set()

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        """Run a worker, as `Supervisor.start` requires."""
        # A program of its own, because a process with threads should not fork.
        command = (sys.executable, "-P", "-c", _PROGRAM, str(Path(registry.__file__).parents[1]))
        running = child_process(
            *command, stop=lambda worker, _: worker.terminate(), seconds=_STOP_SECONDS
        )
        async with running as (worker, own):
            reader, writer = await asyncio.open_unix_connection(sock=own.dup())
            self._running.add(worker)
            try:
                _send(writer, self._configuration)
                self.line = await _readiness(reader, worker)
                yield lambda: _reason(reader, worker)
            finally:
                self._running.remove(worker)
                mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
                writer.close()

    def hang_up(self) -> None:
        """Let all workers reload their certificate."""
        for worker in self._running:
            with suppress(ProcessLookupError):
                worker.send_signal(signal.SIGHUP)


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


async def _reason(reader: asyncio.StreamReader, worker: Process) -> str:
    """Wait until a worker ends, and return why."""
    try:
        _, error = await _receive(reader)
        reason = str(error)
    except (asyncio.IncompleteReadError, ConnectionError):
        reason = await wait_for_exit(worker)
    return f"{reason} (process {worker.pid})"


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
    ending = asyncio.create_task(_end_with_supervisor(reader))
    try:
        await serve(settings, listening, lambda line: _send(writer, (line, None)))
    except StartError as error:
        _send(writer, ("", error))
        await writer.drain()
    finally:
        ending.cancel()


async def _end_with_supervisor(reader: asyncio.StreamReader) -> None:
    """End this process at once when the supervisor has been killed.

    Writes that were acknowledged are in the journal of MongoDB.
    """
    with suppress(ConnectionError):
        await reader.read()
    os._exit(0)


def _send(writer: asyncio.StreamWriter, message: Any) -> None:
    """Send a message to the other process."""
    pickled = pickle.dumps(message)
    writer.write(len(pickled).to_bytes(_LENGTH_BYTES, "big") + pickled)


async def _receive(reader: asyncio.StreamReader) -> Any:
    """Return the next message. Raises IncompleteReadError or ConnectionError if there is none."""
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    return pickle.loads(await reader.readexactly(length))  # noqa: S301 - from our own processes
