"""Content negotiation as functions of headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.jsonapi.content_negotiation import MEDIA_TYPE, check_accept, check_content_type
from registry.jsonapi.errors import NotAcceptable, UnsupportedMediaType


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("*/*",),
        (MEDIA_TYPE,),
        (f"{MEDIA_TYPE};q=0.9",),
        (f"{MEDIA_TYPE}; Q=0.9; x=y",),
        (f"{MEDIA_TYPE};a=b, {MEDIA_TYPE}",),
        (f"{MEDIA_TYPE};a=b", MEDIA_TYPE),
        (f'text/html;x="{MEDIA_TYPE};a=b"',),
        (f'text/html;x="\\", {MEDIA_TYPE};a=b, "',),
    ],
)
def test_accept_without_jsonapi_or_with_plain_jsonapi_is_accepted(headers: tuple[str, ...]) -> None:
    check_accept(headers)


@pytest.mark.parametrize(
    "headers",
    [
        (f"{MEDIA_TYPE};a=b",),
        (f"{MEDIA_TYPE.upper()} ; A=B ; q=1",),
        (
            f'{MEDIA_TYPE};a="b,c"',
            "text/html",
        ),
        (f"{MEDIA_TYPE};a=b, {MEDIA_TYPE};c=d",),
    ],
)
def test_accept_with_only_parameterized_jsonapi_is_rejected(headers: tuple[str, ...]) -> None:
    with pytest.raises(NotAcceptable):
        check_accept(headers)


@given(st.text(alphabet=st.sampled_from(list('application/vnd.api+json;,"\\= q')), max_size=80))
def test_any_header_is_accepted_or_rejected_without_failure(header: str) -> None:
    try:
        check_accept((header, MEDIA_TYPE))
        check_content_type(header)
    except UnsupportedMediaType:
        assert header.strip(" ;") != MEDIA_TYPE
