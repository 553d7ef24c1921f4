"""The command `serve`: runs the service until a signal."""

import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from tempfile import TemporaryDirectory

from registry.commands.output import discard_output, fail
from registry.processes import event_loop
from registry.processes.event_loop import listen, url_of
from registry.program import IS_CHECKOUT, METRICS_VARIABLE, SWAGGER_UI, StartError
from registry.settings import Settings, flag, parse_settings, variable

_log = logging.getLogger("registry")


def main(arguments: Sequence[str]) -> None:
    """Serve until a signal; exit with status 1 if the service cannot start or continue.

    Exits with status 2 if a setting, of the arguments or the environment, is not valid.
    """
    event_loop.handle_signals()
    settings = parse_settings(arguments, os.environ)
    try:
        with ExitStack() as stack:
            if settings.workers > 1:
                stack.enter_context(_shared_metrics())
            # Imported late, as the metrics are: before, it is not known whether they are shared.
            from registry.processes.logs import log_in_background  # noqa: PLC0415

            log_in_background(settings.log_format)
            listener = stack.enter_context(_listen(settings.host, settings.port, "port"))
            metrics_listener = None
            if settings.metrics_port is not None:
                listening = _listen(settings.host, settings.metrics_port, "metrics_port")
                metrics_listener = stack.enter_context(listening)
            event_loop.run(_serve(settings, listener, metrics_listener))
    except StartError as error:
        logging.shutdown()  # writes what is logged before
        fail(error)


@contextmanager
def _shared_metrics() -> Iterator[None]:
    """Let prometheus-client keep the metrics of all workers in a directory, until the end."""
    try:
        directory = TemporaryDirectory(prefix="registry-", ignore_cleanup_errors=True)
    except OSError as error:
        raise StartError(f"workers need a directory for temporary files: {error}") from error
    with directory as name:
        os.environ[METRICS_VARIABLE] = name
        yield


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
    announce = partial(_announce, settings, metrics_listener)
    # Imported late, because they load slowly: bad settings and signals end the process at once.
    if settings.workers == 1:
        from registry.processes.service import metrics_server, serve  # noqa: PLC0415

        async with metrics_server(settings, metrics_listener):
            await serve(settings, lambda: listener, announce)
    else:
        from registry.processes.workers import serve_with_workers  # noqa: PLC0415

        await serve_with_workers(settings, listener, metrics_listener, announce)


def _announce(settings: Settings, metrics_listener: socket.socket | None, line: str) -> None:
    """Print a line; log it if the standard output is full or closed, as the service is ready."""
    line = ". ".join([line, *_notices(settings, metrics_listener)])
    _notify_ready()
    if sys.stdout is None:
        _log.warning("Standard output (closed): %s", line)
        return
    try:
        print(line, flush=True)  # noqa: T201 - the output
    except OSError as error:
        _log.warning("Standard output (%s): %s", error.strerror, line)
        discard_output()


def _notify_ready() -> None:
    """Tell systemd that the service is ready, if it asks for that (sd_notify)."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifying:
            notifying.connect(address.replace("@", "\0", 1))
            notifying.send(b"READY=1")


def _notices(settings: Settings, metrics_listener: socket.socket | None) -> Iterator[str]:
    """Yield where the metrics are, and what users of an installed package have to be told."""
    if metrics_listener is not None:
        from registry.http.addresses import METRICS_PATH  # noqa: PLC0415 - loads slowly

        yield f"Metrics: {url_of('http', metrics_listener)}{METRICS_PATH}"
    if IS_CHECKOUT:
        return
    if not SWAGGER_UI.is_dir():
        yield "Swagger UI is not the required version: install npm, then this package again"
    if settings.mongodb_uri is None:
        yield f"Data: {settings.data_dir.absolute()}"
