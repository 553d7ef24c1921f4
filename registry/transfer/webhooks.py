"""Deliveries of changes, signed as Standard Webhooks has it (standardwebhooks.com)."""

import asyncio
import time
from base64 import b64decode, b64encode
from hmac import digest
from itertools import chain, repeat

from aiohttp import ClientError, ClientSession, ClientTimeout, hdrs

from registry.program import note

_PREFIX = "whsec_"
_SECRET_BYTES = range(24, 65)

_TIMEOUT_SECONDS = 20

_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds before a delivery is repeated; then a minute each time."""

_GONE = 410
"""The status of a receiver that wants no further deliveries."""


def parse_secret(text: str) -> bytes:
    """Return the key in a secret such as `whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD`.

    Raises ValueError.
    """
    try:
        key = b64decode(text.removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not text.startswith(_PREFIX) or len(key) not in _SECRET_BYTES:
        raise ValueError(f"it is not {_PREFIX} followed by 24 to 64 bytes in base64")
    return key


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

        id_: that of the change, the same when it is sent again. Raises ReceiverGone if the receiver
        wants no further ones.
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
        try:
            async with self._session.post(
                self._url,
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=ClientTimeout(total=_TIMEOUT_SECONDS),
            ) as response:
                status, target = response.status, response.headers.get(hdrs.LOCATION)
        except TimeoutError:
            return f"has not responded within {_TIMEOUT_SECONDS} s"
        except (ClientError, OSError) as error:
            return f"cannot be reached ({' '.join(str(error).split())})"
        if status == _GONE:
            raise ReceiverGone(f"{self._url} wants no further changes: it responded with 410")
        if status // 100 == 3 and target:
            return f"redirects to {target}, where changes are not sent"
        return None if status // 100 == 2 else f"has responded with {status}"
