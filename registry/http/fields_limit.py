"""The limit on the header fields of a request, and on the trailers of its body."""

from collections.abc import Sequence
from typing import TypeAlias

from aiohttp import StreamReader
from aiohttp.http import HttpProcessingError, HttpRequestParser, RawRequestMessage

_Parsed: TypeAlias = tuple[Sequence[tuple[RawRequestMessage, StreamReader]], bool, bytes]


class FieldsTooLarge(HttpProcessingError):
    """The fields exceed the limit; what follows them is discarded."""


class FieldsLimit:
    """A parser of requests that refuses fields before all of them have arrived.

    aiohttp limits each field and their number, which allows a head of 1 MB, and an incomplete head
    takes twice its size in memory. max_bytes: without the request target, which has its own limit.
    """

    def __init__(self, parser: HttpRequestParser, max_bytes: int) -> None:
        self._parser: HttpRequestParser | None = parser
        self._max_bytes = max_bytes
        self._size = 0  # of what has arrived since the last request, or part of a body
        self._has_target = False
        self._body: StreamReader | None = None  # of the last request
        self._body_size = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether fields have been refused."""
        return self._parser is None

    def pause_reading(self) -> None:
        """Parse no further part of the body until data is fed again."""
        if self._parser is not None:
            self._parser.pause_reading()

    def message_consumed(self) -> None:
        """Count a request that is no longer waiting."""
        if self._parser is not None:
            self._parser.message_consumed()

    def set_upgraded(self, val: bool) -> None:
        """Tell the parser whether another protocol follows."""
        if self._parser is not None:
            self._parser.set_upgraded(val)

    def feed_data(self, data: bytes) -> _Parsed:
        """Parse what has arrived. Raises FieldsTooLarge, or what the parser raises."""
        if self._parser is None:
            return (), False, b""
        parsed = self._parser.feed_data(data)
        if requests := parsed[0]:
            self._body = requests[-1][1]
        body_size = 0 if self._body is None else self._body.total_bytes
        if requests or body_size != self._body_size:
            self._body_size, self._size, self._has_target = body_size, 0, False
            return parsed
        # Empty lines, of two bytes, may precede a request (RFC 9112, 2.2).
        start = 0 if self._has_target else data.find(b"\n", 2) + 1
        self._has_target = self._has_target or start > 0
        self._size += len(data) - start if self._has_target else 0
        if self._size > self._max_bytes:
            self._parser = None  # its memory is free while the client reads the response
            raise FieldsTooLarge
        return parsed


def size_of(fields: Sequence[tuple[bytes, bytes]]) -> int:
    """Return the bytes of fields in a head, from their names and values."""
    return sum([len(name) + len(value) + 4 for name, value in fields])
