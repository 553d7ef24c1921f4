"""`page`, cursors and the links between pages, without a server."""

import datetime
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.error_types import InvalidParameter, PageTooLarge, RangeNotSupported
from registry.jsonapi.pagination import (
    BY_ID,
    END,
    CursorPage,
    Cursors,
    NumberedPage,
    Page,
    Position,
    Window,
    page_links,
    parse_page,
    parse_sort,
)
from registry.model.graph import Graph
from registry.model.record import MAX_ID
from tests.devices import WITH_DEVICES
from tests.jsonapi.support import errors_of

GRAPH = Graph(WITH_DEVICES)
PERSON = GRAPH["person"]
BY_NAME = parse_sort("last_name", PERSON, GRAPH)
CURSORS = Cursors("person", BY_NAME)

PROFILE = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination"

TYPED = Cursors("device", parse_sort("active,size,price,seen,name", GRAPH["device"], GRAPH))

TIMES = st.datetimes(timezones=st.just(datetime.UTC))
NUMBERS = st.decimals(allow_nan=False, places=10).filter(lambda number: abs(number) < 10**24)
IDS = st.integers(-(2**63), MAX_ID)
OPTIONAL = (st.booleans(), IDS, NUMBERS, TIMES, st.text())
POSITIONS = st.tuples(*(st.none() | strategy for strategy in OPTIONAL), IDS)


def parsed(**members: str) -> Page:
    return parse_page(members, 50, PERSON, BY_NAME)


def errors(**members: str) -> Sequence[ApiError]:
    """Return the errors that these members are refused with."""
    return errors_of(partial(parsed, **members))


def encoded(value: Any) -> str:
    return urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()


def test_a_page_has_a_number_or_a_cursor() -> None:
    assert parsed(number="3") == NumberedPage(3, 50)
    assert parsed(number="1", size="7", total="false") == NumberedPage(1, 7, total=False)
    assert parsed(size="7") == CursorPage(7, CURSORS)
    position: Position = ("Hopper", 5)
    cursor = CURSORS.encode(position)
    assert parsed(after=cursor) == CursorPage(50, CURSORS, position)
    assert parsed(before=cursor) == CursorPage(50, CURSORS, position, backwards=True)


def test_sizes_and_numbers_are_positive_integers_up_to_a_maximum() -> None:
    for text in (
        *("", "0", "00", "01", "0" * 30 + "12", "-1", "+1", "1.0", "1e3", " 1", "1_0", "1\n"),
        *("\u0661", "x"),
    ):
        for member in ("size", "number"):
            (error,) = errors(**{member: text})
            assert (type(error), error.parameter) == (InvalidParameter, f"page[{member}]")
    for size in ("1001", "1000000000", "9" * 19, "9" * 20, "1" + "0" * 5000):
        (error,) = errors(size=size)
        assert (type(error), error.parameter) == (PageTooLarge, "page[size]")
        shown = error.to_object("1")
        assert shown["meta"] == {"page": {"maxSize": 1000}}
        assert shown["links"] == {"type": f"{PROFILE}/max-size-exceeded"}
    for number in (str(2**63), "9" * 19, "9" * 400):
        (error,) = errors(number=number)
        assert (error.detail, error.parameter) == ("The page number is too large.", "page[number]")


def test_an_invalid_combination_is_refused() -> None:
    cursor = CURSORS.encode(END)
    for members, parameter in (
        *(({"number": "1", member: cursor}, "page[number]") for member in ("after", "before")),
        *(({"number": "1", "total": total}, "page[total]") for total in ("no", "")),
        *[({"total": "true"}, "page[total]"), ({"size": "1", "total": "false"}, "page[total]")],
    ):
        (error,) = errors(**members)
        assert (type(error), error.parameter) == (InvalidParameter, parameter)
        if "number" not in members:
            assert "Send `page[number]=1` for the total" in error.detail
    (error,) = errors(after=cursor, before=cursor)
    assert type(error) is RangeNotSupported
    assert error.to_object("1")["links"] == {"type": f"{PROFILE}/range-pagination-not-supported"}


def test_the_errors_of_all_members_are_reported() -> None:
    reported = errors(number="1.5", size="-1", total="x", after="y", before="z")
    names = ("number", "size", "number", "total", "after", "before")
    assert [error.parameter for error in reported] == [f"page[{name}]" for name in names]
    unordered = partial(parse_page, {"size": "0", "after": "x"}, 50, PERSON, None)
    assert [error.parameter for error in errors_of(unordered)] == ["page[size]"]  # not the cursor


@given(POSITIONS)
@example(
    (
        True,
        -(2**63),
        Decimal("-1E+6000"),
        datetime.datetime.max.replace(tzinfo=datetime.UTC),
        "",
        MAX_ID,
    )
)
@example((None, None, None, datetime.datetime.min.replace(tzinfo=datetime.UTC), None, 1))
def test_a_cursor_is_decoded_to_the_position_it_encodes(position: Position) -> None:
    cursor = TYPED.encode(position)
    assert TYPED.decode(cursor, "page[after]") == position
    assert cursor.isascii()
    assert quote(cursor, safe="") == cursor, "it needs no percent-encoding"


FORGED: list[list[Any]] = [
    [1, "true"],
    [True, "5", 1.5, 2**63, 2**64 - 1, {"$gt": 0}, [1]],
    ["1" * 35, "1E+9999", "x", [1], {"$gt": 0}],
    ["2026-02-30T00:00:00Z", "0001-01-01T00:00:00+01:00", 5, []],
    [5, {"$gt": ""}, ["x"], True],
]
"""What cannot be stored, for each value of a position."""


@pytest.mark.parametrize(("index", "values"), [*enumerate(FORGED)])
def test_a_cursor_with_a_forged_value_is_refused(index: int, values: list[Any]) -> None:
    name = "device:active,size,price,seen,name,_id"
    position: list[Any] = [True, 1, "1.5", "2026-02-28T00:00:00+00:00", "x", 1]
    TYPED.decode(encoded([name, position]), "page[after]")
    for value in values:
        position[index] = value
        with pytest.raises(InvalidParameter):
            TYPED.decode(encoded([name, position]), "page[after]")


NAME = "person:last_name,_id"


@pytest.mark.parametrize(
    "cursor",
    [
        *["", "=", "x", "abcde", "é", "\udc80", "\0", "{}", "[]", "A" * 5000],
        Cursors("computer", BY_NAME).encode(("Hopper", 1)),
        Cursors("person", BY_ID).encode((1,)),
        Cursors("person", parse_sort("-last_name", PERSON, GRAPH)).encode(("Hopper", 1)),
        *map(encoded, [None, 1, "ab", [], {}, {"a": 1, "b": 2}, [NAME], [NAME, [1], 1]]),
        *(encoded([NAME, value]) for value in [None, 1, "ab", {}, {"$gt": ""}, ["x"], ["x", 1, 1]]),
        urlsafe_b64encode(b'["' + NAME.encode() + rb'",["\ud800",1]]').decode(),
        urlsafe_b64encode(b"[" * 5000).decode(),
    ],
)
def test_a_cursor_of_another_order_or_an_invalid_one_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        CURSORS.decode(cursor, "page[after]")
    assert raised.value.parameter == "page[after]"


@given(st.text() | st.binary().map(lambda data: urlsafe_b64encode(data).decode()))
def test_arbitrary_text_is_refused_as_a_cursor(text: str) -> None:
    with pytest.raises(InvalidParameter):
        CURSORS.decode(text, "page[after]")


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("", ""),
        ("?", ""),
        ("?page%5Bsize%5D=9&page[number]=2&page%5btotal]=false", ""),
        ("?page[after]&page[before]=x", ""),
        ("?sort=-id&page%5Bsize%5D=9&include=computers", "sort=-id&include=computers&"),
        ("?&&sort=id&&&page[size]=9&&", "sort=id&"),
        ("?%73ort=%69d&%70age%5Bsize%5D=9", "%73ort=%69d&"),
        ("?filter%5Blast_name%5D=a%26b%3Dc+d%20e", "filter%5Blast_name%5D=a%26b%3Dc+d%20e&"),
        ("?include=computers&page%5Bcomputers%5D%5Bsize%5D=3",) * 2,
        ("?fields[person]=%C3%A9%FF&x", "fields[person]=%C3%A9%FF&x&"),
        ("?filter[last_name]=page[size]=9", "filter[last_name]=page[size]=9&"),
        ("?filter[last_name]=?a?", "filter[last_name]=?a?&"),
    ],
)
def test_links_keep_other_parameters_verbatim(query: str, kept: str) -> None:
    kept = f"{kept[1:]}&" if kept.startswith("?") else kept
    url = f"https://registry.example.com/persons{query}"
    first = page_links(NumberedPage(2, 5), Window((), more=False), url)["first"]
    members = "page%5Bnumber%5D=1&page%5Bsize%5D=5"
    assert first == f"https://registry.example.com/persons?{kept}{members}"
