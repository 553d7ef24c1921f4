"""Child processes, which end with this one: mongod and workers."""

import asyncio
import os
import signal
import socket
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

START_SECONDS = 120.0
"""A child that is not ready by then hangs: mongod may have a journal to replay after a crash."""


@asynccontextmanager
async def child_process(
    *command: str,
    stop: Callable[[Process, socket.socket], None],
    seconds: float,
    **options: Any,
) -> AsyncIterator[tuple[Process, socket.socket]]:
    """Run a program, and yield its process and the other end of its standard input, a socket.

    The socket closes when this process ends, even by kill -9. The program has a session of its own,
    as Ctrl-C in the terminal must reach only this process. stop: asks it to end; after so many
    seconds it is killed. options: of `asyncio.create_subprocess_exec`. Raises OSError.
    """
    ours, theirs = socket.socketpair()
    with ours:
        starting = asyncio.create_task(_start(command, theirs, options))
        try:
            yield await asyncio.shield(starting), ours
        finally:
            process = await starting  # also after a cancellation
            with suppress(OSError):  # it has ended
                stop(process, ours)
            try:
                async with asyncio.timeout(seconds):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


async def _start(
    command: tuple[str, ...], stdin: socket.socket, options: dict[str, Any]
) -> Process:
    with stdin:
        return await asyncio.create_subprocess_exec(
            *command, stdin=stdin.fileno(), start_new_session=True, **options
        )


async def wait_for_exit(process: Process) -> str:
    """Wait until a process ends, and return its exit status or signal."""
    status = await process.wait()
    number = -status if status < 0 else status - 128  # of this process, or of a child of a shell
    if number > 0:
        return f"signal {number} ({signal.strsignal(number)})"
    return f"status {status}"
