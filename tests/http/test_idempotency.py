"""Which values of `Idempotency-Key` are valid, and for which clients they are equal."""

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from registry.access.principal import Principal
from registry.http.access_control import PRINCIPAL
from registry.http.request_headers import Preferences, idempotency_key
from registry.jsonapi.error_types import InvalidIdempotencyKey
from registry.protocol import IDEMPOTENCY_KEY
from registry.storage.writes.write_requests import IdempotencyKey


def key_of(
    *values: str,
    path: str = "/persons",
    client: str | None = None,
    issuer: str | None = None,
) -> IdempotencyKey:
    headers = CIMultiDict((IDEMPOTENCY_KEY, value) for value in values)
    request = make_mocked_request("POST", path, headers)
    if client is not None:
        request[PRINCIPAL] = Principal(client, frozenset(), issuer)
    key = idempotency_key(request, b"{}", Preferences())
    assert key is not None
    return key


def test_keys_are_plain_or_quoted_texts_of_at_most_255_characters() -> None:
    for value in ("a", "a=b/c+d", "x" * 255, '"a b,;"', f'"{"x" * 255}"'):
        assert key_of(value) != key_of("other")
    for values in (
        *[("",), ("a b",), ("a,b",), ("a;b",), ('"a',), ('""',), ('"a\\b"',), ('"a"; b=1',)],
        *[("ä",), ("a", "a")],
    ):
        with pytest.raises(InvalidIdempotencyKey):
            key_of(*values)
    for value in ("x" * 256, f'"{"x" * 256}"'):
        with pytest.raises(InvalidIdempotencyKey, match="255"):
            key_of(value)
    assert key_of('"a"') == key_of("a")
    assert key_of(r'"\"\\"').id != key_of('"a"').id


def test_clients_do_not_share_keys() -> None:
    clients = [None, "None", "ci", "ci' x", "\ud800"]
    issued = [("ci", issuer) for issuer in ("https://id.example.com", "https://id.example.net")]
    pairs = [*((client, None) for client in clients), *issued]
    assert len({key_of("a", client=value, issuer=issuer).id for value, issuer in pairs}) == len(
        pairs
    )
    assert key_of("a", client="ci") == key_of("a", client="ci")
    assert key_of("a", path="/\udc80").id == key_of("a").id
