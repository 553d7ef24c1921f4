"""The command line: `python -m registry --help` lists the settings."""

import os
import socket
import sys
from functools import partial

from registry.processes import event_loop
from registry.processes.logs import log_to_stderr
from registry.settings import Settings, StartError

_announce = partial(print, flush=True)  # the one line of output


def main() -> None:
    """Serve until a signal; exit with status 1 if the service cannot start or continue."""
    event_loop.handle_signals()
    settings = Settings.parse(sys.argv[1:], os.environ)
    log_to_stderr()
    try:
        with _listen(settings) as listener:
            event_loop.run(_serve(settings, listener))
    except StartError as error:
        sys.exit(f"registry: {error}")


def _listen(settings: Settings) -> socket.socket:
    """Bind the port, before anything that would have to be cleaned up after a conflict."""
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


async def _serve(settings: Settings, listener: socket.socket) -> None:
    # Imported late, because they load slowly: bad settings and signals end the process at once.
    if settings.workers == 1:
        from registry.processes.service import serve  # noqa: PLC0415

        await serve(settings, lambda: listener, _announce)
    else:
        from registry.processes.supervisor import supervise  # noqa: PLC0415

        await supervise(settings, listener, _announce)


if __name__ == "__main__":
    main()
