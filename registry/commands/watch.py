"""`registry watch`: print the changes of a running service, or send them to a URL.

Deliveries are signed as Standard Webhooks has it (standardwebhooks.com).
"""

import argparse
import asyncio
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Sequence
from hmac import digest
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NoReturn

from aiohttp import ClientError, ClientSession, ClientTimeout, hdrs
from yarl import URL

from registry.client import Client, Gone, RegistryError
from registry.commands.arguments import (
    checked,
    client_parser,
    declared_graph,
    failure_of,
    open_client,
)
from registry.commands.output import fail, output
from registry.program import StartError, new_file, note

_DESCRIPTION = (
    "Follow the changes of a running service: print each as a line of JSON, or send it to a URL "
    "with the signature of Standard Webhooks, in their order and again until it is accepted. With "
    "--position-file, a later run continues after the last change, without leaving one out."
)

_REFUSED_STATUS = 3
"""With which docs/registry-watch.service does not start it again."""

_RESTART = ": read the resources again, and delete the file with the position"
"""What to do if a position is not accepted."""

_SECRET_PREFIX = "whsec_"  # noqa: S105 - of all secrets
_SECRET_BYTES = range(24, 65)

_TIMEOUT_SECONDS = 20

_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds before a delivery is repeated; then a minute each time."""

Deliver = Callable[[str, bytes], Awaitable[None]]
"""Takes the id of a change, and the change as JSON; returns when it is delivered."""


def main(arguments: Sequence[str]) -> None:
    """Run the command until it is interrupted; exit with status 1 if the service refuses.

    Status 3 means that it would fail each time: the service refuses the position, or the receiver
    responds with 410.
    """
    parser = client_parser("watch", _DESCRIPTION)
    add = parser.add_argument
    types = [each.type for each in declared_graph(arguments).writable]
    type_help = "Follow only changes of this type (repeatable). [default: all]"
    add("--type", choices=types, action="append", default=[], help=type_help)
    post_help = "Send changes to this URL instead of printing them."
    add("--post", metavar="URL", type=checked(_receiver), help=post_help)
    file_help = "Sign them with the secret in this file: whsec_ and 24 to 64 bytes in base64."
    add("--secret-file", metavar="FILE", type=checked(read_secret), help=file_help)
    position_help = "Continue after the position in this file, and keep it there."
    add("--position-file", metavar="FILE", type=Path, help=position_help)
    parsed = parser.parse_args(arguments)
    if (parsed.post is None) != (parsed.secret_file is None):
        parser.error("--post and --secret-file: give both or none")
    try:
        asyncio.run(_run(parsed))
    except (RegistryError, ReceiverGone) as error:
        reason = failure_of(error) if isinstance(error, RegistryError) else str(error)
        note(f"registry: {reason.removesuffix('.')}{_RESTART if isinstance(error, Gone) else ''}")
        sys.exit(_REFUSED_STATUS if isinstance(error, Gone | ReceiverGone) else 1)
    except StartError as error:
        fail(error)
    except OSError as error:
        fail(StartError(f"--position-file: {parsed.position_file}: {error.strerror}"))


def _receiver(text: str) -> str:
    url = URL(text)
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(f"{text!r} is not a URL such as https://hooks.example.com/registry")
    return text


def read_secret(name: str) -> bytes:
    """Return the key in a file with a secret such as `whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD`."""
    try:
        text = Path(name).read_text().strip()
        is_secret = text.startswith(_SECRET_PREFIX)
        key = b64decode(text[len(_SECRET_PREFIX) :], validate=True) if is_secret else b""
    except OSError as error:
        raise ValueError(f"{name}: {error.strerror}") from None
    except ValueError:
        key = b""
    if len(key) not in _SECRET_BYTES:
        raise ValueError(f"{name}: not {_SECRET_PREFIX} followed by 24 to 64 bytes in base64")
    return key


async def _run(parsed: argparse.Namespace) -> None:
    async with open_client(parsed.url) as client, ClientSession() as session:
        deliver: Deliver = _print
        if parsed.post is not None:
            deliver = Webhook(session, parsed.post, parsed.secret_file).deliver
        await watch(client, parsed.type, deliver, parsed.position_file)


async def _print(_: str, change: bytes) -> None:
    output(change.decode())


async def watch(
    client: Client, types: Iterable[str], deliver: Deliver, position_file: Path | None
) -> NoReturn:
    """Deliver all changes in their order, at least once, again after a crash.

    The last change of a transaction has the id of its position, others one with a number added:
    they have the same ids when they are delivered again. position_file: where the position after
    the last transaction is kept; None to begin at the present. Raises StartError, OSError,
    RegistryError, or what `deliver` raises; what does not last, it waits for.
    """
    after = _load(position_file) if position_file else None
    async for position, changes in client.follow(types, after):
        for number, change in enumerate(changes, 1):
            is_last = number == len(changes)
            await deliver(position if is_last else f"{position}-{number}", change)
        if position_file:
            store(position_file, position)
    raise AssertionError  # the feed has no end


def _load(position_file: Path) -> str | None:
    """Return the stored position, or None before the first. Raises StartError or OSError."""
    if not position_file.exists() and position_file.parent.is_dir():
        return None
    position = position_file.read_text(errors="replace").strip()
    # Without one, the service would begin at the present, and leave changes out.
    if not position or not position.isprintable():
        raise StartError(f"{position_file} has no position{_RESTART}")
    return position


def store(position_file: Path, position: str) -> None:
    """Replace the position: after a crash the file has this one, or the one before."""
    with new_file(position_file, replaces=True) as file:
        file.write(f"{position}\n".encode())


class ReceiverGone(Exception):
    """A receiver wants no further changes."""


class Webhook:
    """A receiver of changes. key: the secret that it shares with the sender."""

    def __init__(self, session: ClientSession, url: str, key: bytes) -> None:
        self._session = session
        self._url = url
        self._key = key

    async def deliver(self, id_: str, body: bytes) -> None:
        """Send a change until the receiver accepts it.

        id_: that of the change, the same when it is sent again. Raises ReceiverGone.
        """
        for delay in chain(_DELAYS, repeat(60.0)):
            failure = await self._send(id_, body)
            if failure is None:
                return
            note(f"registry: {self._url} {failure}: trying again in {delay:g} s")
            await asyncio.sleep(delay)

    async def _send(self, id_: str, body: bytes) -> str | None:
        """Send a change; return why the receiver has not accepted it, None if it has."""
        timestamp = str(int(time.time()))
        signed = b".".join((id_.encode(), timestamp.encode(), body))
        signature = b64encode(digest(self._key, signed, "sha256")).decode()
        headers = {
            hdrs.CONTENT_TYPE: "application/json",
            "webhook-id": id_,
            "webhook-timestamp": timestamp,
            "webhook-signature": f"v1,{signature}",
        }
        limit = ClientTimeout(total=_TIMEOUT_SECONDS)
        sent: Any = {"data": body, "headers": headers, "allow_redirects": False, "timeout": limit}
        try:
            async with self._session.post(self._url, **sent) as response:
                status, target = response.status, response.headers.get(hdrs.LOCATION)
        except TimeoutError:
            return f"has not responded within {_TIMEOUT_SECONDS} s"
        except (ClientError, OSError) as error:
            return f"cannot be reached ({' '.join(str(error).split())})"
        if status == 410:
            raise ReceiverGone(f"{self._url} wants no further changes: it responded with 410")
        if status // 100 == 3 and target:
            return f"redirects to {target}, where changes are not sent"
        return None if status // 100 == 2 else f"has responded with {status}"
