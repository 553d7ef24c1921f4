"""The kinds of attributes."""

from __future__ import annotations

import re

from email_validator import validate_email
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from registry.model.attributes import _PLAIN_EMAIL

# Mostly no addresses at all, so that those are found which the pattern would let through.
LIKE_ADDRESSES = st.from_regex(
    re.compile(r"[aZ9_]{1,5}[a_.+-]{0,3}[aZ9]{1,60}@[aZ9]{1,3}[a9.-]{0,4}[a9]\.[aZ9-]{0,2}[aZ]{2}"),
    fullmatch=True,
)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(LIKE_ADDRESSES)
def test_an_address_that_is_taken_for_plain_is_an_address(address: str) -> None:
    assume(_PLAIN_EMAIL.fullmatch(address))
    validate_email(address, check_deliverability=False, strict=True)


def test_what_nearly_all_addresses_look_like_is_plain() -> None:
    for address in ("grace.hopper@example.com", "ada+lists@sub.fleet-1.Example.org", "a_b@x.io"):
        assert _PLAIN_EMAIL.fullmatch(address)
    for address in ("a@localhost", ".a@x.org", "a..b@x.org", "a@-x.org", "a@x.c", "a@x.org\n"):
        assert not _PLAIN_EMAIL.fullmatch(address)
