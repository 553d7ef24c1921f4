"""What a process of the service starts with: signals, the event loop, and listening sockets."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

if sys.platform == "win32":  # for which there is no uvloop
    from asyncio import new_event_loop
else:
    from uvloop import new_event_loop

FINISH_SECONDS = 20.0
"""Seconds that requests in progress may take to finish after a shutdown signal.

Containers are usually given 30 s to stop, which include the stop of mongod.
"""

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_IGNORED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
"""Signals that make other services reopen their logs or read their settings again; by default they
would kill the process."""

ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}  # noqa: S104 - compared, not bound
"""Wildcard addresses, each with an address at which a client on this machine reaches it."""

_log = logging.getLogger("registry")


def handle_signals() -> None:
    """Exit on a signal that stops the service, until `run` handles it."""
    stop_signals = _stop_signals()
    for number in _IGNORED_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            # Not SIG_IGN, which child processes would inherit.
            signal.signal(number, lambda *_: None)
    for number in stop_signals:
        signal.signal(number, lambda *_: sys.exit())


def run(service: Coroutine[Any, Any, None]) -> None:
    """Run the service until it returns, or SIGINT, SIGTERM or the end of its terminal cancels it.

    Later signals cannot interrupt the shutdown, except a second SIGINT (Ctrl-C), which ends the
    process at once. Exceptions of the service propagate.
    """
    handle_signals()
    # With the event loop of asyncio, reading one person takes 13 % more CPU time.
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
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
    """Return the signals that stop the service: also SIGHUP, if it is that of its terminal."""
    is_attached = sys.stdin is not None and sys.stdin.isatty()
    if is_attached and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as with nohup
        return [*_STOP_SIGNALS, signal.SIGHUP]
    return [*_STOP_SIGNALS]


def listen(
    family: socket.AddressFamily, address: Any, *, reuse_port: bool = False
) -> socket.socket:
    """Return a socket that listens on an address; `::` takes IPv4 as well (RFC 4291, 2.5.5.2).

    family, address: as `socket.getaddrinfo` returns them. Raises OSError if that is not possible,
    as on a machine without IPv6.
    """
    is_dual = address[0] == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(
        address, family=family, reuse_port=reuse_port, dualstack_ipv6=is_dual
    )


def reserve_port(listener: socket.socket) -> socket.socket:
    """Replace `listener` by a socket that reserves its port for the workers but does not listen.

    Each worker binds a socket of its own with SO_REUSEPORT, so that the kernel spreads connections
    evenly; with one shared socket, a burst of connections would go to a single worker. A service
    that binds without SO_REUSEPORT fails.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved = socket.socket(listener.family)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    # Connections in TIME_WAIT must not prevent the bind, but other services must not bind as well.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listener.family == socket.AF_INET6:
        is_v6_only = listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        reserved.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, is_v6_only)
    reserved.bind(listener.getsockname())
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    listener.close()
    return reserved


def url_of(scheme: str, listener: socket.socket) -> str:
    """Return a URL at which a browser on this machine reaches a socket that listens."""
    host, port, *_ = listener.getsockname()
    host = ALL_ADDRESSES.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
