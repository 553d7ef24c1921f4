"""Supervision: a program that ends unexpectedly is started again."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread

from registry.metrics.families import MONGOD_RESTARTS
from registry.mongod.child_process import ChildProcess
from registry.mongod.disk import START_BYTES, has_space
from registry.mongod.server_log import Log

_PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each restart in a row; then supervision gives up."""

_STABLE_SECONDS = 60.0
"""A program that has run for this long may again be restarted as often as a new one."""

_CHECK_SECONDS = 5.0
"""How often the size of the log is checked."""

_SPACE_SECONDS = 1.0

_log = logging.getLogger("registry")


@dataclass(frozen=True, slots=True)
class Program:
    """A program that can be started repeatedly.

    start: starts it. wait_until_ready: raises TimeoutError or ChildProcessError if it does not
    become ready. data_dir: where it stores its data. on_failure: called with the reason, on another
    thread, if it cannot be restarted.
    """

    name: str
    start: Callable[[], ChildProcess]
    wait_until_ready: Callable[[ChildProcess], Coroutine[None, None, None]]
    data_dir: Path
    log: Log
    on_failure: Callable[[str], None]


class ProgramSupervisor:
    """Restarts a program on a thread of its own, so it is not bound to an event loop.

    The pauses between restarts increase, and their number is bounded; while the disk is full, the
    supervisor waits instead.
    """

    def __init__(self, program: Program, child: ChildProcess) -> None:
        self._program = program
        self._child = child
        self._stopping = Event()
        self._lock = Lock()
        self._restarts = MONGOD_RESTARTS.sample()

    def start(self) -> None:
        """Begin to watch the program, and the size of its log."""
        for watch in (self._watch, self._watch_log):
            Thread(target=watch, daemon=True).start()

    def stop(self) -> None:
        """Stop the program and wait for its end."""
        self._stopping.set()
        with self._lock:
            self._child.stop()

    def _watch_log(self) -> None:
        while not self._stopping.wait(_CHECK_SECONDS):
            with self._lock:
                if self._stopping.is_set():
                    return
                self._program.log.rotate_if_full()

    def _watch(self) -> None:
        restarts, started = 0, time.monotonic()
        while (reason := self._await_failure()) and not self._stopping.is_set():
            if time.monotonic() - started >= _STABLE_SECONDS:
                restarts = 0
            if not self._can_start():
                self._wait_for_space()
            elif restarts == len(_PAUSES):
                self._give_up(reason)
                return
            else:
                self._stopping.wait(_PAUSES[restarts])
                restarts += 1
            started = time.monotonic()
            self._restart()

    def _await_failure(self) -> str | None:
        """Wait until the program ends; clean up, log it, and return the reason.

        Returns None if the program was stopped.
        """
        ending = self._child.wait()
        program = self._program
        with self._lock:
            if self._stopping.is_set():
                return None
            self._child.stop()  # what is left of it if its shell alone was killed
            reason = program.log.first_error() or f"it ended with {ending}"
        _log.error("%s exited unexpectedly: %s; its log is %s", program.name, ending, program.log)
        return reason

    def _give_up(self, reason: str) -> None:
        program = self._program
        program.on_failure(
            f"{program.name} exited again after {len(_PAUSES)} restarts: {reason} "
            f"(its log is {program.log})"
        )

    def _wait_for_space(self) -> None:
        """Wait until the disk has space to start the program, or it is to be stopped."""
        _log.error("%s is restarted when the disk has free space", self._program.name)
        while not self._can_start() and not self._stopping.wait(_SPACE_SECONDS):
            pass

    def _can_start(self) -> bool:
        try:
            return has_space(self._program.data_dir, START_BYTES)
        except OSError:
            return True  # the start then fails for the same reason

    def _restart(self) -> None:
        with self._lock:
            if self._stopping.is_set():
                return
            self._program.log.begin()
            try:
                self._child = self._program.start()
            except OSError as error:  # it counts as a restart after which the program has ended
                _log.error("%s cannot be restarted: %s", self._program.name, error)
                return
        try:
            asyncio.run(self._program.wait_until_ready(self._child))
        except (TimeoutError, ChildProcessError):
            with self._lock:
                self._child.stop()
        else:
            self._restarts[0] += 1
            _log.warning("%s has been restarted", self._program.name)
