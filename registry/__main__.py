"""The command line: `python -m registry --help` lists the settings."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import NoReturn

from registry.settings import Settings, StartError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_FINISH_SECONDS = 30.0
"""How long requests under way may take to finish when the service ends."""


def main() -> None:
    """Serve until a signal; end with status 1 and one line if the service cannot start."""
    for number in _SIGNALS:
        signal.signal(number, _leave)
    settings = Settings.parse(sys.argv[1:], os.environ)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        with _listen(settings) as listener:
            asyncio.run(_until_signal(settings, listener))
    except StartError as error:
        sys.exit(f"registry: {error}")


def _leave(*_: object) -> NoReturn:
    sys.exit(0)


def _listen(settings: Settings) -> socket.socket:
    """Take the port before anything is started that would have to be stopped again."""
    host, port = settings.host, settings.port
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family)
    except (OSError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", error)).partition(" (")[0]
        raise StartError(
            f"cannot listen on {host} port {port} ({reason}): "
            "choose another with --port or REGISTRY_PORT, --host or REGISTRY_HOST"
        ) from error


async def _until_signal(settings: Settings, listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    service = asyncio.create_task(_serve(settings, listener))

    def stop() -> None:
        for number in _SIGNALS:  # a second one does not disturb the end
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        service.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    with suppress(asyncio.CancelledError):
        await service


async def _serve(settings: Settings, listener: socket.socket) -> None:
    # Loading these takes longer than all that comes before, which a signal or an error may end.
    from aiohttp import web  # noqa: PLC0415

    from registry import swagger_ui  # noqa: PLC0415
    from registry.app import create_app  # noqa: PLC0415
    from registry.keys import UI_PATH  # noqa: PLC0415
    from registry.server import Runner  # noqa: PLC0415

    runner = Runner(create_app(settings), shutdown_timeout=_FINISH_SECONDS)
    try:
        await runner.setup()
        await web.SockSite(runner, listener).start()
        url = settings.public_url or _url(listener)
        ready = (
            f"Registry ready: API {url}/persons, "
            f"Swagger UI {url}{UI_PATH}/ (version {swagger_ui.version()})"
        )
        print(ready, flush=True)  # noqa: T201 - what was asked for, on standard output
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _url(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


if __name__ == "__main__":
    main()
