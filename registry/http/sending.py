"""How large bodies are sent: in parts, so that a client that reads slowly holds little memory."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from registry.jsonapi.error_types import Overloaded

MAX_WRITE = 2**18
"""Bytes of a body that are passed to the connection at once: those it buffers for a slow client."""

_RETRY_SECONDS = 5.0


async def write_parts(
    write: Callable[[memoryview], Awaitable[None]], body: bytes | memoryview, size: int
) -> None:
    """Write a body in parts of at most so many bytes, and wait after each for the client."""
    for start in range(0, len(body), size):
        await write(memoryview(body)[start : start + size])


async def send_in_parts(
    request: web.Request, response: web.Response, body: bytes
) -> web.StreamResponse:
    """Send a response, whose body this is; return what was sent."""
    sent = web.StreamResponse(status=response.status, headers=response.headers)
    sent.content_length = len(body)
    await sent.prepare(request)
    await write_parts(sent.write, body, MAX_WRITE)
    await sent.write_eof()
    return sent


class WaitingBytes:
    """Counts the bytes of large bodies that clients have not read yet, in total and per client."""

    def __init__(self, limit: int) -> None:
        """limit: in total; a client may have half of them, or one body of any size."""
        self._limit = limit
        self._of_client = Counter[str]()

    @contextmanager
    def reserved(self, client: str, size: int) -> Iterator[None]:
        """Count a body while it is sent. Raises Overloaded if a limit is reached.

        client: the network of its address. size: in bytes.
        """
        waiting = self._of_client.total()
        of_client = self._of_client[client]
        if waiting + size > self._limit and waiting:
            raise _overloaded(f"{self._limit} bytes")
        if of_client + size > self._limit // 2 and of_client:
            raise _overloaded(f"{self._limit // 2} bytes for this address")
        self._of_client[client] += size
        try:
            yield
        finally:
            self._of_client[client] -= size
            if not self._of_client[client]:
                del self._of_client[client]


def _overloaded(limit: str) -> Overloaded:
    detail = f"Responses that clients have not read yet have reached the limit of {limit}."
    return Overloaded(detail, retry_after=_RETRY_SECONDS)
