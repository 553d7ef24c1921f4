"""`page` -> the part of a collection to answer with (JSON:API 1.0, Pagination; cursor profile)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import unquote_plus

from registry.jsonapi.cursors import END, Cursors, Position
from registry.jsonapi.errors import InvalidParameter, PageTooLarge, RangeNotSupported, quoted
from registry.jsonapi.sorting import Order
from registry.model.record import MAX_ID, Record
from registry.model.resource import Resource

MEMBERS = ("number", "size", "after", "before", "total")
"""The members of `page` that choose a page of the primary data."""

_PAGE = re.compile(rf"page\[(?:{'|'.join(MEMBERS)})\]")
_POSITIVE = re.compile("0*([1-9][0-9]*)")
_MOST_DIGITS = 20
"""A number of so many digits is beyond all bounds, whatever digits follow."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many resources a page has: when the request does not say, and at most."""

    default: int
    largest: int


@dataclass(frozen=True, slots=True)
class NumberedPage:
    """The page with a number, from 1; total: whether to count how many there are in all."""

    number: int
    size: int
    total: bool = True


@dataclass(frozen=True, slots=True)
class CursorPage:
    """The resources that follow a position, or that precede it; without one, the first.

    cursors: makes and reads the cursors of this order.
    """

    size: int
    cursors: Cursors
    position: Position | None = None
    backwards: bool = False


Page: TypeAlias = NumberedPage | CursorPage


@dataclass(frozen=True, slots=True)
class Window:
    """What a page holds. more: whether others follow in the direction of the page.

    first, last: the positions of its ends; None when it is empty. total: of all pages, if counted.
    """

    records: Sequence[Record]
    more: bool
    first: Position | None = None
    last: Position | None = None
    total: int | None = None


def parse_page(sent: Mapping[str, str], sizes: Sizes, resource: Resource, order: Order) -> Page:
    """Return the page that a request asks for.

    sent: the members of `page` by name, at least one. Raises PageTooLarge, RangeNotSupported, or
    InvalidParameter for a value that has no meaning or members that do not go together.
    """
    size = parse_size(sent["size"], "page[size]", sizes) if "size" in sent else sizes.default
    cursors = {"after", "before"} & sent.keys()
    if "number" in sent:
        if cursors:
            raise InvalidParameter(
                f"A page has a number or a cursor, not both as here with {quoted(*cursors)}.",
                parameter="page[number]",
            )
        return NumberedPage(_number(sent["number"], size), size, _total(sent.get("total", "true")))
    if "total" in sent:
        raise InvalidParameter(
            "`page[total]` requires `page[number]`, because a page by cursor is not counted. Send "
            "`page[number]=1` for the total, or leave `page[total]` unset.",
            parameter="page[total]",
        )
    if len(cursors) > 1:
        raise RangeNotSupported
    codec = Cursors(resource.type, order)
    for member in cursors:
        position = codec.decode(sent[member], f"page[{member}]")
        return CursorPage(size, codec, position, backwards=member == "before")
    return CursorPage(size, codec)


def parse_size(value: str, parameter: str, sizes: Sizes) -> int:
    """Return the size of a page. Raises PageTooLarge, or InvalidParameter if it is no size."""
    size = _positive(value, parameter)
    if size > sizes.largest:
        raise PageTooLarge(parameter, sizes.largest)
    return size


def page_links(page: Page, window: Window, url: str) -> dict[str, str | None]:
    """Return `first`, `last`, `prev` and `next`; null where there is no such page.

    url: of this page; all of its other parameters are kept. `last` is absent when the number of
    the last page is not known.
    """
    base = _without_page(url)
    if isinstance(page, CursorPage):
        return _cursor_links(page, window, base)
    links = {"first": _numbered(base, page, 1)}
    if window.total is None:
        earlier = page.number - 1
    else:
        last = max(1, -(-window.total // page.size))
        earlier = min(page.number - 1, last)
        links["last"] = _numbered(base, page, last)
    return {
        **links,
        "prev": _numbered(base, page, earlier) if earlier else None,
        "next": _numbered(base, page, page.number + 1) if window.more else None,
    }


def _without_page(url: str) -> str:
    """Return the URL as far as the members of `page`, which are to follow."""
    path, _, query = url.partition("?")
    kept = [
        f"{part}&" for part in query.split("&") if part and not _is_page(part.partition("=")[0])
    ]
    return f"{path}?{''.join(kept)}"


@lru_cache(maxsize=256)  # bounded, as it is the clients who choose the names
def _is_page(name: str) -> bool:
    return _PAGE.fullmatch(unquote_plus(name)) is not None


def _with_page(base: str, **members: str | int) -> str:
    # Cursors, numbers and words hold nothing that would have to be encoded.
    return base + "&".join([f"page%5B{name}%5D={value}" for name, value in members.items()])


def _cursor_links(page: CursorPage, window: Window, base: str) -> dict[str, str | None]:
    """Return the links of the cursor profile; an end that nothing lies beyond has none."""

    def link(**member: Position) -> str:
        cursors = {name: page.cursors.encode(position) for name, position in member.items()}
        return _with_page(base, size=page.size, **cursors)

    first, last = link(), link(before=END)
    if page.backwards:
        at_end = page.position == END
        following = link(after=window.last) if window.last is not None else first
        return {
            "first": first,
            "last": last,
            "prev": link(before=window.first) if window.more and window.first else None,
            "next": None if at_end else following,
        }
    preceding = link(before=window.first) if window.first is not None else last
    return {
        "first": first,
        "last": last,
        "prev": None if page.position is None else preceding,
        "next": link(after=window.last) if window.more and window.last else None,
    }


def _numbered(base: str, page: NumberedPage, number: int) -> str:
    uncounted = {} if page.total else {"total": "false"}
    return _with_page(base, number=number, size=page.size, **uncounted)


def _number(value: str, size: int) -> int:
    number = _positive(value, "page[number]")
    if (number - 1) * size > MAX_ID:
        raise InvalidParameter("There cannot be so many pages.", parameter="page[number]")
    return number


def _positive(value: str, parameter: str) -> int:
    found = _POSITIVE.fullmatch(value)
    if found is None:
        raise InvalidParameter(
            f"{quoted(parameter)} is a positive integer, not {quoted(value)}.", parameter=parameter
        )
    return int(found[1][:_MOST_DIGITS])


def _total(value: str) -> bool:
    if value not in {"true", "false"}:
        raise InvalidParameter(
            f"`page[total]` is `true` or `false`, not {quoted(value)}.", parameter="page[total]"
        )
    return value == "true"
