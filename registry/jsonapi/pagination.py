"""`sort` and `page` -> the order and the page of a collection, and cursors (JSON:API 1.0)."""

import datetime
import decimal
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote_plus

import orjson

from registry.jsonapi.error_objects import ErrorCollector, quoted
from registry.jsonapi.error_types import InvalidParameter, PageTooLarge, RangeNotSupported
from registry.model.graph import Graph
from registry.model.record import MAX_ID, Record
from registry.model.resource_field import ResourceField
from registry.model.resource_type import ID_FIELD, Relationship, ResourceType
from registry.protocol import LARGEST_PAGE

_TRAPS = [decimal.Inexact, decimal.InvalidOperation, decimal.Overflow]
_DECIMAL128 = decimal.Context(prec=34, Emin=-6143, Emax=6144, clamp=1, traps=_TRAPS)


@dataclass(frozen=True, slots=True)
class Key:
    """A sort key: a stored field of the type, or of the target of a to-one relationship.

    Null sorts first; the fields of a missing related resource are null. attribute: for cursors.
    """

    stored_name: str
    descending: bool = False
    relationship: Relationship | None = None
    attribute: ResourceField = field(default=ID_FIELD, compare=False)

    def __str__(self) -> str:
        related = f"{self.relationship.name}." if self.relationship else ""
        return f"{'-' if self.descending else ''}{related}{self.stored_name}"


Order = tuple[Key, ...]
"""Sort keys by precedence. The last is the id, so that the order is total."""

BY_ID: Order = (Key("_id"),)
"""The default order."""


def parse_sort(value: str, resource: ResourceType, graph: Graph) -> Order:
    """Return the requested order; by id if the value is empty. Raises RequestError with all errors.

    The id breaks ties, in the direction of the last key. After a field of a related resource, the
    id of that resource does so first, so that resources related to the same one stay together.
    """
    if not value:
        return BY_ID
    keys, errors = dict[tuple[Relationship | None, str], Key](), ErrorCollector()
    names = sort_names(resource, graph)
    for text in value.split(","):
        name, owner, relationship = text.removeprefix("-"), resource, None
        if name not in names:
            detail = f"Unknown sort field {quoted(name)}; available: {quoted(*names)}."
            errors.add(InvalidParameter(detail, parameter="sort"))
            continue
        target_name, _, field_name = name.rpartition(".")
        if target_name:
            relationship = resource.relationships[target_name]
            owner = graph[relationship.target]
        stored = owner.filterable[field_name]
        descending = text.startswith("-")
        if (field := (relationship, stored.stored_name)) in keys:
            errors.add(InvalidParameter("`sort` must not repeat a field.", parameter="sort"))
            break  # a query string has room for thousands
        keys[field] = Key(stored.stored_name, descending, relationship, stored)
    errors.raise_any()
    order = list(keys.values())
    if (None, "_id") in keys:
        return tuple(order[: list(keys).index((None, "_id")) + 1])  # ids are unique
    last = order[-1]
    if last.relationship and (last.relationship, "_id") not in keys:
        order.append(replace(last, stored_name="_id", attribute=ID_FIELD))
    return (*order, Key("_id", last.descending))


def sort_names(resource: ResourceType, graph: Graph) -> list[str]:
    """Return the sort fields of a type: `serial`, `owner.last_name`.

    Periods are not sorted by what they copy, as it has two places, nor by related resources, which
    may be deleted.
    """
    own = [name for name, field in resource.filterable.items() if field.is_sortable]
    if resource.read_only:
        return own
    related = [
        f"{name}.{field}"
        for name, relationship in resource.relationships.items()
        if not relationship.to_many
        for field in ("id", *graph[relationship.target].attributes)
    ]
    return [*own, *related]


Position: TypeAlias = tuple[Any, ...]
"""The stored values of the sort keys of a resource; empty: the end of the collection."""

END: Position = ()


@dataclass(frozen=True, slots=True)
class Cursors:
    """Encodes and decodes the cursors of one type in one order. They have values as stored."""

    type: str
    order: Order

    def encode(self, position: Position) -> str:
        """Return the cursor of a position."""
        text = orjson.dumps([self._name(), position], default=str)  # decimal numbers
        return urlsafe_b64encode(text).rstrip(b"=").decode()

    def decode(self, cursor: str, parameter: str) -> Position:
        """Return a position. Raises InvalidParameter for a cursor of another type or order."""
        try:
            padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
            name, values = orjson.loads(urlsafe_b64decode(padded))
            if name != self._name() or not isinstance(values, list):
                raise ValueError(name)
            pairs = zip(self.order, values, strict=True) if values else ()
            return tuple(_restored(value, key.attribute.kind.stored_type) for key, value in pairs)
        except (ValueError, TypeError, ArithmeticError) as error:
            reason = "is not a cursor of this collection in this order"
            detail = f"{quoted(cursor)} {reason}; cursors are in the links of a page."
            raise InvalidParameter(detail, parameter=parameter) from error

    def _name(self) -> str:
        return f"{self.type}:{','.join(map(str, self.order))}"


def _restored(value: Any, stored_type: type) -> Any:
    """Return the stored value that a cursor has. Raises ValueError, TypeError, ArithmeticError."""
    if value is None:
        return None
    if stored_type is datetime.datetime:
        return datetime.datetime.fromisoformat(value).astimezone(datetime.UTC)
    if stored_type is decimal.Decimal:
        return _DECIMAL128.create_decimal(value)
    is_too_large = stored_type is int and value > MAX_ID  # the parser takes unsigned integers too
    if is_too_large or value.__class__ is not stored_type:
        raise ValueError(value)
    return value


MEMBERS = ("number", "size", "after", "before", "total")
"""The members of `page` that select a page of the primary data."""

_CURSORS = frozenset({"after", "before"})
_PAGE = re.compile(rf"page\[(?:{'|'.join(MEMBERS)})\]")
_POSITIVE = re.compile("[1-9][0-9]*", re.ASCII)
_MAX_DIGITS = 20
"""Further digits are ignored: any number of 20 digits exceeds the limits."""


@dataclass(frozen=True, slots=True)
class NumberedPage:
    """A page selected by its number, from 1. total: whether to count the resources on all pages."""

    number: int
    size: int
    total: bool = True


@dataclass(frozen=True, slots=True)
class CursorPage:
    """The page after a position, or before it if `backwards`; without a position, the first."""

    size: int
    cursors: Cursors
    position: Position | None = None
    backwards: bool = False


Page: TypeAlias = NumberedPage | CursorPage


@dataclass(frozen=True, slots=True)
class Window:
    """The records of a page. more: whether others follow in the direction of paging.

    first, last: the positions of its ends; None if it is empty. total: on all pages, if counted.
    """

    records: Sequence[Record]
    more: bool
    first: Position | None = None
    last: Position | None = None
    total: int | None = None


def parse_page(
    members: Mapping[str, str], size: int, resource: ResourceType, order: Order | None
) -> Page:
    """Return the requested page. Raises RequestError with all errors.

    members: of `page`, at least one. size: the default. order: None if `sort` is not valid; then
    cursors are not decoded.
    """
    errors, number, total = ErrorCollector(), 1, True
    codec, position = Cursors(resource.type, order or BY_ID), None
    cursors = sorted(_CURSORS & members.keys())
    with errors:
        if "number" in members and cursors:
            detail = "`page[number]` must not be combined with `page[after]` or `page[before]`."
            raise InvalidParameter(detail, parameter="page[number]")
        if "total" in members and "number" not in members:
            detail = (
                "`page[total]` requires `page[number]`, because cursor pages are not counted. Send "
                "`page[number]=1` for the total, or leave `page[total]` unset."
            )
            raise InvalidParameter(detail, parameter="page[total]")
        if len(cursors) > 1:
            raise RangeNotSupported
    with errors:
        if "size" in members:
            size = parse_size(members["size"], "page[size]")
    with errors:
        if "number" in members:
            number = _parse_positive(members["number"], "page[number]")
            if (number - 1) * size > MAX_ID:
                raise InvalidParameter("The page number is too large.", parameter="page[number]")
    with errors:
        total = members.get("total", "true") == "true"
        if not total and members["total"] != "false":
            detail = f"`page[total]` must be `true` or `false`, not {quoted(members['total'])}."
            raise InvalidParameter(detail, parameter="page[total]")
    for member in cursors if order else ():
        with errors:
            position = codec.decode(members[member], f"page[{member}]")
    errors.raise_any()
    if "number" in members:
        return NumberedPage(number, size, total)
    return CursorPage(size, codec, position, backwards="before" in members)


def parse_size(value: str, parameter: str) -> int:
    """Return a page size. Raises PageTooLarge, or InvalidParameter if it is not a size."""
    size = _parse_positive(value, parameter)
    if size > LARGEST_PAGE:
        raise PageTooLarge(f"A page has at most {LARGEST_PAGE} resources.", parameter=parameter)
    return size


def page_links(page: Page, window: Window, url: str) -> dict[str, str | None]:
    """Return the pagination links of the page at a URL; null for pages that do not exist.

    `last` is absent if the number of the last page is unknown.
    """
    path, _, query = url.partition("?")
    others = [part for part in query.split("&") if part and not _is_page(part.partition("=")[0])]
    base = f"{path}?{''.join([f'{part}&' for part in others])}"

    def link(**members: str | int) -> str:
        # Cursors, numbers and words need no percent-encoding.
        return base + "&".join([f"page%5B{name}%5D={value}" for name, value in members.items()])

    if isinstance(page, CursorPage):
        before, after = _neighbours(page, window).values()
        # The page before the first one is empty and has no cursor; the first one follows it.
        follows = page.backwards and page.position != END and window.last is None
        first = link(size=page.size)
        return {
            "first": first,
            "last": link(size=page.size, before=page.cursors.encode(END)),
            "prev": link(size=page.size, before=before) if before else None,
            "next": link(size=page.size, after=after) if after else first if follows else None,
        }
    uncounted = {} if page.total else {"total": "false"}
    links = {"first": link(number=1, size=page.size, **uncounted)}
    preceding = page.number - 1
    if window.total is not None:
        last = max(1, -(-window.total // page.size))
        preceding = min(preceding, last)
        links["last"] = link(number=last, size=page.size)
    following = link(number=page.number + 1, size=page.size, **uncounted)
    return {
        **links,
        "prev": link(number=preceding, size=page.size, **uncounted) if preceding else None,
        "next": following if window.more else None,
    }


@lru_cache(maxsize=256)  # bounded, as clients choose the names
def _is_page(name: str) -> bool:
    return _PAGE.fullmatch(unquote_plus(name)) is not None


def page_meta(page: Page | None, window: Window) -> dict[str, Any]:
    """Return `meta`: the number of resources in `data`, on all pages if counted, and cursors."""
    meta: dict[str, Any] = {"count": len(window.records)}
    if window.total is not None:
        meta["total"] = window.total
    if isinstance(page, CursorPage):
        meta["page"] = _neighbours(page, window)
    return meta


def _neighbours(page: CursorPage, window: Window) -> dict[str, str | None]:
    """Return the cursors of the pages before and after, null where there is none."""
    if page.backwards:
        has_preceding, has_following = window.more, page.position != END
    else:
        has_preceding, has_following = page.position is not None, window.more
    before = window.first if window.first is not None else END
    after = window.last if has_following else None
    return {
        "before": page.cursors.encode(before) if has_preceding else None,
        "after": None if after is None else page.cursors.encode(after),
    }


def _parse_positive(value: str, parameter: str) -> int:
    if digits := _POSITIVE.fullmatch(value):
        return int(digits[0][:_MAX_DIGITS])
    required = "a positive integer without leading zeros"
    detail = f"{quoted(parameter)} must be {required}, not {quoted(value)}."
    raise InvalidParameter(detail, parameter=parameter)
