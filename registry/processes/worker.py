"""A worker: the service in a process that `registry.processes.workers` starts as a program.

Standard input is a socket: see `registry.processes.exchange`.
"""

import asyncio
import socket
from functools import partial

from registry.processes import event_loop
from registry.processes.event_loop import listen
from registry.processes.exchange import Reporter, receive
from registry.processes.logs import log_in_background
from registry.processes.service import serve
from registry.program import StartError


async def _work() -> None:
    """Serve until a signal, or until the supervisor ends."""
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=0))
    try:
        settings, family, address = await receive(reader)
    except asyncio.IncompleteReadError:  # the supervisor could not start
        return
    log_in_background(settings.log_format)
    listening = partial(listen, family, address, reuse_port=True)
    async with Reporter(reader, writer) as reporter:
        try:
            await serve(settings, listening, reporter.ready, reporter.scrape)
        except StartError as error:
            reporter.failed(error)


def main() -> None:
    """Run a worker: the entry point of the program."""
    event_loop.run(_work())
