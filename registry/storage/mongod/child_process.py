"""A program that runs beside this process and never outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import BinaryIO

_STOP_SECONDS = 60.0

_SCRIPT = """
exec 3<&0
"$@" </dev/null 3<&- & program=$!
{ read -r _ <&3; kill "$program"; } & watcher=$!
wait "$program"; status=$?
kill "$watcher" 2>/dev/null
command -p rm -rf "$PWD"
exit "$status"
"""
"""Asks the program to end when standard input does: then this process has ended, if by kill -9.
Commands in the background read /dev/null instead of standard input, hence descriptor 3."""


class ChildProcess:
    """A program that runs until it is stopped or this process ends, however that comes about.

    It runs in a directory of its own, which is removed when it has ended, and writes to a log.
    """

    def __init__(self, command: Sequence[str], directory: Path, log: BinaryIO) -> None:
        reading, self._lifeline = os.pipe()
        self._stopping = False
        self._shell = subprocess.Popen(  # noqa: S603 - nothing in the command is from outside
            ["/bin/sh", "-c", _SCRIPT, "registry-child", *command],
            cwd=directory,
            stdin=reading,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in the terminal is for this process alone
        )
        os.close(reading)

    def ending(self) -> str | None:
        """Return how the program has ended, by its status or a signal; None while it runs."""
        status = self._shell.poll()
        if status is None:
            return None
        if status > 128:
            return f"signal {status - 128} ({signal.strsignal(status - 128)})"
        return f"status {status}"

    def on_end(self, report: Callable[[], None]) -> None:
        """Call back, on a thread, if the program ends without having been stopped."""

        def wait() -> None:
            self._shell.wait()
            if not self._stopping:
                report()

        Thread(target=wait, daemon=True).start()

    def stop(self) -> None:
        """Ask the program to end, and wait until it has; kill it if that takes a minute."""
        self._stopping = True
        os.close(self._lifeline)
        try:
            self._shell.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()
