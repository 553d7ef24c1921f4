"""A child process that never outlives this process."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_STOP_SECONDS = 6.0
"""The time after which the program is killed. Including open requests, a stop takes under 30 s."""

_ORPHAN_SECONDS = 8
"""The same if this process has been killed."""

_SCRIPT = """
seconds=$1; shift
exec 3<&0
"$@" </dev/null 3<&- & program=$!
{
  read -r _ <&3 && seconds=0
  kill "$program"
  while [ "$seconds" -gt 0 ]; do
    command -p sleep 1
    kill -0 "$program" || exit
    seconds=$((seconds - 1))
    [ "$seconds" -gt 0 ] || kill -9 "$program"
  done
} 2>/dev/null & watcher=$!
wait "$program"; status=$?
kill "$watcher" 2>/dev/null
exit "$status"
"""
"""Terminates the program when standard input receives a line, or is closed because this process
has ended. In the second case it also kills the program if it does not stop, as nobody else will.
Background commands of a shell read /dev/null instead of standard input, hence descriptor 3."""


class ChildProcess:
    """A program that runs until it is stopped or this process ends, even by kill -9.

    directory: where it runs. log: takes its output.
    """

    def __init__(self, command: Sequence[str], directory: Path, log: BinaryIO) -> None:
        reading, self._stop_pipe = os.pipe()
        self._is_stopped = False
        self._shell = subprocess.Popen(  # noqa: S603 - the command has no external input
            ["/bin/sh", "-c", _SCRIPT, "registry-child", str(_ORPHAN_SECONDS), *command],
            cwd=directory,
            stdin=reading,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in the terminal reaches only this process
        )
        os.close(reading)

    def ending(self) -> str | None:
        """Return the exit status or signal of the program; None while it runs."""
        status = self._shell.poll()
        if status is None:
            return None
        number = -status if status < 0 else status - 128  # of the shell, or of the program
        if number > 0:
            return f"signal {number} ({signal.strsignal(number)})"
        return f"status {status}"

    def wait(self) -> str:
        """Wait until the program ends; return its exit status or signal."""
        self._shell.wait()
        return self.ending() or ""

    def stop(self) -> None:
        """Terminate the program and wait for its end; kill it if that takes too long.

        If the shell has been killed, the program ends soon after the return, as after this process.
        """
        if self._is_stopped:
            return
        self._is_stopped = True
        if self.ending() is None:
            with suppress(BrokenPipeError):  # it has ended
                os.write(self._stop_pipe, b"\n")
        os.close(self._stop_pipe)
        try:
            self._shell.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()
