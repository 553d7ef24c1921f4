"""The content codings of bodies (RFC 9110, 8.4.1)."""

import zlib

from registry.jsonapi.errors import BodyTooLarge, MalformedRequest

_GZIP, _ZLIB, _RAW_DEFLATE = 31, 15, -15
"""Formats, as the parameter `wbits` of zlib."""


def decoded(body: bytes, encoding: str | None, limit: int) -> bytes:
    """Return a body without its content coding.

    encoding: `gzip`, `deflate`, `identity` or None. limit: bytes of the result, beyond which
    nothing is decoded. Raises BodyTooLarge, or MalformedRequest if the body is not encoded so.
    """
    name = (encoding or "identity").strip().lower()
    if name == "identity":
        return body
    decompressor = zlib.decompressobj(_GZIP if name == "gzip" else _deflate_format(body))
    try:
        result = decompressor.decompress(body, limit + 1)
    except zlib.error as error:
        raise _not_encoded() from error
    if len(result) > limit:
        raise BodyTooLarge(limit)
    if not decompressor.eof or decompressor.unused_data:
        raise _not_encoded()
    return result


def _deflate_format(body: bytes) -> int:
    """Return the format of `deflate`: some clients leave out the header of zlib."""
    return _ZLIB if body[:1] and body[0] & 0xF == zlib.DEFLATED else _RAW_DEFLATE


def _not_encoded() -> MalformedRequest:
    return MalformedRequest("The body cannot be decoded as its headers declare.")
