"""The event loop of each process: runs a coroutine until a signal cancels it."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import uvloop

FINISH_SECONDS = 20.0
"""Seconds that requests in progress may take to finish after a shutdown signal.

Containers are usually given 30 s to stop, which include the stop of mongod.
"""

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_IGNORED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
"""Those by which other services reopen their logs; by default they would kill the process."""

_log = logging.getLogger("registry")


def handle_signals() -> None:
    """Exit on a signal that stops the service, until `run` handles it."""
    for number in _stop_signals():
        signal.signal(number, lambda *_: sys.exit())
    for number in _IGNORED_SIGNALS:
        # Not SIG_IGN, which child processes would inherit.
        signal.signal(number, lambda *_: None)


def run(service: Coroutine[Any, Any, None]) -> None:
    """Run the service until it returns, or SIGINT, SIGTERM or SIGHUP cancels it.

    Later signals cannot interrupt the shutdown, except a second SIGINT (Ctrl-C), which ends the
    process at once. Exceptions of the service propagate.
    """
    handle_signals()
    # With the event loop of asyncio, reading one person takes 13 % more CPU time.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signal(service))


async def _until_signal(service: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(service)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if number == signal.SIGINT and number in received:
            _log.warning("Stopped at once by a second Ctrl-C")
            logging.shutdown()  # writes that line
            os._exit(128 + number)
        if not received:
            task.cancel()
        received.append(number)

    numbers = _stop_signals()
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    with suppress(asyncio.CancelledError):
        await task
    for number in numbers:  # while the process exits
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _stop_signals() -> list[signal.Signals]:
    """Return the signals that stop the service: not SIGHUP if it runs under nohup."""
    under_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [n for n in _STOP_SIGNALS if n != signal.SIGHUP or not under_nohup]
