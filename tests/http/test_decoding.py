"""The content codings of bodies."""

from __future__ import annotations

import gzip
import zlib

import pytest

from registry.http.request_body import MAX_MEMBERS, decoded
from registry.jsonapi.error_types import BodyTooLarge, MalformedRequest

BODY = b'{"data": null}'
GZIP = gzip.compress(BODY, mtime=0)


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        (None, BODY),
        ("identity", BODY),
        (" GZip ", GZIP),
        ("gzip", gzip.compress(BODY[:5]) + gzip.compress(b"") + gzip.compress(BODY[5:])),
        ("deflate", zlib.compress(BODY)),
        ("deflate", zlib.compress(BODY)[2:-4]),
    ],
    ids=["none", "identity", "gzip", "members of gzip", "deflate", "deflate without zlib"],
)
def test_a_body_is_returned_without_its_coding(encoding: str | None, sent: bytes) -> None:
    assert decoded(sent, encoding, len(BODY)) == BODY


@pytest.mark.parametrize("sent", [b"", BODY, GZIP[:-1], GZIP + b"x", GZIP + GZIP[:-1]])
def test_a_body_that_is_not_encoded_as_declared_is_malformed(sent: bytes) -> None:
    with pytest.raises(MalformedRequest):
        decoded(sent, "gzip", 100)


def test_deflate_is_one_stream() -> None:
    with pytest.raises(MalformedRequest):
        decoded(2 * zlib.compress(BODY), "deflate", 100)


@pytest.mark.parametrize("members", [1, 3])
def test_a_decoded_body_has_a_limit(members: int) -> None:
    size = members * len(BODY)
    assert decoded(members * GZIP, "gzip", size) == members * BODY
    with pytest.raises(BodyTooLarge, match=f" {size - 1} bytes"):
        decoded(members * GZIP, "gzip", size - 1)


def test_the_number_of_members_has_a_limit() -> None:
    assert decoded(MAX_MEMBERS * GZIP, "gzip", 10_000) == MAX_MEMBERS * BODY
    with pytest.raises(MalformedRequest, match=f"more than {MAX_MEMBERS} members"):
        decoded((MAX_MEMBERS + 1) * GZIP, "gzip", 10_000)
