"""Requests of a client: repeated while that is safe, bounded in time and size, to one host only."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from functools import partial
from typing import Any, Self, TypeAlias
from uuid import UUID

import orjson
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, hdrs
from aiohttp.http import HttpProcessingError
from yarl import URL

from registry import protocol
from registry.client.client_documents import (
    Conflict,
    Gone,
    RegistryError,
    UnexpectedResponse,
    member,
    unexpected,
)

Reply: TypeAlias = tuple[Any, Mapping[str, str]]
"""The document of a response, None if it has none, and its headers."""

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

_GONE = {"invalid_position", "position_expired"}
_CONFLICT = {"precondition_failed", "value_taken"}
"""Codes of errors."""

_LOST = (TimeoutError, ClientError, OSError)


class Transport:
    """Sends requests to the service at a base URL; all methods raise RegistryError.

    A request without a response, or refused for the moment, is repeated for some seconds if the
    service has responded before, or says when to repeat it.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        # To compress responses would take more of the service's time than to send them.
        headers = {hdrs.ACCEPT_ENCODING: "identity"}
        if token:
            headers[hdrs.AUTHORIZATION] = f"Bearer {header_value(token, 'token')}"
        timeout = ClientTimeout(total=_TIMEOUT_SECONDS)
        # Opened by the context, as it needs an event loop.
        self._new = partial(ClientSession, f"{base_url(url)}/", headers=headers, timeout=timeout)
        self._opened: ClientSession | None = None
        self._has_responded = False

    async def __aenter__(self) -> Self:
        self._opened = self._new()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        self._opened = None

    @property
    def _session(self) -> ClientSession:
        if self._opened is None:
            raise RuntimeError("the client is not open: use it in `async with Client(...) as ...:`")
        return self._opened

    async def send(
        self, method: str, path: str, body: Any = None, prefer: Sequence[str] = (), **options: Any
    ) -> Reply:
        """Return the response to a request that was executed, after repetitions if needed.

        path: relative to the base URL. body: as for `encoded`, which may raise. prefer: what the
        service must apply (RFC 7240). options: those of aiohttp.
        """
        headers = {protocol.PREFER: ", ".join(prefer)} if prefer else {}
        options["headers"] = headers | options.get("headers", {})
        if body is not None:
            options["data"] = encoded(body)
        for delay in (*DELAYS, None):
            pause = delay
            try:
                request = self._session.request(method, path, allow_redirects=False, **options)
                async with request as response:
                    document = await _read(path, response)
                break
            except RegistryError as error:
                pause = self._pause(error, delay)
                self._has_responded |= error.status != 503
                if pause is None:
                    raise
            except _LOST as error:
                if pause is None or not self._has_responded:
                    raise _unreachable(error) from None
            await asyncio.sleep(pause)
        self._has_responded = True
        applied = response.headers.get(protocol.PREFERENCE_APPLIED, "")
        if ignored := [one for one in prefer if one not in applied]:
            reason = f"the service, an earlier version, has executed /{path} without {ignored[0]}"
            raise UnexpectedResponse(reason, response.status, response.headers, document)
        return document, response.headers

    def _pause(self, error: RegistryError, delay: float | None) -> float | None:
        """Return the seconds before a refused request is repeated, None if it is not."""
        if delay is None or error.status != 503 or error.code == "disk_full":
            return None
        if error.retry_after is None:
            return delay if self._has_responded else None
        return max(delay, error.retry_after) if error.retry_after <= _MAX_DELAY else None

    async def download(self, path: str, type_: str, **options: Any) -> AsyncGenerator[bytes]:
        """Yield the body of a response of a media type in pieces, as they arrive.

        Raises RegistryError, also if the connection ends before the body.
        """
        timeout = ClientTimeout(sock_connect=_TIMEOUT_SECONDS, sock_read=_TIMEOUT_SECONDS)
        options |= {"headers": {hdrs.ACCEPT: type_}, "timeout": timeout, "allow_redirects": False}
        is_sent = False
        for delay in (*DELAYS, None):
            try:
                async with self._session.get(path, **options) as response:
                    is_sent = response.ok and response.content_type == type_
                    if not is_sent:
                        await _read(path, response)
                        raise unexpected(path)
                    async for piece in response.content.iter_any():
                        yield piece
                    return
            except RegistryError as error:
                pause = self._pause(error, delay)
                if pause is None:
                    raise
            except _LOST as error:
                reason = f"the service ended its response to /{path} early: see its log"
                raise RegistryError(reason) if is_sent else _unreachable(error) from None
            await asyncio.sleep(pause)

    async def events(self, path: str, **options: Any) -> AsyncGenerator[dict[bytes, bytes]]:
        """Yield the fields of server-sent events (WHATWG HTML, 9.2) until the connection ends."""
        timeout = ClientTimeout(sock_connect=_TIMEOUT_SECONDS, sock_read=_SILENCE_SECONDS)
        options |= {"timeout": timeout, "read_bufsize": _EVENT_BYTES, "allow_redirects": False}
        try:
            async with self._session.get(path, **options) as response:
                if response.content_type != protocol.EVENT_STREAM:
                    await _read(path, response)
                    raise UnexpectedResponse(f"not a registry: /{path} has no events")
                self._has_responded = True
                while (event := await response.content.readuntil(b"\n\n")).endswith(b"\n\n"):
                    fields = dict(line.partition(b": ")[::2] for line in event.splitlines())
                    if b"data" in fields:
                        yield fields
        except RegistryError as error:
            if error.status != 503 or not self._has_responded:
                raise
        except _LOST as error:
            if not self._has_responded:
                raise _unreachable(error) from None
        except (ValueError, HttpProcessingError):
            raise UnexpectedResponse(f"/{path} has an event that is too large") from None


def base_url(text: str) -> str:
    """Return a base URL without a slash at its end. Raises ValueError."""
    url = URL(text)
    if url.user is not None or url.password is not None:
        raise ValueError("a base URL has no user or password: access tokens are sent apart from it")
    if url.scheme not in {"http", "https"} or not url.host or url.query_string or url.fragment:
        raise ValueError(f"{text!r} is not a base URL such as http://127.0.0.1:8080")
    return text.rstrip("/")


def header_value(text: str, name: str) -> str:
    """Return a text that a header can have. Raises ValueError, which names it, for others."""
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"the {name} has characters other than printable ones of ASCII")
    return text


def encoded(value: Any) -> bytes:
    """Return a value as JSON; exact decimals, dates, times and UUIDs as strings.

    Raises TypeError or ValueError for what JSON lacks, such as sets, NaN and lone surrogates.
    orjson would write null for NaN, and has no integers of more than 64 bits.
    """
    try:
        text = json.dumps(value, default=_text, ensure_ascii=False, allow_nan=False)
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text has a lone surrogate, which JSON cannot express") from None


def _text(value: object) -> str:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError(f"{value!r:.80} of the type {type(value).__name__} cannot be sent as JSON")


async def _read(path: str, response: ClientResponse) -> Any:
    """Return the document of a response. Raises the error for a refusal."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise UnexpectedResponse(f"/{path} has more than {_MAX_BYTES >> 20} MiB")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if response.status // 100 == 2:
        return document
    location, code = response.headers.get(hdrs.LOCATION), member(document, "errors", 0, "code")
    target = location and f"nothing is sent to {location}"
    detail = member(document, "errors", 0, "detail") or target
    message = f"/{path} failed with status {response.status}{f': {detail}' if detail else ''}"
    kind = Gone if code in _GONE else Conflict if code in _CONFLICT else RegistryError
    raise kind(message, response.status, response.headers, document)


def _unreachable(error: Exception) -> RegistryError:
    if isinstance(error, TimeoutError):
        return RegistryError(f"no response from the service within {_TIMEOUT_SECONDS} s")
    reason = " ".join(str(error).split())
    return RegistryError(f"cannot reach the service (is it running, is the URL correct?): {reason}")
