"""Content negotiation (JSON:API 1.0, Content Negotiation)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile
from typing import TypeAlias

from registry.jsonapi.errors import NotAcceptable, UnsupportedMediaType, quoted

MEDIA_TYPE = "application/vnd.api+json"

Parts: TypeAlias = tuple[str, ...]

_ENCODINGS = ("identity", "gzip", "deflate")

# Commas and semicolons inside of quoted strings separate nothing (RFC 9110, 5.6.4).
_LIST_ITEM = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+')
_PART = re.compile(r'(?:[^;"]|"(?:\\.|[^"\\])*"?)+')


def check_content_type(header: str | None, extension: str | None = None) -> None:
    """Raise UnsupportedMediaType unless a body is sent as JSON:API without other parameters.

    extension: the URI of the extension that the body has to be sent with.
    """
    expected = media_type(extension)
    if header is None:
        raise UnsupportedMediaType(f"Send the header `Content-Type: {expected}` with the body.")
    if _split(header) != _split(expected):
        raise _unsupported(header, expected)


def check_parameters(header: str | None, extension: str | None = None) -> None:
    """Raise UnsupportedMediaType if a request names JSON:API with parameters, body or none."""
    if header is None:
        return
    expected, sent = media_type(extension), _split(header)
    if sent[:1] == (MEDIA_TYPE,) and sent[1:] and sent != _split(expected):
        raise _unsupported(header, expected)


def media_type(extension: str | None = None) -> str:
    """Return the media type of JSON:API, with the URI of an extension if one is given."""
    return MEDIA_TYPE if extension is None else f'{MEDIA_TYPE}; ext="{extension}"'


def check_content_encoding(header: str | None) -> None:
    """Raise UnsupportedMediaType if a body is encoded as the service cannot read."""
    if header is not None and header.strip().lower() not in _ENCODINGS:
        raise UnsupportedMediaType(
            f"A body may be encoded as {quoted(*_ENCODINGS)}; this one is {quoted(header)}."
        )


def check_accept(headers: Iterable[str], extension: str | None = None) -> None:
    """Raise NotAcceptable if JSON:API is asked for, but each time with parameters.

    A weight (`q`) is not a parameter of the media type, and the extension, if one is used, may be
    asked for. Other media types are let through: an answer that the client did not ask for is more
    useful to it than none.
    """
    wanted: list[Parts] = [
        _split(item) for header in headers for item in _LIST_ITEM.findall(header)
    ]
    jsonapi = [parts[1:] for parts in wanted if parts[:1] == (MEDIA_TYPE,)]
    known = _split(media_type(extension))[1:]
    if jsonapi and not any(_parameters(parts) in {(), known} for parts in jsonapi):
        raise NotAcceptable(
            f"Every `{MEDIA_TYPE}` in the header `Accept` carries parameters; "
            "send one without, or no `Accept` at all."
        )


def _unsupported(header: str, expected: str) -> UnsupportedMediaType:
    return UnsupportedMediaType(
        f"A body has to be sent here as `Content-Type: {expected}`, exactly so and without "
        f"parameters such as `; charset=utf-8`; this one was {quoted(header)}."
    )


@lru_cache(maxsize=256)  # bounded, as it is the clients who send them; most send the same
def _split(value: str) -> Parts:
    """Return the media type and its parameters in lower case."""
    return tuple(part for part in (raw.strip().lower() for raw in _PART.findall(value)) if part)


def _parameters(parts: Parts) -> Parts:
    # What follows `q` belongs to Accept, not to the media type (RFC 9110, 12.5.1).
    return tuple(takewhile(lambda part: not part.startswith("q="), parts))
