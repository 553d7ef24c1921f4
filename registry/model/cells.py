"""Values as people write them in the cells of a spreadsheet -> their JSON form."""

import re
from collections.abc import Callable
from typing import TypeAlias

ReadCell: TypeAlias = Callable[[str, bool], object]
"""Takes the text of a cell, and whether a comma may be the decimal point, as it is in files that
separate cells by something else. Returns the value in JSON; raises ValueError, with a message if
there is more to say than what is expected."""

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

_DAY_FIRST = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})", re.ASCII)
_SLASHES = re.compile(r"[0-9]{1,4}/[0-9]{1,2}/[0-9]{1,4}\b.*", re.ASCII | re.DOTALL)
_DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]+", re.ASCII)


def read_boolean(text: str, _: bool) -> object:
    """Return the boolean for `true`, `yes`, `1` and their opposites, in any case."""
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise ValueError from None


def read_decimal(text: str, has_decimal_comma: bool) -> object:
    """Return the text of a decimal number, with a point."""
    if has_decimal_comma and _DECIMAL_COMMA.fullmatch(text):
        return text.replace(",", ".")
    return text


def read_date(text: str, _: bool) -> object:
    """Return the ISO form of a date such as `28.02.2026`; refuse slashes, which are ambiguous."""
    _refuse_slashes(text)
    if match := _DAY_FIRST.fullmatch(text):
        day, month, year = match.groups()
        return f"{year}-{month:0>2}-{day:0>2}"
    return text


def read_time(text: str, _: bool) -> object:
    """Return a time as it is; refuse slashes in its date."""
    _refuse_slashes(text)
    return text


def _refuse_slashes(text: str) -> None:
    if _SLASHES.fullmatch(text):
        raise ValueError(
            "Countries read a date with slashes differently: write 2026-02-28 or 28.02.2026."
        )
