"""The content codings of bodies (RFC 9110, 8.4.1)."""

import zlib

from registry.jsonapi.error_types import BodyTooLarge, MalformedRequest

_GZIP, _ZLIB, _RAW_DEFLATE = 31, 15, -15
"""Formats, as the parameter `wbits` of zlib."""

MAX_MEMBERS = 50
"""Gzip members (RFC 1952, 2.2) that a body may have: each one copies the rest of the body."""


def decoded(body: bytes, encoding: str | None, limit: int) -> bytes:
    """Return a body without its content coding.

    encoding: `gzip`, `deflate`, `identity` or None. limit: bytes of the result, beyond which
    nothing is decoded. Raises BodyTooLarge, or MalformedRequest if the body is not encoded so, or
    has more than MAX_MEMBERS members of gzip.
    """
    name = (encoding or "identity").strip().lower()
    if name == "identity":
        return body
    is_gzip = name == "gzip"
    wbits = _GZIP if is_gzip else _deflate_format(body)
    result = b""
    for _ in range(MAX_MEMBERS if is_gzip else 1):
        part, body = _decompress(body, wbits, limit + 1 - len(result))
        result += part
        if len(result) > limit:
            raise BodyTooLarge(limit)
        if not body:
            return result
    if is_gzip:
        raise MalformedRequest(f"The body has more than {MAX_MEMBERS} members of gzip.")
    raise undecodable()


def _decompress(data: bytes, wbits: int, max_length: int) -> tuple[bytes, bytes]:
    """Return the result of the first stream in the data, up to a length, and what follows it."""
    decompressor = zlib.decompressobj(wbits)
    try:
        result = decompressor.decompress(data, max_length)
    except zlib.error as error:
        raise undecodable() from error
    if not decompressor.eof and len(result) < max_length:
        raise undecodable()
    return result, decompressor.unused_data


def _deflate_format(body: bytes) -> int:
    """Return the format of `deflate`: some clients leave out the header of zlib."""
    return _ZLIB if body[:1] and body[0] & 0xF == zlib.DEFLATED else _RAW_DEFLATE


def undecodable() -> MalformedRequest:
    """Return the error for a body that is not encoded as its headers declare."""
    return MalformedRequest("The body cannot be decoded as its headers declare.")
