"""Compression with gzip, which all clients that accept any coding accept."""

import zlib

from aiohttp import hdrs, web

from registry.http.app_keys import SETTINGS
from registry.jsonapi.content_negotiation import accepts_gzip
from registry.offloading import MAX_INLINE_BYTES, offload

GZIP = "gzip"
"""The name of the content coding (RFC 9110, 8.4.1.3)."""

MIN_BYTES = 1_000
"""Smaller bodies fit into one packet, whether they are compressed or not."""

_LEVEL = 3
"""The level of zlib. Level 1 saves a tenth of the time for a fifth more bytes; level 6 takes twice
the time for an eighth fewer."""

GZIP_FORMAT = 31  # as the parameter `wbits` of zlib


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
    return await _compressed(zlib.compressobj(level, wbits=GZIP_FORMAT), body, zlib.Z_FINISH)


class GzipWriter:
    """Writes a body to a response, which is not prepared yet, in compressed pieces."""

    def __init__(self, response: web.StreamResponse) -> None:
        response.headers[hdrs.CONTENT_ENCODING] = GZIP
        self._response = response
        self._compressor = zlib.compressobj(_LEVEL, wbits=GZIP_FORMAT)

    async def write(self, piece: bytes | memoryview) -> None:
        """Write a whole piece: no part of it waits for the next piece, which may take seconds."""
        await self._response.write(await _compressed(self._compressor, piece, zlib.Z_SYNC_FLUSH))

    async def write_eof(self) -> None:
        """Write the end of the body."""
        await self._response.write_eof(self._compressor.flush())


async def _compressed(compressor: "zlib._Compress", piece: bytes | memoryview, mode: int) -> bytes:
    def compress() -> bytes:
        return compressor.compress(piece) + compressor.flush(mode)

    return await offload(compress, size=len(piece), limit=MAX_INLINE_BYTES)
