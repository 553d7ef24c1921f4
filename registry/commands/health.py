"""The command `health`: asks the service with the same settings whether it is alive."""

import asyncio
import os
import ssl
from collections.abc import Sequence

from registry.commands.arguments import command_parser
from registry.commands.output import describe, fail
from registry.http.addresses import LIVE_PATH
from registry.processes.event_loop import ALL_ADDRESSES
from registry.program import StartError
from registry.settings import VARIABLES, Settings, add_setting

_SECONDS = 10.0

_REQUEST = f"GET {LIVE_PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def main(arguments: Sequence[str]) -> None:
    """Exit with status 0 if the service responds, with 1 if not, with 2 for an invalid setting."""
    parser = command_parser(
        "health",
        "Ask the service with these settings whether it is alive. The exit status is 0 if it "
        f"answers within {_SECONDS:g} s, otherwise 1. It is alive without its database too.",
        epilog=VARIABLES,
    )
    for name in ("host", "port", "tls_certificate", "tls_key"):
        add_setting(parser.add_argument, name)
    settings = parser.settings(parser.parse_args(arguments), os.environ)
    try:
        asyncio.run(_check(settings))
    except StartError as error:
        fail(error)


async def _check(settings: Settings) -> None:
    """Raise StartError unless the service responds with 200, whatever its certificate says."""
    context = None
    if settings.tls_certificate:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host = ALL_ADDRESSES.get(settings.host, settings.host)
    place = f"{host} port {settings.port}"
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(host, settings.port, ssl=context)
            writer.write(_REQUEST.encode())
            status = await reader.readexactly(len("HTTP/1.1 200"))
            writer.close()
    except TimeoutError:
        raise StartError(f"{place} has not responded within {_SECONDS:g} s") from None
    except (OSError, asyncio.IncompleteReadError) as error:
        raise StartError(f"{place} does not respond: {describe(error)}") from error
    if not status.endswith(b" 200"):
        raise StartError(f"{place} does not respond as a registry does")
