"""Content negotiation as functions of headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.jsonapi.content_negotiation import (
    accepts_gzip,
    check_accept,
    check_content_type,
    check_parameters,
)
from registry.jsonapi.error_types import NotAcceptable, UnsupportedMediaType
from registry.protocol import EXTENSION, MEDIA_TYPE, media_type
from tests.support import traced_memory

ATOMIC = media_type(EXTENSION)


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
        (f'{MEDIA_TYPE};a="b,c"', "text/html"),
        (f"{MEDIA_TYPE};a=b, {MEDIA_TYPE};c=d",),
    ],
)
def test_accept_with_only_parameterized_jsonapi_is_rejected(headers: tuple[str, ...]) -> None:
    with pytest.raises(NotAcceptable):
        check_accept(headers)


@pytest.mark.parametrize("header", [MEDIA_TYPE, MEDIA_TYPE.upper(), f" {MEDIA_TYPE} ;"])
def test_the_media_type_of_a_body_is_accepted(header: str) -> None:
    check_content_type(header)


@pytest.mark.parametrize(
    "header",
    [
        *[None, "", "x", "text/plain", "application/json", "application/vnd.api+jsonp"],
        *[f"{MEDIA_TYPE}; charset=utf-8", f"{MEDIA_TYPE};v=1", f"{MEDIA_TYPE}, {MEDIA_TYPE}"],
        ATOMIC,
    ],
)
def test_another_media_type_of_a_body_is_refused(header: str | None) -> None:
    with pytest.raises(UnsupportedMediaType, match="`Content-Type: application/vnd"):
        check_content_type(header)


@pytest.mark.parametrize("ext", ["", "=", '=""', '="https://x"', f'="{EXTENSION} https://x"'])
def test_an_extension_is_refused_unless_it_is_the_expected_one(ext: str) -> None:
    check_content_type(ATOMIC.replace("; ", ";"), EXTENSION)
    check_accept((ATOMIC, f"{MEDIA_TYPE};a=b"), EXTENSION)
    for header in (f"{MEDIA_TYPE}; ext{ext}", f"{ATOMIC}; charset=utf-8", MEDIA_TYPE):
        with pytest.raises(UnsupportedMediaType):
            check_content_type(header, EXTENSION)
    with pytest.raises(NotAcceptable):
        check_accept((f"{MEDIA_TYPE}; ext{ext}",), EXTENSION)


@given(st.text(alphabet=st.sampled_from(list('application/vnd.api+json;,"\\= q')), max_size=80))
def test_any_header_is_accepted_or_rejected_without_failure(header: str) -> None:
    try:
        check_accept((header, MEDIA_TYPE))
        check_content_type(header)
    except UnsupportedMediaType:
        assert header.strip(" ;") != MEDIA_TYPE


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("br;q=1.0, gzip;q=0.001", True),
        ("gzip ; q=0.5", True),
        ("*", True),
        ("*;q=0.1", True),
        ("identity, gzip", True),
        ("gzip;q=0.5, identity;q=0.5", True),
        ("gzip;q=0.5, identity", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("identity", False),
        ("br, deflate", False),
        ("gzipped, x", False),
        ("", False),
        (",", False),
        (";q=1", False),
    ],
)
def test_gzip_is_used_if_accepted_and_preferred(header: str, *, expected: bool) -> None:
    assert accepts_gzip((header,)) is expected


def test_long_values_are_not_kept() -> None:
    with traced_memory() as size:
        for number in range(100):
            value = f"text/html{number};{';'.join(map(str, range(1_500)))}"
            check_accept((f"{MEDIA_TYPE}, {value}",))
            check_parameters(value)
        assert size() < 2**20


def test_a_long_list_of_media_types_is_read_to_its_end() -> None:
    others = ", ".join(f"text/x{number}" for number in range(700))
    check_accept((others, others))
    check_accept((f"{MEDIA_TYPE};a=b", others, MEDIA_TYPE))
    with pytest.raises(NotAcceptable):
        check_accept((others, f"{others}, {MEDIA_TYPE};a=b"))
