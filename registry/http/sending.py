"""How bodies are sent: compressed, in parts, and within a limit of what waits for slow clients."""

import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from aiohttp import hdrs, web

from registry.http.app_keys import SETTINGS
from registry.jsonapi.content_negotiation import accepts_gzip
from registry.jsonapi.error_types import Overloaded, retry_after
from registry.offloading import MAX_INLINE_BYTES, offload
from registry.storage import Snapshot

GZIP = "gzip"
"""The name of the content coding (RFC 9110, 8.4.1.3): clients that accept any coding accept it."""

MIN_BYTES = 1_000
"""Smaller bodies fit into one packet, whether they are compressed or not."""

MAX_WRITE = 2**18
"""Bytes of a body that are passed to the connection at once: those it buffers for a slow client."""

_LEVEL = 3
"""The level of zlib. Level 1 saves a tenth of the time for a fifth more bytes; level 6 takes twice
the time for an eighth fewer."""

GZIP_FORMAT = 31  # as the parameter `wbits` of zlib

_RETRY_SECONDS = 5.0


class Streamed(web.StreamResponse):
    """A response whose body is made while it is sent.

    pieces: of the body; closed at the end. What they raise before the first MIN_BYTES have been
    made becomes an error document; later, it resets the connection. snapshot: what they read; None
    for a write.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes],
        snapshot: Snapshot | None,
        status: int,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.pieces, self.snapshot = pieces, snapshot

    async def beginning(self) -> bytes:
        """Make and return the first pieces, with at least MIN_BYTES unless they are all."""
        begun = bytearray()
        async for piece in self.pieces:
            begun += piece
            if len(begun) >= MIN_BYTES:
                break
        return bytes(begun)

    async def send(self, request: web.Request, beginning: bytes) -> None:
        """Send the response: what was made already, then the other pieces."""
        is_compressed = self.headers.get(hdrs.CONTENT_ENCODING) == GZIP
        compressor = zlib.compressobj(_LEVEL, wbits=GZIP_FORMAT) if is_compressed else None

        async def write(piece: bytes) -> None:
            if compressor is not None:
                compress = partial(_compressed_piece, compressor, piece)
                piece = await offload(compress, size=len(piece), limit=MAX_INLINE_BYTES)
            await write_parts(self.write, piece, MAX_WRITE)

        await self.prepare(request)
        await write(beginning)
        async for piece in self.pieces:
            await write(piece)
        await self.write_eof(b"" if compressor is None else compressor.flush())


def _compressed_piece(compressor: "zlib._Compress", piece: bytes) -> bytes:
    """Return all of a piece: no part of it waits for the next one, which may take seconds."""
    return compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH)


def compresses(request: web.Request, size: int) -> bool:
    """Return whether a response with a body of so many bytes is to be compressed."""
    if size < MIN_BYTES:
        return False
    accepted = request.headers.getall(hdrs.ACCEPT_ENCODING, ())
    if not accepted or not accepts_gzip(accepted):
        return False
    return bool(request.config_dict[SETTINGS].compression == "on")


async def gzipped(body: bytes, level: int = _LEVEL) -> bytes:
    """Return a compressed body: equal bytes for equal bodies, as entity tags promise."""
    compress = partial(zlib.compress, body, level, GZIP_FORMAT)
    return await offload(compress, size=len(body), limit=MAX_INLINE_BYTES)


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
        for waiting, limit, whose in (
            (self._of_client.total(), self._limit, ""),
            (self._of_client[client], self._limit // 2, " for this address"),
        ):
            if waiting and waiting + size > limit:
                raise Overloaded(
                    "Responses that clients have not read yet have reached the limit of "
                    f"{limit} bytes{whose}.",
                    headers=retry_after(_RETRY_SECONDS),
                )
        self._of_client[client] += size
        try:
            yield
        finally:
            self._of_client[client] -= size
            if not self._of_client[client]:
                del self._of_client[client]
