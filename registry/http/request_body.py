"""The body of a request: received within limits of size and time, and decoded."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterator

from aiohttp import StreamReader, hdrs, web
from aiohttp.http import HttpVersion11

from registry.http.app_keys import DEADLINES, LIMITS, Limits
from registry.http.sending import GZIP_FORMAT
from registry.jsonapi import content_negotiation
from registry.jsonapi.error_types import BodyTooLarge, MalformedRequest, RequestTimeout

_MAX_PIECE = 2**17
"""Bytes that are decompressed at once of a body that arrives in pieces."""

_UNDECODABLE = "The body cannot be decoded as its headers declare."


async def read_body(request: web.Request, extension: str | None = None) -> bytes:
    """Return the body, decoded.

    extension: the URI that the media type must name. Raises UnsupportedMediaType, BodyTooLarge,
    RequestTimeout, MalformedRequest.
    """
    content_negotiation.check_content_type(request.headers.get(hdrs.CONTENT_TYPE), extension)
    content_negotiation.check_content_encoding(request.headers.get(hdrs.CONTENT_ENCODING))
    limits, size = request.app[LIMITS], request.content_length
    _check_transfer(request)
    if size is not None and size > limits.body_bytes:
        raise BodyTooLarge(limits.body_bytes)
    try:
        body = await _receive(request, limits)
    except TimeoutError as error:
        raise RequestTimeout(limits.arrival_seconds) from error
    except web.RequestPayloadError as error:
        raise MalformedRequest(_UNDECODABLE) from error
    if len(body) > limits.body_bytes:
        raise BodyTooLarge(limits.body_bytes)
    if encoding := request.headers.get(hdrs.CONTENT_ENCODING):
        return decoded(body, encoding, limits.body_bytes)
    return body


async def body_pieces(request: web.Request) -> AsyncGenerator[bytes]:
    """Yield the body, decoded, in pieces of at most a few hundred kB, while it arrives.

    It may take any time, but each piece has a limit. Raises UnsupportedMediaType, RequestTimeout,
    MalformedRequest.
    """
    encoding = request.headers.get(hdrs.CONTENT_ENCODING)
    content_negotiation.check_content_encoding(encoding)
    _check_transfer(request)
    seconds, content = request.app[LIMITS].arrival_seconds, request.content
    is_gzip = encoding is not None and not _is_identity(encoding)
    decompressor = zlib.decompressobj(GZIP_FORMAT) if is_gzip else None
    try:
        if not content.is_eof():
            await _ask_for_body(request)
        while not content.at_eof():
            async with asyncio.timeout(seconds):
                piece = await content.readany()
            if decompressor is None:
                yield piece
            else:
                for part in _inflated(piece, decompressor):
                    yield part
    except TimeoutError as error:
        raise RequestTimeout(seconds) from error
    except (web.RequestPayloadError, zlib.error) as error:
        raise MalformedRequest(_UNDECODABLE) from error
    if decompressor is not None:
        _require_complete(decompressor)


def _inflated(piece: bytes, decompressor: "zlib._Decompress") -> Iterator[bytes]:
    """Yield what a piece of gzip decompresses to, in bounded pieces."""
    rest = piece
    while rest:
        yield decompressor.decompress(rest, _MAX_PIECE)
        rest = decompressor.unconsumed_tail


def _is_identity(encoding: str) -> bool:
    return encoding.strip().lower() == "identity"


def _require_complete(decompressor: "zlib._Decompress") -> None:
    """Raise MalformedRequest unless a body was one member of gzip (RFC 1952, 2.2)."""
    if not decompressor.eof or decompressor.unused_data:
        raise MalformedRequest(_UNDECODABLE)


def _check_transfer(request: web.Request) -> None:
    coding = request.headers.get(hdrs.TRANSFER_ENCODING, "chunked")
    # aiohttp would pass the body on.
    if request.content_length is None and coding.strip().lower() != "chunked":
        raise MalformedRequest("The only supported `Transfer-Encoding` is `chunked`.")


async def _ask_for_body(request: web.Request) -> None:
    """Send the interim response that the client may wait for (RFC 9110, 10.1.1)."""
    if hdrs.EXPECT in request.headers and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # of the response, which has not begun


async def _receive(request: web.Request, limits: Limits) -> bytes:
    content = request.content
    if content.is_eof():  # most arrive with the head: creating takes 7.5 % more CPU otherwise
        return content.read_nowait()
    deadlines = request.app[DEADLINES]
    deadlines.stop()
    async with asyncio.timeout(limits.arrival_seconds):
        await _ask_for_body(request)
        body = await _receive_rest(content, limits.body_bytes)
    deadlines.start()
    return body


async def _receive_rest(content: StreamReader, limit: int) -> bytes:
    """Return the body, or more than a limit; `Request.read` would keep it for the connection."""
    body = bytearray()
    while not content.at_eof() and len(body) <= limit:
        body += await content.readany()
    return bytes(body)


def decoded(body: bytes, encoding: str, limit: int) -> bytes:
    """Return a body without its content coding, `gzip` or `identity`, of at most `limit` bytes.

    Raises BodyTooLarge, or MalformedRequest unless it is one member of gzip (RFC 1952, 2.2).
    """
    if _is_identity(encoding):
        return body
    decompressor = zlib.decompressobj(GZIP_FORMAT)
    try:
        result = decompressor.decompress(body, limit + 1)
    except zlib.error as error:
        raise MalformedRequest(_UNDECODABLE) from error
    if len(result) > limit:
        raise BodyTooLarge(limit)
    _require_complete(decompressor)
    return result
