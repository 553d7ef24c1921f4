"""Requests of a client: repeated while that is safe, bounded in time and size, to one host only."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Self

import orjson
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, hdrs
from yarl import URL

from registry.client.client_errors import Gone, RegistryError, Reply, UnexpectedResponse
from registry.client.linked_resources import Conflict
from registry.protocol import EVENT_STREAM, PREFER, PREFERENCE_APPLIED

_TIMEOUT_SECONDS = 30
_SILENCE_SECONDS = 45
"""How long the change feed may be silent: it has a comment every 15 s."""

DELAYS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before a request is repeated: a service that restarts is back within them."""

_MAX_DELAY = 30
"""A service that asks for more seconds in `Retry-After` is not waited for."""

_MAX_BYTES = 2**26
"""Of a response: many times a page of 1,000 resources with what they include."""

_EVENT_BYTES = 2**20
"""Of an event of the change feed, which may be twice as long."""

_UNREPEATABLE = {hdrs.METH_PATCH, hdrs.METH_DELETE}
"""Methods for which nothing tells whether a request without a response was executed."""

_LOST = (TimeoutError, ClientError, OSError)


class Transport:
    """Sends requests to the service at a base URL.

    A request without a response, or refused for the moment, is repeated for some seconds if the
    service has responded before, or says when to repeat it.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        base = URL(url)
        if base.scheme not in {"http", "https"} or not base.host or base.query or base.fragment:
            raise ValueError(f"{url!r} is not a base URL such as http://127.0.0.1:8080")
        # To compress responses would take more of the service's time than to send them.
        headers = {hdrs.ACCEPT_ENCODING: "identity"}
        headers |= {hdrs.AUTHORIZATION: f"Bearer {token}"} if token else {}
        timeout = ClientTimeout(total=_TIMEOUT_SECONDS)
        self._session = ClientSession(f"{url.rstrip('/')}/", headers=headers, timeout=timeout)
        self._has_responded = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(
        self, method: str, path: str, body: Any = None, prefer: Sequence[str] = (), **options: Any
    ) -> Reply:
        """Return the response to a request, after repetitions if needed. Raises RegistryError.

        path: relative to the base URL. prefer: what the service must apply (RFC 7240). options:
        those of aiohttp.
        """
        headers = {PREFER: ", ".join(prefer)} if prefer else {}
        options["headers"] = headers | options.get("headers", {})
        if body is not None:  # with what JSON lacks, such as exact decimals, as strings
            options["data"] = orjson.dumps(body, default=str)
        for delay in (*DELAYS, None):
            try:
                request = self._session.request(method, path, allow_redirects=False, **options)
                async with request as response:
                    reply = await _read(response)
                pause = self._pause(reply, delay)
            except _LOST as error:
                pause = delay
                if pause is None or not self._has_responded or method in _UNREPEATABLE:
                    raise _unreachable(error) from None
            if pause is None:
                break
            await asyncio.sleep(pause)
        self._has_responded = True
        applied = reply.headers.get(PREFERENCE_APPLIED, "")
        if reply.is_success and (ignored := [one for one in prefer if one not in applied]):
            reason = f"the service, an earlier version, has executed /{path} without {ignored[0]}"
            raise UnexpectedResponse(reason, reply)
        return reply

    def _pause(self, reply: Reply, delay: float | None) -> float | None:
        """Return the seconds before a request is repeated, None to accept the response."""
        if delay is None or reply.status != 503 or reply.member("errors", 0, "code") == "disk_full":
            return None
        after = reply.headers.get(hdrs.RETRY_AFTER, "")
        if not after.isdecimal():
            return delay if self._has_responded else None
        return max(delay, int(after)) if len(after) < 4 and int(after) <= _MAX_DELAY else None

    async def events(self, path: str, **options: Any) -> AsyncGenerator[dict[bytes, bytes]]:
        """Yield the fields of server-sent events (WHATWG HTML, 9.2) until the connection ends.

        Raises RegistryError if the service refuses, or has never responded.
        """
        timeout = ClientTimeout(sock_connect=_TIMEOUT_SECONDS, sock_read=_SILENCE_SECONDS)
        options |= {"timeout": timeout, "read_bufsize": _EVENT_BYTES, "allow_redirects": False}
        try:
            async with self._session.get(path, **options) as response:
                if response.content_type != EVENT_STREAM:
                    reply = await _read(response)
                    if reply.status == 503 and self._has_responded:
                        return
                    raise failure(path, reply)
                self._has_responded = True
                while (event := await response.content.readuntil(b"\n\n")).endswith(b"\n\n"):
                    fields = dict(line.partition(b": ")[::2] for line in event.splitlines())
                    if b"data" in fields:
                        yield fields
        except ValueError:
            raise UnexpectedResponse(f"/{path} has an event that is too large") from None
        except _LOST as error:
            if not self._has_responded:
                raise _unreachable(error) from None


async def _read(response: ClientResponse) -> Reply:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise UnexpectedResponse(f"a response has more than {_MAX_BYTES >> 20} MiB")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    return Reply(response.status, response.headers, document)


def failure(path: str, reply: Reply) -> RegistryError:
    """Return the error for a response that is not the expected one."""
    if reply.is_success:
        return UnexpectedResponse("not a registry: the response is not a document of one", reply)
    location = reply.headers.get(hdrs.LOCATION)
    detail = f"nothing is sent to {location}" if location else reply.member("errors", 0, "detail")
    reason = f"/{path} failed with status {reply.status}{f': {detail}' if detail else ''}"
    match reply.status, reply.member("errors", 0, "code"):
        case (410, _) | (_, "invalid_position"):
            return Gone(reason, reply)
        case (412, _) | (_, "value_taken"):
            return Conflict(reason, reply)
    return RegistryError(reason, reply)


def _unreachable(error: Exception) -> RegistryError:
    if isinstance(error, TimeoutError):
        return RegistryError(f"no response from the service within {_TIMEOUT_SECONDS} s")
    reason = " ".join(str(error).split())
    return RegistryError(f"cannot reach the service (is it running, is the URL correct?): {reason}")
