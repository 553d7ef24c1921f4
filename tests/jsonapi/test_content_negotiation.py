"""Content negotiation as functions of headers."""

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


def test_accept_is_refused_if_it_has_jsonapi_with_parameters_only() -> None:
    for accepted in (
        *[(), ("*/*",), (MEDIA_TYPE,), (f"{MEDIA_TYPE};q=0.9",), (f"{MEDIA_TYPE}; Q=0.9; x=y",)],
        *[(f"{MEDIA_TYPE};a=b, {MEDIA_TYPE}",), (f"{MEDIA_TYPE};a=b", MEDIA_TYPE)],
        (f'text/html;x="{MEDIA_TYPE};a=b"',),
        (f'text/html;x="\\", {MEDIA_TYPE};a=b, "',),
    ):
        check_accept(accepted)
    for refused in (
        *[(f"{MEDIA_TYPE};a=b",), (f"{MEDIA_TYPE.upper()} ; A=B ; q=1",)],
        *[(f'{MEDIA_TYPE};a="b,c"', "text/html"), (f"{MEDIA_TYPE};a=b, {MEDIA_TYPE};c=d",)],
    ):
        with pytest.raises(NotAcceptable):
            check_accept(refused)


def test_the_media_type_of_a_body_has_no_parameters() -> None:
    for accepted in (MEDIA_TYPE, MEDIA_TYPE.upper(), f" {MEDIA_TYPE} ;"):
        check_content_type(accepted)
    for refused in (
        *[None, "", "x", "text/plain", "application/json", "application/vnd.api+jsonp", ATOMIC],
        *[f"{MEDIA_TYPE}; charset=utf-8", f"{MEDIA_TYPE};v=1", f"{MEDIA_TYPE}, {MEDIA_TYPE}"],
    ):
        with pytest.raises(UnsupportedMediaType, match="`Content-Type: application/vnd"):
            check_content_type(refused)


def test_gzip_is_used_if_accepted_and_preferred() -> None:
    for header in (
        *("gzip", "GZIP", "x-gzip", "gzip, deflate, br, zstd", "br;q=1.0, gzip;q=0.001"),
        *("gzip ; q=0.5", "*", "*;q=0.1", "identity, gzip", "gzip;q=0.5, identity;q=0.5"),
    ):
        assert accepts_gzip((header,)), header
    for header in (
        *("gzip;q=0.5, identity", "gzip;q=0", "gzip;q=0.000", "gzip;q=0, *", "*;q=0", "identity"),
        *("br, deflate", "gzipped, x", "", ",", ";q=1"),
    ):
        assert not accepts_gzip((header,)), header


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


def test_long_values_are_not_kept() -> None:
    with traced_memory() as size:
        for number in range(40):
            value = f"text/html{number};{';'.join(map(str, range(1_500)))}"
            check_accept((f"{MEDIA_TYPE}, {value}",))
            check_parameters(value)
        assert size() < 2**18  # these values have 290,000 bytes


def test_a_long_list_of_media_types_is_read_to_its_end() -> None:
    others = ", ".join(f"text/x{number}" for number in range(700))
    check_accept((others, others))
    check_accept((f"{MEDIA_TYPE};a=b", others, MEDIA_TYPE))
    with pytest.raises(NotAcceptable):
        check_accept((others, f"{others}, {MEDIA_TYPE};a=b"))
