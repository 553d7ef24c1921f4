"""Content negotiation (JSON:API 1.0, Content Negotiation)."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile
from typing import TypeAlias

from registry.jsonapi.error_details import quoted
from registry.jsonapi.errors import NotAcceptable, UnsupportedMediaType

MEDIA_TYPE = "application/vnd.api+json"

Parts: TypeAlias = tuple[str, ...]

_ENCODINGS = ("identity", "gzip", "deflate")

# Commas and semicolons inside quoted strings are not separators (RFC 9110, 5.6.4).
_LIST_ITEM = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+')
_WEIGHT = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")
_PART = re.compile(r'(?:[^;"]|"(?:\\.|[^"\\])*"?)+')


def check_content_type(header: str | None, extension: str | None = None) -> None:
    """Raise UnsupportedMediaType unless the body is JSON:API without further parameters.

    extension: the URI of the extension that the body must apply.
    """
    expected = media_type(extension)
    if header is None:
        raise UnsupportedMediaType(f"The header `Content-Type: {expected}` is missing.")
    if _split(header) != _split(expected):
        raise _unsupported(header, expected)


def check_parameters(header: str | None, extension: str | None = None) -> None:
    """Raise UnsupportedMediaType if `Content-Type` is JSON:API with other parameters.

    Applies to requests without a body too.
    """
    if header is None:
        return
    expected, parts = media_type(extension), _split(header)
    if parts[:1] == (MEDIA_TYPE,) and parts[1:] and parts != _split(expected):
        raise _unsupported(header, expected)


def media_type(extension: str | None = None) -> str:
    """Return the media type of JSON:API, with the URI of an extension if one is applied."""
    return MEDIA_TYPE if extension is None else f'{MEDIA_TYPE}; ext="{extension}"'


def check_content_encoding(header: str | None) -> None:
    """Raise UnsupportedMediaType if the encoding of the body is not supported."""
    if header is not None and header.strip().lower() not in _ENCODINGS:
        detail = f"Unsupported encoding {quoted(header)}; supported: {quoted(*_ENCODINGS)}."
        raise UnsupportedMediaType(detail)


def check_accept(headers: Iterable[str], extension: str | None = None) -> None:
    """Raise NotAcceptable if `Accept` names JSON:API, but only with unsupported parameters.

    A weight (`q`) is not a media type parameter, and the extension, if any, is supported. Other
    media types are ignored: RFC 9110 allows a response that is not acceptable in place of a 406.
    """
    jsonapi = [parts[1:] for parts in _split_list(headers) if parts[0] == MEDIA_TYPE]
    # Parameters from `q` on belong to Accept, not to the media type (RFC 9110, 12.5.1).
    parameters = {tuple(takewhile(lambda part: not part.startswith("q="), one)) for one in jsonapi}
    if jsonapi and parameters.isdisjoint({(), _split(media_type(extension))[1:]}):
        raise NotAcceptable(
            f"Every `{MEDIA_TYPE}` in the header `Accept` has parameters; "
            "send one without parameters, or no `Accept`."
        )


def prefers_html(headers: Iterable[str]) -> bool:
    """Return whether `Accept` names `text/html`, as browsers do, and not JSON:API."""
    weights = {parts[0]: _weight(parts) for parts in _split_list(headers)}
    return weights.get("text/html", 0.0) > 0 and MEDIA_TYPE not in weights


@lru_cache(maxsize=256)  # bounded, because clients choose the values
def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether a value of `Accept-Encoding` prefers gzip to no coding (RFC 9110, 12.5.3)."""
    weights = {parts[0]: _weight(parts) for parts in _split_list([accept_encoding])}
    names = (name for name in ("gzip", "x-gzip", "*") if name in weights)
    gzip = weights.get(next(names, ""), 0.0)
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


def _split_list(headers: Iterable[str]) -> list[Parts]:
    """Return each item of a list in a header with its parameters."""
    items = [_split(item) for header in headers for item in _LIST_ITEM.findall(header)]
    return [parts for parts in items if parts]


def _weight(parts: Parts) -> float:
    """Return the weight of an item of a list (RFC 9110, 12.4.2)."""
    weights = (match[1] for match in map(_WEIGHT.fullmatch, parts[1:]) if match)
    return float(next(weights, 1))


def _unsupported(header: str, expected: str) -> UnsupportedMediaType:
    return UnsupportedMediaType(
        f"The body must be sent as `Content-Type: {expected}`, without other parameters such as "
        f"`; charset=utf-8`, not as {quoted(header)}."
    )


@lru_cache(maxsize=256)  # bounded, because clients choose the values
def _split(value: str) -> Parts:
    """Return the media type and its parameters, in lower case."""
    return tuple(part for part in (raw.strip().lower() for raw in _PART.findall(value)) if part)
