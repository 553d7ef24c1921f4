"""The workers, forked by gunicorn; `registry.processes.supervisor` starts this as a program.

Standard input carries, pickled, the Settings, the family and address of the port, and the
descriptor of the channel for metrics, which is inherited. SIGTERM stops gunicorn and all workers;
when standard input closes, because the supervisor has exited or was killed, they exit at once. On
standard output each worker reports one line: `ready` and the line to announce, or `failed` and the
reason.
"""

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
from registry.processes.listeners import listen
from registry.processes.logs import log_in_background, log_to_stderr
from registry.processes.metrics_exchange import Reporter
from registry.processes.service import FINISH_SECONDS, serve
from registry.settings import Settings
from registry.start_error import StartError

_RETRY_SECONDS = 5.0
"""Delay before a worker that could not start exits, so that gunicorn retries at this interval."""

_LIFE_PIPE, _REPORTS = 0, 1  # standard input and output


def main() -> None:
    """Run gunicorn until SIGTERM, or until standard input closes."""
    try:
        application = _Application(*pickle.load(sys.stdin.buffer))  # noqa: S301 - from the supervisor
    except EOFError:  # the supervisor could not start
        return
    log_to_stderr(application.settings.log_format)
    arbiter = _Arbiter(application)
    logging.getLogger("gunicorn.error").propagate = True  # to the log of the service
    arbiter.run()


class _Application(BaseApplication):  # type: ignore[misc] # gunicorn has no types
    """The configuration of gunicorn, and the coroutine function that each worker runs."""

    def __init__(
        self, settings: Settings, family: socket.AddressFamily, address: Any, channel: int
    ) -> None:
        self.settings = settings
        self.channel = socket.socket(fileno=channel)
        self.listen = partial(listen, family, address, reuse_port=True)
        super().__init__()

    def load_config(self) -> None:
        options = {
            "workers": self.settings.workers,
            "worker_class": _Worker,
            "bind": [],  # each worker binds a socket of its own
            "timeout": 0,  # the workers send gunicorn no heartbeats, unlike its own HTTP servers
            "graceful_timeout": int(FINISH_SECONDS) + 3,
            "control_socket_disable": True,
            "errorlog": None,
            "loglevel": "warning",
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return partial(serve, self.settings)


class _Arbiter(Arbiter):  # type: ignore[misc] # gunicorn has no types
    def manage_workers(self) -> None:
        """Fork workers until there are enough. gunicorn calls this at least once a second."""
        if _life_pipe_closes(within=0):
            raise StopIteration  # makes gunicorn's main loop shut down
        super().manage_workers()

    def handle_hup(self) -> None:
        """Pass SIGHUP on, instead of replacing the workers: they reload their certificate."""
        self.kill_workers(signal.SIGHUP)


class _Worker(Worker):  # type: ignore[misc] # gunicorn has no types
    def init_signals(self) -> None:
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    def run(self) -> None:
        log_in_background(self.app.settings.log_format)
        self.booted = False  # until it serves: gunicorn gives up if a worker crashes before that
        try:
            event_loop.run(self._serve())
        except StartError as error:
            _report(f"failed {error}")
            _life_pipe_closes(within=_RETRY_SECONDS)

    async def _serve(self) -> None:
        # Writes that were acknowledged are in the journal of MongoDB: none is lost.
        asyncio.get_running_loop().add_reader(_LIFE_PIPE, os._exit, 0)
        async with Reporter(self.app.channel) as reporter:
            await self.wsgi(self.app.listen, self._announce, reporter.scrape)

    def _announce(self, line: str) -> None:
        self.booted = True
        _report(f"ready {line}")


def _report(line: str) -> None:
    with suppress(BrokenPipeError):  # the supervisor was killed
        os.write(_REPORTS, f"{line}\n".encode())


def _life_pipe_closes(within: float) -> bool:
    return bool(select.select([_LIFE_PIPE], [], [], within)[0])


if __name__ == "__main__":
    main()
