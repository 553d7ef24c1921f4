"""The content codings of bodies."""

import gzip

import pytest

from registry.http.request_body import decoded
from registry.jsonapi.error_types import BodyTooLarge, MalformedRequest

BODY = b'{"data": null}'
GZIP = gzip.compress(BODY, mtime=0)


@pytest.mark.parametrize(("encoding", "sent"), [("identity", BODY), (" GZip ", GZIP)])
def test_a_body_is_returned_without_its_coding(encoding: str, sent: bytes) -> None:
    assert decoded(sent, encoding, len(BODY)) == BODY


@pytest.mark.parametrize("sent", [b"", BODY, GZIP[:-1], GZIP + b"x", GZIP + GZIP])
def test_a_body_that_is_not_encoded_as_declared_is_refused(sent: bytes) -> None:
    with pytest.raises(MalformedRequest):
        decoded(sent, "gzip", 100)


def test_a_decoded_body_has_a_limit() -> None:
    with pytest.raises(BodyTooLarge, match=f" {len(BODY) - 1} bytes"):
        decoded(GZIP, "gzip", len(BODY) - 1)
