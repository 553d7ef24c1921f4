"""The command line: `python -m registry --help` lists the settings of the service.

`python -m registry backup`, `restore` and `token` are commands with options of their own.
"""

import logging
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from importlib import import_module

from registry.processes import event_loop
from registry.processes.listeners import listen
from registry.processes.logs import log_in_background
from registry.settings import Settings, StartError, flag, variable

_SERVE, _COMMANDS = "serve", ("backup", "restore", "token")

_announce = partial(print, flush=True)  # the one line of output


def main() -> None:
    """Run the command that the first argument names; without a command, serve."""
    command, *arguments = sys.argv[1:] or [""]
    if command in _COMMANDS:
        import_module(f"registry.commands.{command}").main(arguments)
    else:
        _run_service(arguments if command == _SERVE else sys.argv[1:])


def _run_service(arguments: Sequence[str]) -> None:
    """Serve until a signal; exit with status 1 if the service cannot start or continue."""
    event_loop.handle_signals()
    settings = Settings.parse(arguments, os.environ)
    log_in_background(settings.log_format)
    try:
        with ExitStack() as stack:
            listener = stack.enter_context(_listen(settings.host, settings.port, "port"))
            metrics_listener = None
            if settings.metrics_port is not None:
                listening = _listen(settings.host, settings.metrics_port, "metrics_port")
                metrics_listener = stack.enter_context(listening)
            event_loop.run(_serve(settings, listener, metrics_listener))
    except StartError as error:
        logging.shutdown()  # writes what is logged before
        sys.exit(f"registry: {error}")


def _listen(host: str, port: int, setting: str) -> socket.socket:
    """Bind a port, before anything that would have to be cleaned up after a conflict.

    setting: the field of Settings that has the port.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return listen(family, address)
    except (OSError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", error)).partition(" (")[0]
        raise StartError(
            f"cannot listen on {host} port {port} ({reason}): "
            f"choose another with {flag(setting)} or {variable(setting)}, "
            "--host or REGISTRY_HOST"
        ) from error


async def _serve(
    settings: Settings, listener: socket.socket, metrics_listener: socket.socket | None
) -> None:
    # Imported late, because they load slowly: bad settings and signals end the process at once.
    if settings.workers == 1:
        from registry.http.metrics import scrape_process  # noqa: PLC0415
        from registry.processes.metrics_server import metrics_server  # noqa: PLC0415
        from registry.processes.service import serve  # noqa: PLC0415

        async with metrics_server(
            settings, metrics_listener, scrape_process, _announce
        ) as announce:
            await serve(settings, lambda: listener, announce)
    else:
        from registry.processes.supervisor import supervise  # noqa: PLC0415

        await supervise(settings, listener, metrics_listener, _announce)


if __name__ == "__main__":
    main()
