"""Content negotiation (JSON:API 1.0, Content Negotiation)."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import TypeAlias

from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import NotAcceptable, UnsupportedMediaType
from registry.protocol import CSV_TYPE, MEDIA_TYPE, media_type

Parts: TypeAlias = tuple[str, ...]

HTML = "text/html"

_ENCODINGS = ("identity", "gzip")

_JSONAPI_RANGES = (MEDIA_TYPE, "application/*", "*/*")
"""The media ranges with JSON:API, the most specific first."""

_GZIP_OR_NONE = ("gzip", "x-gzip", "*", "identity")

_MAX_CACHED = 2**8
"""Characters of a list that is kept, with its items: an attacker would fill the memory with more.
A browser sends about 130."""

# Commas and semicolons inside quoted strings are not separators (RFC 9110, 5.6.4). No match fails
# after it has begun, so each takes linear time.
_LIST_ITEM = re.compile(r'(?:[^,"]+|"(?:[^"\\]+|\\.)*"?)+')
_WEIGHT = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")
_PART = re.compile(r'(?:[^;"]+|"(?:[^"\\]+|\\.)*"?)+')


def check_content_type(header: str | None, extension: str | None = None) -> None:
    """Raise UnsupportedMediaType unless the body is JSON:API with just this extension."""
    expected = media_type(extension)
    if header is None:
        raise UnsupportedMediaType(f"The header `Content-Type: {expected}` is missing.")
    if header != expected and _split(header) != _split(expected):
        raise UnsupportedMediaType(
            f"The body must be sent as `Content-Type: {expected}`, without other parameters such "
            f"as `; charset=utf-8`, not as {quoted(header)}."
        )


def csv_charset(header: str | None) -> str | None:
    """Return the encoding of a CSV file, by default UTF-8; None for another media type."""
    if header is None or not header.lstrip().lower().startswith(CSV_TYPE):
        return None
    name, *parameters = _split(header)
    if name != CSV_TYPE:
        return None
    named = (part.partition("=")[2] for part in parameters if part.startswith("charset="))
    return next(named, "utf-8").strip('"')


def check_parameters(header: str, extension: str | None = None) -> None:
    """Raise UnsupportedMediaType if `Content-Type` is JSON:API with others, even without a body."""
    name, *parameters = _split(header) or [""]
    if name == MEDIA_TYPE and parameters:
        check_content_type(header, extension)


def check_content_encoding(header: str | None) -> None:
    """Raise UnsupportedMediaType if the encoding of the body is not supported."""
    if header is not None and header.strip().lower() not in _ENCODINGS:
        detail = f"Unsupported encoding {quoted(header)}; supported: {quoted(*_ENCODINGS)}."
        # RFC 9110, 15.5.16
        raise UnsupportedMediaType(detail, headers={"Accept-Encoding": ", ".join(_ENCODINGS)})


def check_accept(headers: Sequence[str], extension: str | None = None) -> None:
    """Raise NotAcceptable if `Accept` names JSON:API, but only with unsupported parameters.

    A weight (`q`) is not a media type parameter, and the extension, if any, is supported. Other
    media types are ignored: RFC 9110 allows a response that is not acceptable in place of a 406.
    """
    jsonapi = [parts[1:] for parts in _items(headers, MEDIA_TYPE)]
    # Parameters from `q` on belong to Accept, not to the media type (RFC 9110, 12.5.1).
    parameters = {
        tuple(takewhile(lambda part: not part.startswith("q="), parts)) for parts in jsonapi
    }
    if jsonapi and () not in parameters and _split(media_type(extension))[1:] not in parameters:
        raise NotAcceptable(
            f"Every `{MEDIA_TYPE}` in the header `Accept` has parameters; "
            "send one without parameters, or no `Accept`."
        )


def prefers(name: str, headers: Sequence[str]) -> bool:
    """Return whether `Accept` names a media type, and prefers it to JSON:API (RFC 9110, 12.5.1).

    Of equal weights, that of JSON:API precedes if it is named, but not that of a range such as
    `*/*`.
    """
    weights: dict[str, float] = {}
    for parts in _items(headers, name, *_JSONAPI_RANGES):
        weights[parts[0]] = max(_weight(parts), weights.get(parts[0], 0.0))
    weight = weights.pop(name, 0.0)
    most_specific = next(
        (media_range for media_range in _JSONAPI_RANGES if media_range in weights), None
    )
    other = weights.get(most_specific or "", 0.0)
    return weight > other or (weight == other > 0 and most_specific != MEDIA_TYPE)


def accepts_gzip(accept_encoding: Sequence[str]) -> bool:
    """Return whether `Accept-Encoding` prefers gzip to no coding (RFC 9110, 12.5.3)."""
    weights = {parts[0]: _weight(parts) for parts in _items(accept_encoding, *_GZIP_OR_NONE)}
    names = (name for name in ("gzip", "x-gzip", "*") if name in weights)
    gzip = weights.get(next(names, ""), 0.0)
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


def first_parts(headers: Sequence[str]) -> Iterator[str]:
    """Yield the items of a list in a header without their parameters (RFC 9110, 5.6)."""
    for item in _LIST_ITEM.findall(",".join(headers)):
        yield from _PART.findall(item)[:1]


def _items(headers: Sequence[str], *names: str) -> list[Parts]:
    """Return the items of a list in a header that have these names, with their parameters."""
    found: list[Parts] = []
    for header in headers:
        find = _find_items if len(header) <= _MAX_CACHED else _find_items.__wrapped__
        found += find(header, names)
    return found


@lru_cache(maxsize=256)  # bounded, because clients choose the values
def _find_items(header: str, names: tuple[str, ...]) -> list[Parts]:
    found = [item for item in _LIST_ITEM.findall(header) if item.lstrip().lower().startswith(names)]
    return [parts for parts in map(_split, found) if parts[0] in names]


def _weight(parts: Parts) -> float:
    """Return the weight of an item of a list (RFC 9110, 12.4.2)."""
    weights = (match[1] for match in map(_WEIGHT.fullmatch, parts[1:]) if match)
    return float(next(weights, 1))


def _split(value: str) -> Parts:
    """Return the media type and its parameters, in lower case."""
    return tuple(part for part in (raw.strip().lower() for raw in _PART.findall(value)) if part)
