"""Child processes, and their supervision: one that ends unexpectedly is started again."""

import asyncio
import logging
import os
import signal
import socket
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Self, TypeAlias

from registry.program import StartError

START_SECONDS = 120.0
"""A child that is not ready by then hangs: mongod may have a journal to replay after a crash."""

_PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each restart in a row. After these, supervision gives up, unless other children
run."""

_STABLE_SECONDS = 60.0
"""A child that has run for this long may be restarted as often as a new one."""

_RETRY_SECONDS = 2.0
"""The pause after a restart that StartError prevents; such restarts are not counted."""

_log = logging.getLogger("registry")

Run: TypeAlias = Callable[[], AbstractAsyncContextManager[Callable[[], Awaitable[str]]]]
"""Starts a child, and stops it at the end of the context.

Yields, once the child is ready, a function that waits for its end and returns the reason. Raises
OSError if the child fails, and StartError if something else keeps it from starting.
"""


class Supervisor:
    """Keeps child processes running; stops all of them at once at the end of the context.

    The pauses between the restarts of a child increase. on_failure: called with the reason if a
    child fails again and again while no other runs.
    """

    def __init__(self, on_failure: Callable[[str], None]) -> None:
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []
        self._running = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def start(self, name: str, run: Run) -> None:
        """Start a child, and return when it is ready. Raises StartError if it cannot start."""
        ready = asyncio.get_running_loop().create_future()
        self._tasks.append(asyncio.create_task(self._keep_running(name, run, ready)))
        await ready

    async def _keep_running(self, name: str, run: Run, ready: asyncio.Future[None]) -> None:
        restarts, obstacle = 0, ""
        while True:
            try:
                async with run() as wait:
                    began = time.monotonic()
                    if not ready.done():
                        ready.set_result(None)
                    else:
                        _log.warning("%s has been restarted", name)
                    self._running += 1
                    try:
                        reason = await wait()
                    finally:
                        self._running -= 1
                _log.error("%s exited unexpectedly: %s", name, reason)
                if time.monotonic() - began >= _STABLE_SECONDS:
                    restarts = 0
            except StartError as error:
                if not ready.done():
                    ready.set_exception(error)
                    return
                if obstacle != (obstacle := str(error)):
                    _log.error("%s cannot be restarted yet: %s", name, obstacle)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            except OSError as error:
                reason = str(error)
                if not ready.done():
                    ready.set_exception(StartError(f"{name} does not start: {reason}"))
                    return
                _log.error("%s does not start: %s", name, reason)
            finally:
                ready.cancel()  # unless it is done
            if restarts >= len(_PAUSES) and not self._running:
                self._on_failure(f"{name} exited again after {restarts} restarts: {reason}")
                return
            await asyncio.sleep(_PAUSES[min(restarts, len(_PAUSES) - 1)])
            restarts += 1


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
