"""The HTTP client of the service: executes atomic operations and reads collections."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from uuid import uuid4

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout, hdrs

from registry.jsonapi.change_events import TYPES
from registry.protocol import (
    EVENT_STREAM,
    EXTENSION,
    IDEMPOTENCY_KEY,
    LAST_EVENT_ID,
    OPERATIONS,
    media_type,
)

TOKEN_VARIABLE = "REGISTRY_TOKEN"  # noqa: S105 - the name of a variable

Document: TypeAlias = Mapping[str, Any]
Operation: TypeAlias = Mapping[str, Any]
Rejection: TypeAlias = "tuple[int | None, str | None, str]"
"""The index of an operation, its member, and why it is rejected; no index if all are."""

_TIMEOUT_SECONDS = 30
_SILENCE_SECONDS = 45
"""How long the change feed may be silent: it has a comment every 15 s."""

_LINE = 2**20
"""Bytes of a line of the change feed, at least."""

_DELAYS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before a request is repeated: a service that restarts is back within them."""

_REJECTED = {400, 404, 409, 413, 422}
"""Statuses of operations that the service will never accept."""

RESTART = ": read the resources again, and delete the file with the position"
"""What to do if a position is not accepted."""

_REMEDIES = {
    401: f": set the variable {TOKEN_VARIABLE} to a valid access token",
    403: f": the token in {TOKEN_VARIABLE} lacks a scope",
}
_NO_SPACE = "disk_full"
"""The code of the error that repetition does not help against."""
_POINTER = re.compile(rf"/{OPERATIONS}/(\d+)(?:/.*?(?:attributes|relationships)/([^/]*).*|/.*)?")


class TransferError(Exception):
    """An import or export cannot continue; the message says why in one line."""


class Gone(TransferError):
    """A position is refused, or a receiver wants no more: a repetition would fail too."""


class OperationsRejected(Exception):
    """The service rejects a request, of which nothing was executed."""

    def __init__(self, rejections: Sequence[Rejection]) -> None:
        super().__init__(rejections[0][2])
        self.rejections = rejections


class ServerEvent:
    """A server-sent event (WHATWG HTML, 9.2). fields: its fields by name."""

    def __init__(self, fields: Mapping[bytes, bytes]) -> None:
        self.id = fields.get(b"id", b"").decode()
        self.data = fields[b"data"]
        self.is_change = b"event" not in fields


class Client:
    """A client of a running service.

    A request without a response, or refused for the moment, is repeated for some seconds if the
    service responded to an earlier one. Its `Idempotency-Key` ensures that it is executed once. The
    methods raise TransferError if that does not help, or if access is refused.
    """

    def __init__(self, session: ClientSession, delays: Sequence[float] = _DELAYS) -> None:
        self._session = session
        self._delays = delays
        self._has_responded = False

    async def execute(
        self, operations: Sequence[Operation], key: str | None = None
    ) -> list[Document]:
        """Execute all operations or none; return their results (Atomic Operations, Results).

        key: the idempotency key, by default a new one. Raises OperationsRejected.
        """
        headers = {hdrs.CONTENT_TYPE: media_type(EXTENSION), IDEMPOTENCY_KEY: key or uuid4().hex}
        body = orjson.dumps({OPERATIONS: operations})
        status, document = await self._request(
            hdrs.METH_POST, "operations", data=body, headers=headers
        )
        match document:
            case {"atomic:results": list(results)} if len(results) == len(operations):
                return results
        rejections = [_rejection(error) for error in _errors(document)]
        # A 404 without a pointer is one of the path.
        is_of_path = status == 404 and None in [index for index, _, _ in rejections]
        if status in _REJECTED and rejections and not is_of_path:
            raise OperationsRejected(rejections)
        raise _error(status, "operations", document)

    async def read(self, path: str, parameters: Iterable[tuple[str, str]]) -> Document:
        """Return the document of a collection."""
        status, document = await self._request(hdrs.METH_GET, path, params=list(parameters))
        match document:
            case {"data": list()} if status == 200:
                return dict(document)
        raise _error(status, path, document)

    async def follow(self, types: Iterable[str], after: str | None) -> AsyncGenerator[ServerEvent]:
        """Yield the events of the change feed, until the connection or the service fails.

        types: of the changes; all if there are none. after: a position, None for the present.
        """
        headers = {hdrs.ACCEPT: EVENT_STREAM} | ({LAST_EVENT_ID: after} if after else {})
        parameters = {TYPES: ",".join(types)} if types else {}
        timeout = ClientTimeout(sock_connect=_TIMEOUT_SECONDS, sock_read=_SILENCE_SECONDS)
        try:
            async with self._session.get(
                "changes", params=parameters, headers=headers, timeout=timeout, read_bufsize=_LINE
            ) as response:
                if response.content_type != EVENT_STREAM:
                    if response.status == 503 and self._has_responded:
                        return
                    raise _error(response.status, "changes", _parsed(await response.read()))
                self._has_responded = True
                fields: dict[bytes, bytes] = {}
                async for line in response.content:
                    name, _, value = line.rstrip(b"\n").partition(b":")
                    if name:
                        fields[name] = value.removeprefix(b" ")
                    elif line == b"\n" and b"data" in fields:
                        yield ServerEvent(fields)
                    if line == b"\n":
                        fields = {}
        except (TimeoutError, ClientError, OSError) as error:
            if not self._has_responded:
                raise _unreachable(error) from None

    async def _request(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Return the status and the document of the response, after repetitions if needed."""
        for delay in self._delays:
            try:
                status, document = await self._send(method, path, **options)
            except TransferError:
                if not self._has_responded:
                    raise
            else:
                codes = {error.get("code") for error in _errors(document)}
                if status != 503 or not self._has_responded or _NO_SPACE in codes:
                    self._has_responded = True
                    return status, document
            await asyncio.sleep(delay)
        return await self._send(method, path, **options)

    async def _send(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        try:
            async with self._session.request(
                method, path, allow_redirects=False, **options
            ) as response:
                body = await response.read()
        except (TimeoutError, ClientError, OSError) as error:
            raise _unreachable(error) from None
        return response.status, _parsed(body)


@asynccontextmanager
async def open_client(url: str, token: str | None) -> AsyncIterator[Client]:
    """Yield a client. url: the base URL of the service. token: an access token."""
    # To compress responses would take more of the service's time than to send them.
    headers = {hdrs.ACCEPT_ENCODING: "identity"}
    if token:
        headers[hdrs.AUTHORIZATION] = f"Bearer {token}"
    timeout = ClientTimeout(total=_TIMEOUT_SECONDS)
    async with ClientSession(f"{url}/", headers=headers, timeout=timeout) as session:
        yield Client(session)


def _unreachable(error: Exception) -> TransferError:
    if isinstance(error, TimeoutError):
        return TransferError(f"no response from the service within {_TIMEOUT_SECONDS} s")
    reason = " ".join(str(error).split())
    return TransferError(f"cannot reach the service (is it running, is --url correct?): {reason}")


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _errors(document: Any) -> list[Document]:
    match document:
        case {"errors": [{"detail": str()}, *_] as errors}:
            return list(errors)
    return []


def _rejection(error: Document) -> Rejection:
    match = _POINTER.fullmatch(str(error.get("source", {}).get("pointer")))
    index, member = (int(match[1]), match[2]) if match else (None, None)
    return index, member, error["detail"]


def _error(status: int, path: str, document: Any) -> TransferError:
    if status == 200:
        return TransferError("not a registry: the response is not a document of one")
    errors = _errors(document)[:1]
    details = [error["detail"] for error in errors]
    failure = ": ".join([f"/{path} failed with status {status}", *details])
    if status == 410 or any(one.get("code") == "invalid_position" for one in errors):
        return Gone(failure + RESTART)
    return TransferError(failure + _REMEDIES.get(status, ""))
