"""gunicorn, started by `registry.processes.supervisor` as a program, which forks the workers.

Standard input brings, pickled, the Settings, and the family and the address of the port; its end
is the end of the service, also if the process at its other side was killed. On standard output
each worker reports one line: `ready`, with what is to be announced, or `failed`, with the reason.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import select
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers.base import Worker

from registry.processes import event_loop
from registry.processes.service import FINISH_SECONDS, serve
from registry.settings import Settings, StartError

_PAUSE_SECONDS = 5.0
"""How long a worker that could not start waits until gunicorn may start another."""

_LIFELINE, _REPORTS = 0, 1


def main() -> None:
    """Run gunicorn until standard input ends."""
    event_loop.log_to_stderr()
    try:
        application = _Application(*pickle.load(sys.stdin.buffer))  # noqa: S301 - of our parent
    except EOFError:  # it could not start
        return
    arbiter = _Arbiter(application)
    logging.getLogger("gunicorn.error").propagate = True  # into the log of the service
    arbiter.run()


class _Application(BaseApplication):  # type: ignore[misc] # gunicorn has no types
    """What gunicorn is told."""

    def __init__(self, settings: Settings, family: socket.AddressFamily, address: Any) -> None:
        self._settings = settings
        self.listen = partial(socket.create_server, address, family=family, reuse_port=True)
        super().__init__()

    def load_config(self) -> None:
        options = {
            "workers": self._settings.workers,
            "worker_class": _Worker,
            "bind": [],  # each worker listens for itself
            "timeout": 0,  # to start may take minutes: indexes of what other tools have stored
            "graceful_timeout": int(FINISH_SECONDS) + 5,
            "control_socket_disable": True,
            "errorlog": None,
            "loglevel": "warning",
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return partial(serve, self._settings)


class _Arbiter(Arbiter):  # type: ignore[misc] # gunicorn has no types
    def manage_workers(self) -> None:
        """Start workers in place of those that have ended; called at least each second."""
        if _lifeline_has_ended(within=0):
            raise StopIteration  # gunicorn's word for it
        super().manage_workers()


class _Worker(Worker):  # type: ignore[misc] # gunicorn has no types
    def init_signals(self) -> None:
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    def run(self) -> None:
        self.booted = False  # until it serves, so that gunicorn ends if a defect prevents that
        try:
            event_loop.run(self._serve())
        except StartError as error:
            _report(f"failed {error}")
            _lifeline_has_ended(within=_PAUSE_SECONDS)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.remove_reader(_LIFELINE)
            signal.raise_signal(signal.SIGTERM)

        loop.add_reader(_LIFELINE, stop)
        await self.wsgi(self.app.listen, self._announce)

    def _announce(self, line: str) -> None:
        self.booted = True
        _report(f"ready {line}")


def _report(line: str) -> None:
    with suppress(BrokenPipeError):  # nobody is left to hear it
        os.write(_REPORTS, f"{line}\n".encode())


def _lifeline_has_ended(within: float) -> bool:
    return bool(select.select([_LIFELINE], [], [], within)[0])


if __name__ == "__main__":
    main()
