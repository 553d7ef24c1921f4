"""Several processes on one port: this one owns the port and mongod, and gunicorn the others."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Self

from registry.settings import Settings, StartError
from registry.storage.mongod.embedded import mongod

logger = logging.getLogger("registry")


async def supervise(
    settings: Settings, listener: socket.socket, announce: Callable[[str], None]
) -> None:
    """Serve with `settings.workers` processes where the listener listens, until cancelled.

    The listener is closed, but its port stays taken. announce: takes one line that says where the
    service is, once all are ready. Raises StartError if one of them cannot start, or if gunicorn
    ends.
    """
    async with AsyncExitStack() as stack:
        port = stack.enter_context(reserve(listener))
        # Begun before mongod, to load its modules meanwhile; ended before, and if there is none.
        gunicorn = await _Gunicorn.start()
        stack.push_async_callback(gunicorn.end)
        if settings.mongodb_uri is None:
            uri = await stack.enter_async_context(mongod(settings))
            stack.push_async_callback(gunicorn.end)
            settings = replace(settings, mongodb_uri=uri)
        gunicorn.lifeline.write(pickle.dumps((settings, port.family, port.getsockname())))
        watching = asyncio.create_task(gunicorn.watch_reports(settings.workers, announce))
        # The reports alone would not tell: its workers may outlive it, and could still report.
        ended = asyncio.create_task(gunicorn.process.wait())
        await asyncio.wait({watching, ended}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            watching.result()
        raise StartError("gunicorn has ended; if there is a reason, it is above")


def reserve(listener: socket.socket) -> socket.socket:
    """Return a socket that keeps the port for the sockets of the workers, and does not listen.

    Each of those is bound with SO_REUSEPORT, so that the kernel spreads connections evenly; one
    that all accept from would give a burst of them to one process. A service that starts later
    binds without, and is refused.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held = socket.socket(listener.family)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # of connections that have ended
    if listener.family == socket.AF_INET6:
        held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    held.bind(listener.getsockname())
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # else others may bind as well
    listener.close()
    return held


@dataclass(frozen=True, slots=True)
class _Gunicorn:
    """The program that forks the workers; see `registry.processes.workers`."""

    process: Process
    lifeline: asyncio.StreamWriter
    reports: asyncio.StreamReader

    @classmethod
    async def start(cls) -> Self:
        # A program of its own, as a process that has threads should not fork; and in a session of
        # its own, as Ctrl-C in the terminal is for this process alone.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "registry.processes.workers"),
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=True,
        )
        assert process.stdin and process.stdout  # noqa: S101, PT018 - both are pipes
        return cls(process, process.stdin, process.stdout)

    async def watch_reports(self, workers: int, announce: Callable[[str], None]) -> None:
        """Listen to what the workers report. Raises StartError if one cannot start at first."""
        ready = 0
        async for line in self.reports:
            what, _, text = line.decode().rstrip().partition(" ")
            if what == "ready":
                ready += 1
                if ready == workers:
                    announce(text)
            elif ready < workers:
                raise StartError(text)
            else:
                logger.error("A worker cannot start: %s", text)

    async def end(self) -> None:
        """Let requests under way finish, and wait until all processes have ended."""
        self.lifeline.close()
        await self.process.wait()
