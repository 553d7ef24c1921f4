"""`registry watch`: print the changes of a running service, or send them to a URL."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import ClientSession
from yarl import URL

from registry.client import Gone, RegistryError
from registry.commands.arguments import (
    checked,
    client_parser,
    declared_graph,
    failure_of,
    open_client,
)
from registry.commands.output import fail, output
from registry.program import StartError, note
from registry.transfer.watcher import RESTART, Deliver, PositionFile, watch
from registry.transfer.webhooks import ReceiverGone, Webhook, parse_secret

_DESCRIPTION = (
    "Follow the changes of a running service: print each as a line of JSON, or send it to a URL "
    "with the signature of Standard Webhooks, in their order and again until it is accepted. With "
    "--position-file, a later run continues after the last change, without leaving one out."
)

_GONE_STATUS = 3
"""With which docs/registry-watch.service does not start it again."""


def main(arguments: Sequence[str]) -> None:
    """Run the command until it is interrupted; exit with status 1 if the service refuses.

    Status 3 means that it would fail each time: the service refuses the position, or the receiver
    responds with 410.
    """
    parser = client_parser("watch", _DESCRIPTION)
    add = parser.add_argument
    types = [each.type for each in declared_graph(arguments).writable]
    type_help = "type whose changes to follow, repeatable [default: all]"
    add("--type", choices=types, action="append", default=[], help=type_help)
    post_help = "send changes there instead of printing them"
    add("--post", metavar="URL", type=checked(_receiver), help=post_help)
    file_help = "file with the secret that signs them: whsec_ and 24 to 64 bytes in base64"
    add("--secret-file", metavar="FILE", type=checked(_read_secret), help=file_help)
    position_help = "file that keeps the position after the last change"
    add("--position-file", metavar="FILE", type=Path, help=position_help)
    parsed = parser.parse_args(arguments)
    if (parsed.post is None) != (parsed.secret_file is None):
        parser.error("--post and --secret-file: give both or none")
    try:
        asyncio.run(_watch(parsed))
    except RegistryError as error:
        is_gone = isinstance(error, Gone)
        note(f"registry: {failure_of(error)}{RESTART if is_gone else ''}")
        sys.exit(_GONE_STATUS if is_gone else 1)
    except ReceiverGone as error:
        note(f"registry: {error}")
        sys.exit(_GONE_STATUS)
    except StartError as error:
        fail(error)


async def _watch(parsed: Any) -> None:
    file = PositionFile(parsed.position_file) if parsed.position_file else None
    async with (
        open_client(parsed.url) as client,
        ClientSession() as session,
    ):
        deliver: Deliver = _print
        if parsed.post is not None:
            deliver = Webhook(session, parsed.post, parsed.secret_file).deliver
        await watch(client, parsed.type, deliver, file)


def _receiver(text: str) -> str:
    url = URL(text)
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(f"{text!r} is not a URL such as https://hooks.example.com/registry")
    return text


async def _print(_: str, change: bytes) -> None:
    output(change.decode())


def _read_secret(name: str) -> bytes:
    try:
        return parse_secret(Path(name).read_text().strip())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ValueError(f"{name}: {reason or error}") from None
