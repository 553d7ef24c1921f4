"""Several workers on one port: this process owns the port and mongod, gunicorn the workers."""

import asyncio
import logging
import pickle
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import NoReturn, Self

from registry.mongod.embedded import mongod
from registry.processes.failure import DatabaseFailure
from registry.processes.listeners import reserve_port
from registry.processes.metrics_exchange import Totals
from registry.settings import Settings
from registry.start_error import StartError

_log = logging.getLogger("registry")


async def supervise(
    settings: Settings,
    listener: socket.socket,
    metrics_listener: socket.socket | None,
    announce: Callable[[str], None],
) -> None:
    """Serve with `settings.workers` processes on the port of `listener` until cancelled.

    metrics_listener: listens on the port for metrics, if there is one. Closes `listener` but keeps
    its port reserved. `announce` gets one line with the URLs of the service once all workers are
    ready. Raises StartError if a worker cannot start, if gunicorn exits, or if the embedded mongod
    fails repeatedly.
    """
    failure = DatabaseFailure()
    async with AsyncExitStack() as stack:
        port = stack.enter_context(reserve_port(listener))
        totals = await stack.enter_async_context(Totals())
        if metrics_listener is not None:
            metrics = _metrics_server(settings, metrics_listener, totals, announce)
            announce = await stack.enter_async_context(metrics)
        # Loads in parallel with mongod; stop is registered twice, so that gunicorn always stops
        # before mongod.
        gunicorn = await _Gunicorn.start(totals.channel.fileno())
        stack.push_async_callback(gunicorn.stop)
        if settings.mongodb_uri is None:
            uri = await stack.enter_async_context(mongod(settings, failure.report))
            stack.push_async_callback(gunicorn.stop)
            settings = replace(settings, mongodb_uri=uri)
        application = settings, port.family, port.getsockname(), totals.channel.fileno()
        gunicorn.life_pipe.write(pickle.dumps(application))
        watching = asyncio.create_task(gunicorn.watch_reports(settings, announce))
        await _first_failure(watching, gunicorn, failure)


def _metrics_server(
    settings: Settings, listener: socket.socket, totals: Totals, announce: Callable[[str], None]
) -> AbstractAsyncContextManager[Callable[[str], None]]:
    # Imported late, because it loads slowly.
    from registry.processes.metrics_server import metrics_server  # noqa: PLC0415

    return metrics_server(settings, listener, totals.scrape, announce)


async def _first_failure(
    watching: asyncio.Task[None], gunicorn: "_Gunicorn", failure: DatabaseFailure
) -> NoReturn:
    """Wait until a worker, gunicorn or mongod fails. Raises StartError with the reason.

    watching: ends with the first worker that cannot start.
    """
    # The end of the reports is not enough: workers that outlive gunicorn keep the pipe open.
    exited = asyncio.create_task(gunicorn.process.wait())
    failed = asyncio.create_task(failure.wait())
    await asyncio.wait({watching, exited, failed}, return_when=asyncio.FIRST_COMPLETED)
    for task in (watching, failed):
        if task.done():
            task.result()
    raise StartError("gunicorn has exited unexpectedly; its log messages, if any, are above")


@dataclass(frozen=True, slots=True)
class _Gunicorn:
    """gunicorn, the process that forks the workers: `registry.processes.workers`.

    life_pipe: its standard input; gunicorn and the workers exit when it closes.
    """

    process: Process
    life_pipe: asyncio.StreamWriter
    reports: asyncio.StreamReader

    @classmethod
    async def start(cls, channel: int) -> Self:
        """Start it. channel: a descriptor that the workers inherit."""
        # A separate program, because a process with threads should not fork; in a session of its
        # own, because Ctrl-C in the terminal must reach only this process.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "registry.processes.workers"),
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=True,
            pass_fds=(channel,),
        )
        assert process.stdin and process.stdout  # noqa: S101, PT018 - both are pipes
        return cls(process, process.stdin, process.stdout)

    async def watch_reports(self, settings: Settings, announce: Callable[[str], None]) -> None:
        """Announce when all workers are ready; log the errors of those that start later.

        Once they are ready, SIGHUP reloads their certificate. Raises StartError if one of the first
        workers cannot start.
        """
        ready = 0
        async for line in self.reports:
            status, _, text = line.decode().rstrip().partition(" ")
            if status == "ready":
                ready += 1
                if ready == settings.workers:
                    if settings.tls_certificate:
                        loop = asyncio.get_running_loop()
                        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
                    announce(text)
            elif ready < settings.workers:
                raise StartError(text)
            else:
                _log.error("A worker cannot start: %s", text)

    def _hang_up(self) -> None:
        """Let all workers reload their certificate."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGHUP)

    async def stop(self) -> None:
        """Stop gunicorn and its workers; wait until open requests are finished and all exited."""
        with suppress(ProcessLookupError):
            self.process.terminate()
        await self.process.wait()
