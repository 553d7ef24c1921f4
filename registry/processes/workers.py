"""Several workers on one port: a supervisor owns the port and mongod, and replaces workers.

Each worker is a program whose standard input is a socket. Through it, it gets its settings, and
tells when it is ready, or why it cannot serve.
"""

import asyncio
import logging
import os
import pickle
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from prometheus_client.multiprocess import mark_process_dead

import registry
from registry.child_processes import START_SECONDS, child_process, wait_for_exit
from registry.mongod.embedded import mongod
from registry.processes import event_loop
from registry.processes.event_loop import FINISH_SECONDS, listen, reserve_port
from registry.processes.logs import log_in_background
from registry.program import StartError
from registry.settings import Settings

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

_PAUSE_SECONDS = 1.0
"""The time after which a worker that has ended is replaced."""

_LENGTH_BYTES = 4
"""Bytes before each message, with its length."""

_log = logging.getLogger("registry")


async def serve_with_workers(
    settings: Settings,
    listener: socket.socket,
    metrics_listener: socket.socket | None,
    announce: Callable[[str], None],
) -> NoReturn:
    """Serve with `settings.workers` processes on the port of `listener` until cancelled.

    metrics_listener: listens on the port for metrics, if there is one. Closes `listener` but keeps
    its port reserved. `announce` gets one line with the URLs of the service once all workers are
    ready. Raises StartError if a worker cannot start, or if the embedded mongod ends.
    """
    reports: asyncio.Queue[str | StartError] = asyncio.Queue()
    async with AsyncExitStack() as stack:
        port = stack.enter_context(reserve_port(listener))
        if settings.mongodb_uri is None:
            running = mongod(settings, lambda reason: reports.put_nowait(StartError(reason)))
            settings = replace(settings, mongodb_uri=await stack.enter_async_context(running))
        if metrics_listener is not None:
            # Imported late, because it loads slowly.
            from registry.processes.service import metrics_server  # noqa: PLC0415

            serving = metrics_server(settings, metrics_listener)
            await stack.enter_async_context(serving)
        workers = Workers((settings, port.family, port.getsockname()), reports)
        stack.push_async_callback(workers.stop)
        workers.start(settings.workers)
        is_announced = False
        while not isinstance(report := await reports.get(), StartError):
            if len(workers.ready) == settings.workers and not is_announced:
                is_announced = True
                if settings.tls_certificate:
                    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, workers.hang_up)
                announce(report)
        raise report


class Workers:
    """The workers: one that crashes is replaced, one that says why it ends ends the service.

    configuration: the settings of each, and the family and the address on which it listens.
    reports: gets the line to announce from each worker that is ready, or why one cannot serve.
    ready: those that serve.
    """

    def __init__(
        self, configuration: tuple[Settings, int, Any], reports: asyncio.Queue[str | StartError]
    ) -> None:
        self._configuration = configuration
        self._reports = reports
        self.ready: set[Process] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, number: int) -> None:
        """Start so many workers."""
        self._tasks = [asyncio.create_task(self._keep_running()) for _ in range(number)]

    async def stop(self) -> None:
        """Stop all workers at once, and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hang_up(self) -> None:
        """Let all workers that are ready reload their certificate; it would kill others."""
        for worker in self.ready:
            with suppress(ProcessLookupError):
                worker.send_signal(signal.SIGHUP)

    async def _keep_running(self) -> None:
        try:
            await self._run(is_first=True)
            while True:
                await asyncio.sleep(_PAUSE_SECONDS)
                await self._run(is_first=False)
        except StartError as error:
            self._reports.put_nowait(error)
        except OSError as error:
            self._reports.put_nowait(StartError(f"worker does not start: {error}"))

    async def _run(self, *, is_first: bool) -> None:
        """Run a worker until it ends. Raises StartError if it does not start, or says why it ends.

        One that crashes before it is ready is an error only for the first. Also raises OSError.
        """
        # A program of its own, because a process with threads should not fork.
        command = (sys.executable, "-P", "-c", _PROGRAM, str(Path(registry.__file__).parents[1]))
        running = child_process(
            *command, stop=lambda worker, _: worker.terminate(), seconds=_STOP_SECONDS
        )
        async with running as (worker, own):
            reader, writer = await asyncio.open_unix_connection(sock=own.dup())
            line = None
            try:
                _send(writer, self._configuration)
                async with asyncio.timeout(START_SECONDS):
                    line = await _receive(reader)
                self.ready.add(worker)
                self._reports.put_nowait(line)
                await _receive(reader)
            except TimeoutError:
                reason = f"it was not ready after {START_SECONDS:g} s"
                raise StartError(f"worker does not start: {reason}") from None
            except (asyncio.IncompleteReadError, ConnectionError):
                reason = f"{await wait_for_exit(worker)} (process {worker.pid})"
                if line is None and is_first:
                    raise StartError(f"worker does not start: it ended with {reason}") from None
                _log.error("worker exited unexpectedly: %s", reason)
            finally:
                self.ready.discard(worker)
                mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
                writer.close()


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
        await serve(settings, listening, lambda line: _send(writer, line))
    except StartError as error:
        _send(writer, error)
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
    """Return the next message, or raise it if it is a StartError.

    Raises IncompleteReadError or ConnectionError if the other process has ended.
    """
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    message = pickle.loads(await reader.readexactly(length))  # noqa: S301 - from our own processes
    if isinstance(message, StartError):
        raise message
    return message
