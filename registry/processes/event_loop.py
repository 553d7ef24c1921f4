"""The event loop of each process: runs a coroutine until a termination signal cancels it."""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import uvloop

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(service: Coroutine[Any, Any, None]) -> None:
    """Run the service until it returns or SIGINT or SIGTERM cancels it.

    Only the first signal counts: later ones are ignored, so that they cannot interrupt the
    shutdown. Exceptions of the service propagate.
    """
    # With the event loop of asyncio, reading one person takes 13 % more CPU time.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signal(service))


async def _until_signal(service: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(service)

    def cancel() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, cancel)
    with suppress(asyncio.CancelledError):
        await task
