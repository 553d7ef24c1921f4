"""Several workers on one port: this process owns the port and mongod, gunicorn the workers."""

import asyncio
import logging
import pickle
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import NoReturn, Self

from registry.processes.failure import DatabaseFailure
from registry.processes.metrics_exchange import Totals
from registry.settings import Settings
from registry.start_error import StartError
from registry.storage.mongod.embedded import mongod

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
            # Imported late, because it loads slowly.
            from registry.processes.metrics_server import metrics_server  # noqa: PLC0415

            announce = await stack.enter_async_context(
                metrics_server(settings, metrics_listener, totals.scrape, announce)
            )
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

        def announce_ready(line: str) -> None:
            if settings.tls_certificate:
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, gunicorn.hang_up)
            announce(line)

        watching = asyncio.create_task(gunicorn.watch_reports(settings.workers, announce_ready))
        await _first_failure(watching, gunicorn, failure)


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


def reserve_port(listener: socket.socket) -> socket.socket:
    """Replace `listener` by a socket that reserves its port for the workers but does not listen.

    Each worker binds a socket of its own with SO_REUSEPORT, so that the kernel spreads connections
    evenly; with one shared socket, a burst of connections would go to a single worker. A service
    that binds without SO_REUSEPORT fails.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved = socket.socket(listener.family)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    # Connections in TIME_WAIT must not prevent the bind, but other services must not bind as well.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listener.family == socket.AF_INET6:
        is_v6_only = listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        reserved.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, is_v6_only)
    reserved.bind(listener.getsockname())
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    listener.close()
    return reserved


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

    async def watch_reports(self, workers: int, announce: Callable[[str], None]) -> None:
        """Announce when all workers are ready; log the errors of those that start later.

        Raises StartError if one of the first workers cannot start.
        """
        ready = 0
        async for line in self.reports:
            status, _, text = line.decode().rstrip().partition(" ")
            if status == "ready":
                ready += 1
                if ready == workers:
                    announce(text)
            elif ready < workers:
                raise StartError(text)
            else:
                _log.error("A worker cannot start: %s", text)

    def hang_up(self) -> None:
        """Let all workers reload their certificate."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGHUP)

    async def stop(self) -> None:
        """Stop gunicorn and its workers; wait until open requests are finished and all exited."""
        with suppress(ProcessLookupError):
            self.process.terminate()
        await self.process.wait()
