"""The attribute types, each with values it takes and values it refuses."""

import datetime
import re
from decimal import Decimal as Number
from typing import Any

import pytest
from email_validator import validate_email
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from marshmallow import Schema, ValidationError
from marshmallow.fields import Field

from registry.model.fields import (
    _COMMON_EMAIL,
    Boolean,
    Date,
    DateTime,
    Decimal,
    Email,
    Enumeration,
    Integer,
    String,
)
from registry.model.implicit_attributes import ResourceId
from registry.model.resource_type import ResourceType

UTC = datetime.UTC
MANY_DIGITS = "9" * 10_000

# Mostly invalid addresses, to find some that the pattern would accept.
SIMILAR_TO_ADDRESSES = st.from_regex(
    re.compile(r"[aZ9_]{1,5}[a_.+-]{0,3}[aZ9]{1,60}@[aZ9]{1,3}[a9.-]{0,4}[a9]\.[aZ9-]{0,2}[aZ]{2}"),
    fullmatch=True,
)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(SIMILAR_TO_ADDRESSES)
def test_an_address_that_the_common_pattern_matches_is_valid(address: str) -> None:
    assume(_COMMON_EMAIL.fullmatch(address))
    validate_email(address, check_deliverability=False, strict=True)


def utc(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc] # mypy takes a part for the zone


LONGEST_EMAIL = "x" * 64 + "@" + ".".join(["y" * 44] * 4) + ".examp.org"
LARGEST_DECIMAL = f"{'9' * 24}.{'9' * 10}"
LAST_MOMENT = utc(9999, 12, 31, 23, 59, 59, 999_000)


def declared(attribute: Field[Any]) -> ResourceType:
    """Return a type with this attribute, `a`."""
    return ResourceType("thing", "things", Schema.from_dict({"a": attribute}))


def loaded(attribute: Field[Any], json: Any) -> Any:
    """Return the stored form of a value in a request."""
    return declared(attribute).load({"a": json}, partial=True)["a"]


def shown(attribute: Field[Any], value: Any) -> Any:
    """Return the JSON form of a stored value."""
    return declared(attribute).json_value("a", {"a": value})


def parsed(attribute: Field[Any], text: str) -> Any:
    """Return the stored form of a value in a query parameter."""
    return declared(attribute).attributes["a"].from_text(text)


VALID = [
    (String(), "x" * 255, "x" * 255),
    *(
        (String(), text, text)
        for text in ("\0 {a} '\"", "😀" * 255, "  spaced  ", "$where", "\n", "0")
    ),
    *(
        (Email(), address, address)
        for address in (
            *["Grace.Hopper@example.com", "a@b.co", "first.last+tag@sub.example.com"],
            *["zoë@exämple.com", "root@fleet.local", LONGEST_EMAIL],
        )
    ),
    (Enumeration("red", "green"), "green", "green"),
    (Boolean(), False, False),
    (Integer(), 0, 0),
    (Integer(), -(2**63), -(2**63)),
    (Integer(), 2**63 - 1, 2**63 - 1),
    (Decimal(), "12.50", Number("12.50")),
    (Decimal(), "-0.0000000001", Number("-1E-10")),
    (Decimal(), LARGEST_DECIMAL, Number(LARGEST_DECIMAL)),
    (Date(), "2024-02-29", "2024-02-29"),
    (Date(), "0001-01-01", "0001-01-01"),
    (DateTime(), "2026-02-28T12:30:00.000Z", utc(2026, 2, 28, 12, 30)),
    (DateTime(), "0001-01-01T00:00:00.000Z", utc(1, 1, 1)),
    (DateTime(), "9999-12-31T23:59:59.999Z", LAST_MOMENT),
]


@pytest.mark.parametrize(("attribute", "json", "expected"), VALID)
def test_a_valid_value_is_loaded_and_serialized(
    attribute: Field[Any], json: Any, expected: Any
) -> None:
    value = loaded(attribute, json)
    assert (value, type(value)) == (expected, type(expected))
    assert shown(attribute, value) == json


INVALID: dict[Field[Any], list[Any]] = {
    String(): [5, 1.5, True, [], {}, {"$gt": ""}, "", "\ud800", "x" * 256, "😀" * 256, MANY_DIGITS],
    Email(): [
        *[5, True, [], {"$ne": None}, "", "a", "@x.org", "a@", "a@localhost", "a@@x.org"],
        *["a b@x.org", " a@x.org", "a@x.org\n", "a@x.org\0", "a@x..org", "a@-x.org"],
        *["A <a@x.org>", MANY_DIGITS, "a" * 65 + "@x.org", "a" * 300 + "@x.org"],
        *["a@" + "x" * 250 + ".org", LONGEST_EMAIL + "x"],
    ],
    Enumeration("red", "green"): ["blue", "", "Red", 5, ["red"], MANY_DIGITS],
    Boolean(): [0, 1, "true", "", [], MANY_DIGITS],
    Integer(): ["5", 5.0, 1e300, True, 2**63, -(2**63) - 1, [5], int("9" * 300)],
    Decimal(): [
        *[5, 1.5, True, "", ".5", "5.", "1e5", "NaN", "Infinity", "-", " 1", "1_0", "+1"],
        *["\uff11", "1" * 25, "0." + "1" * 11, MANY_DIGITS, "1\n", "0x1", []],
    ],
    Date(): [
        *["2026-02-30", "2023-02-29", "0000-01-01", "20260228", "2026-W01-1", "2026-2-3", 5],
        *["2026-02-28T00:00:00Z", " 2026-02-28", "\uff12026-02-28", "", "2026-02-28\n"],
        MANY_DIGITS,
    ],
    DateTime(): [
        *["2026-02-30T00:00:00Z", "2026-02-28", "2026-02-28T12:30:00", "2026-02-28 12:30:00Z"],
        "2026-02-28T12:30:00 02:00",
        *["2026-02-28T24:00:00Z", "2026-02-28T12:30:60Z", "2026-02-28T12:30Z", 5, "", "now"],
        *["2026-02-28T12:30:00+25:00", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"],
        *["2026-02-28T12:30:00.Z", "2026-02-28T12:30:00,5Z", MANY_DIGITS, "2026-02-28T12:30:00Z\n"],
    ],
    ResourceId(): ["01", "-", "+1", "1.0", 1.0, 1.5, float("nan"), True, "", "1\n"],
}


@pytest.mark.parametrize(
    ("attribute", "value"),
    [(attribute, value) for attribute, values in INVALID.items() for value in values],
)
def test_an_invalid_value_is_refused(attribute: Field[Any], value: Any) -> None:
    with pytest.raises(ValidationError):
        loaded(attribute, value)


@pytest.mark.parametrize(
    ("attribute", "text", "value"),
    [
        (Boolean(), "true", True),
        (Boolean(), "false", False),
        (Integer(), "-9223372036854775808", -(2**63)),
        (Integer(), "007", 7),
        (Decimal(), "1.50", Number("1.50")),
        (Date(), "2026-02-28", "2026-02-28"),
        (DateTime(), "2026-02-28T12:30:00Z", utc(2026, 2, 28, 12, 30)),
        (DateTime(), "2026-02-28t12:30:00.5z", utc(2026, 2, 28, 12, 30, 0, 500_000)),
        (DateTime(), "2026-02-28T23:30:00-01:00", utc(2026, 3, 1, 0, 30)),
        (DateTime(), "2026-02-28T12:30:00.1239999+00:00", utc(2026, 2, 28, 12, 30, 0, 123_000)),
        (String(), "", ""),
        (ResourceId(), "7", 7),
        (ResourceId(), "-9223372036854775808", -(2**63)),
        (ResourceId(), "9223372036854775808", float("inf")),
        (ResourceId(), f"-{MANY_DIGITS}", float("-inf")),
    ],
)
def test_text_of_a_query_parameter_is_parsed(attribute: Field[Any], text: str, value: Any) -> None:
    assert parsed(attribute, text) == value


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        *((Boolean(), text) for text in ("True", "1", "", "null")),
        *(
            (Integer(), text)
            for text in ("1.0", "1e3", " 1", "+1", "\uff11", "", "9" * 19, MANY_DIGITS)
        ),
    ],
)
def test_invalid_text_of_a_query_parameter_is_refused(attribute: Field[Any], text: str) -> None:
    with pytest.raises(ValidationError):
        parsed(attribute, text)


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=10).filter(lambda n: abs(n) < 10**24)
)
def test_decimals_are_exact(number: Number) -> None:
    assert shown(Decimal(), loaded(Decimal(), f"{number:f}")) == f"{number:f}"


@given(st.datetimes(timezones=st.timezones()))
def test_times_are_truncated_to_milliseconds_in_utc(time: datetime.datetime) -> None:
    try:
        expected = time.astimezone(UTC)
    except OverflowError:
        return
    offset = time.utcoffset() or datetime.timedelta()
    assume(not offset % datetime.timedelta(minutes=1))
    assume(time.astimezone(UTC).astimezone(time.tzinfo) == time)
    value = loaded(DateTime(), time.isoformat(timespec="microseconds"))
    assert value == expected.replace(microsecond=expected.microsecond // 1_000 * 1_000)
    assert loaded(DateTime(), shown(DateTime(), value)) == value
