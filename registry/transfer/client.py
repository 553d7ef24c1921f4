"""The HTTP client of the service: executes atomic operations and finds resources."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout, hdrs

from registry.http.responses import IDEMPOTENCY_KEY
from registry.jsonapi.content_negotiation import media_type
from registry.jsonapi.operation_documents import EXTENSION, OPERATIONS, RESULTS
from registry.transfer.operations import Operation

_TIMEOUT_SECONDS = 30
_DELAYS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before a request is repeated: a service that restarts is back within them."""

_REJECTED = {400, 404, 409, 413, 422}
"""Statuses of operations that the service will never accept."""

_NOTHING_CHANGED = 412
_NO_SPACE = "disk_full"
_POINTER = re.compile(rf"/{OPERATIONS}/(\d+)(?:/.*?)?(?:/([^/]*))?")


class TransferError(Exception):
    """The run cannot continue; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the service rejects an operation. index: None if it rejects all of them."""

    index: int | None
    reason: str


class OperationsRejected(Exception):
    """The service rejects a request, of which nothing was executed."""

    def __init__(self, rejections: Sequence[Rejection]) -> None:
        super().__init__(rejections[0].reason)
        self.rejections = rejections


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
        self, operations: Sequence[Operation], *, is_dry: bool = False
    ) -> list[Mapping[str, Any]]:
        """Execute all operations or none; return their results (Atomic Operations, Results).

        is_dry: only checks them, which has no results. Raises OperationsRejected.
        """
        headers = {hdrs.CONTENT_TYPE: media_type(EXTENSION), IDEMPOTENCY_KEY: uuid4().hex}
        if is_dry:
            # The path has no entity tag, so no request with this header is executed; the service
            # reports errors of the document before.
            headers[hdrs.IF_MATCH] = "*"
        body = orjson.dumps({OPERATIONS: operations})
        status, document = await self._request(
            hdrs.METH_POST, "operations", data=body, headers=headers
        )
        if status == 200:
            results = document.get(RESULTS) if isinstance(document, dict) else None
            if isinstance(results, list) and len(results) == len(operations):
                return results
            raise _not_a_registry()
        if is_dry and status == _NOTHING_CHANGED:
            return []
        if status in _REJECTED and (rejections := _rejections(document, status)):
            raise OperationsRejected(rejections)
        raise _error(status, "operations", document)

    async def find(self, path: str, parameters: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """Return the resources of a collection that satisfy the parameters."""
        status, document = await self._request(hdrs.METH_GET, path, params=parameters)
        if status != 200:
            raise _error(status, path, document)
        match document:
            case {"data": list(resources)}:
                return resources
        raise _not_a_registry()

    async def _request(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Return the status and the document of the response, after repetitions if needed."""
        for delay in self._delays:
            try:
                status, document = await self._send(method, path, **options)
            except TransferError:
                if not self._has_responded:
                    raise
            else:
                if status != 503 or not self._has_responded or _NO_SPACE in _codes(document):
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
        except TimeoutError:
            raise TransferError(
                f"no response from the service within {_TIMEOUT_SECONDS} s"
            ) from None
        except (ClientError, OSError) as error:
            reason = " ".join(str(error).split())
            raise TransferError(
                f"cannot reach the service (is it running, is --url correct?): {reason}"
            ) from None
        try:
            return response.status, orjson.loads(body)
        except orjson.JSONDecodeError:
            if response.status == 200:
                raise _not_a_registry() from None
            return response.status, None


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


def _errors(document: Any) -> list[Mapping[str, Any]]:
    errors = document.get("errors") if isinstance(document, dict) else None
    return [one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []


def _codes(document: Any) -> set[Any]:
    return {error.get("code") for error in _errors(document)}


def _rejections(document: Any, status: int) -> list[Rejection]:
    rejections = [_rejection(error) for error in _errors(document)]
    # Without a pointer, what is missing is the path.
    is_wrong_path = status == 404 and any(each.index is None for each in rejections)
    return [] if is_wrong_path else rejections


def _rejection(error: Mapping[str, Any]) -> Rejection:
    detail = str(error.get("detail"))
    source = error.get("source")
    pointer = source.get("pointer") if isinstance(source, dict) else None
    match = _POINTER.fullmatch(str(pointer))
    if match is None:
        return Rejection(None, detail)
    member = match[2]
    return Rejection(int(match[1]), f"{member}: {detail}" if member else detail)


def _error(status: int, path: str, document: Any) -> TransferError:
    details = [str(error.get("detail")) for error in _errors(document)]
    return TransferError(": ".join([f"/{path} failed with status {status}", *details[:1]]))


def _not_a_registry() -> TransferError:
    return TransferError("not a registry: the response is not a document of one")
