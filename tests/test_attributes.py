"""The kinds of attributes."""

from __future__ import annotations

import re

from email_validator import validate_email
from hypothesis import given
from hypothesis import strategies as st

from registry.attributes import _PLAIN_EMAIL


@given(st.from_regex(re.compile(f"{_PLAIN_EMAIL.pattern}", re.ASCII), fullmatch=True))
def test_an_address_that_is_taken_for_plain_is_an_address(address: str) -> None:
    validate_email(address, check_deliverability=False, strict=True)
