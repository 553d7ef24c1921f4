"""Which values of `Idempotency-Key` are valid, and which requests they are equal for."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from registry.access.principal import Principal
from registry.http.access_control import PRINCIPAL
from registry.http.write_headers import Preferences, idempotency_key
from registry.jsonapi.error_types import InvalidIdempotencyKey
from registry.protocol import IDEMPOTENCY_KEY
from registry.storage.writes.write_requests import IdempotencyKey


def key_of(
    *values: str,
    path: str = "/persons",
    body: bytes = b"{}",
    client: str | None = None,
    issuer: str | None = None,
) -> IdempotencyKey:
    headers = CIMultiDict((IDEMPOTENCY_KEY, value) for value in values)
    request = make_mocked_request("POST", path, headers)
    if client is not None:
        request[PRINCIPAL] = Principal(client, frozenset(), issuer)
    key = idempotency_key(request, body, Preferences())
    assert key is not None
    return key


@pytest.mark.parametrize("value", ["a", "a=b/c+d", "x" * 255, '"a b,;"', f'"{"x" * 255}"'])
def test_a_plain_text_and_a_quoted_string_are_valid_keys(value: str) -> None:
    assert key_of(value) != key_of("other")


@pytest.mark.parametrize(
    "values",
    [("",), ("a b",), ("a,b",), ("a;b",), ('"a',), ('""',), ('"a\\b"',), ('"a"; b=1',), ("ä",)],
)
def test_other_values_are_not_valid(values: tuple[str, ...]) -> None:
    with pytest.raises(InvalidIdempotencyKey):
        key_of(*values)


@pytest.mark.parametrize("value", ["x" * 256, f'"{"x" * 256}"'])
def test_a_key_has_at_most_255_characters(value: str) -> None:
    with pytest.raises(InvalidIdempotencyKey, match="255"):
        key_of(value)


def test_the_header_is_sent_once() -> None:
    with pytest.raises(InvalidIdempotencyKey):
        key_of("a", "a")


def test_quotes_are_not_part_of_the_key() -> None:
    assert key_of('"a"') == key_of("a")
    assert key_of(r'"\"\\"').id != key_of('"a"').id


def test_clients_do_not_share_keys() -> None:
    clients = [None, "None", "ci", "ci' x", "\ud800"]
    assert len({key_of("a", client=client).id for client in clients}) == len(clients)
    assert key_of("a", client="ci") == key_of("a", client="ci")


def test_the_subject_of_an_issuer_is_not_the_access_token_of_the_same_name() -> None:
    issuers = [None, "https://id.example.com", "https://id.example.net"]
    assert len({key_of("a", client="ci", issuer=issuer).id for issuer in issuers}) == len(issuers)


def test_the_fingerprint_depends_on_path_query_string_and_body() -> None:
    first = key_of("a")
    others = [key_of("a", path="/persons?x"), key_of("a", path="/x"), key_of("a", body=b"[]")]
    assert {other.id for other in others} == {first.id}
    assert len({key.fingerprint for key in [first, *others]}) == 4
    assert key_of("a", path="/\udc80").fingerprint
