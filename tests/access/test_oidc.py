"""Access tokens of a real OpenID Connect provider, and tokens that attackers could make."""

import hmac
import time
from typing import Any

import orjson
import pytest
from joserfc.jwk import OctKey

from registry.access.oidc import OidcVerifier
from registry.access.principal import Principal
from registry.jsonapi.error_types import InvalidToken
from tests.access.conftest import StartVerifier
from tests.access.provider import AUDIENCE, Provider, base64url, generated, sign

NOW = 1_800_000_000

ALGORITHMS = pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])

INVALID_CLAIMS: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://issuer.example.com"},
    "an issuer in an array": {"iss": ["https://issuer.example.com"]},
    "no issuer": {"iss": None},
    "another audience": {"aud": "https://other.example.com"},
    "several other audiences": {"aud": [f"{AUDIENCE}/", "registry"]},
    "an audience that contains ours": {"aud": f"{AUDIENCE}.example.org"},
    "an audience that is no text": {"aud": {AUDIENCE: AUDIENCE}},
    "no audience": {"aud": None},
    "no time of expiry": {"exp": None},
    "a time of expiry that is a text": {"exp": str(NOW + 600)},
    "a time of expiry that is true": {"exp": True},
    "a time of expiry 30 s ago": {"exp": NOW - 30},
    "a first moment in 31 s": {"nbf": NOW + 31},
    "a first moment that is a text": {"nbf": "now"},
    "a time of issue in 31 s": {"iat": NOW + 31},
    "a time of issue that is an object": {"iat": {}},
    "no subject": {"sub": None},
    "an empty subject": {"sub": ""},
    "a subject that is a number": {"sub": 7},
    "a subject of 256 characters": {"sub": "s" * 256},
    "a subject with a line feed": {"sub": "ci\nroot"},
    "a key of the sender, as in DPoP": {
        "cnf": {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}
    },
    "a certificate of the sender": {
        "cnf": {"x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"}
    },
    "a bond to the sender that is empty": {"cnf": {}},
    "scopes that are a number": {"scope": 7},
    "scopes in an array of numbers": {"scope": [7]},
}

VALID_CLAIMS: dict[str, dict[str, Any]] = {
    "a time of expiry 29 s ago": {"exp": NOW - 29},
    "a time of expiry with a fraction": {"exp": NOW + 0.5},
    "a first moment in 30 s": {"nbf": NOW + 30},
    "a time of issue in 30 s": {"iat": NOW + 30},
    "no time of issue": {"iat": None},
    "several audiences": {"aud": ["https://other.example.com", AUDIENCE]},
    "unknown claims": {"email": "ci@example.com", "validate": {"a": [1]}},
}

INVALID_HEADERS: dict[str, dict[str, Any]] = {
    "an unsupported algorithm": {"alg": "PS256"},
    "an algorithm that is an array": {"alg": ["ES256"]},
    "no algorithm": {"alg": None},
    "no signature": {"alg": "none"},
    "the key of another algorithm": {"alg": "ES256", "kid": "first-RS256"},
    "the algorithm of another key": {"alg": "RS256"},
    "an unknown key": {"kid": "unknown"},
    "no key": {"kid": None},
    "a key that is a number": {"kid": 1},
    "an extension": {"crit": ["exp"], "exp": NOW + 600},
    "an extension that is a number": {"crit": 5},
    "an unencoded payload": {"crit": ["b64"], "b64": False},
    "an unencoded payload without crit": {"b64": False},
    "the type of another token": {"typ": "logout+jwt"},
    "a type that is a number": {"typ": 1},
    "an address that is a number": {"jku": 1},
    "a kid of 400 characters": {"kid": "k" * 400},
}

MALFORMED = {
    "nothing": "",
    "one part": "e30",
    "two parts": "e30.e30",
    "three empty parts": "..",
    "five parts, as an encrypted token has": "e30.e30.e30.e30.e30",
    "a header that is not base64": "%%%.e30.e30",
    "a header with padding": "e30=.e30.e30",
    "a header that is not UTF-8": base64url(b"\xff") + ".e30.e30",
    "a header that is an array": base64url(b'["alg"]') + ".e30.e30",
    "a header that is a text": base64url(b'"alg"') + ".e30.e30",
    "a header that is a number": base64url(b"5") + ".e30.e30",
    "a header of nested arrays": base64url(b"[" * 380) + ".e30.e30",
    "characters that are not ASCII": "é.e30.e30",
    "a lone surrogate": "\udce9.e30.e30",
    "100 kB": "e" * 100_000,
}


@pytest.fixture
async def verifier(start_verifier: StartVerifier, provider: Provider) -> OidcVerifier:
    return await start_verifier(provider.issuer)


@pytest.fixture
def fixed_time(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The time is NOW."""
    monkeypatch.setattr(time, "time", lambda: float(NOW))
    return monkeypatch


async def reason(verifier: OidcVerifier, token: str) -> str:
    """Return why a token is refused; `error_description` can have the text (RFC 6750, 3)."""
    with pytest.raises(InvalidToken) as refused:
        await verifier.verify(token)
    text = refused.value.detail
    assert text.isascii()
    assert text.isprintable()
    assert not {'"', "\\"} & set(text)
    assert not [part for part in token.split(".") if len(part) > 4 and part in text]
    return text


@ALGORITHMS
async def test_a_token_of_the_provider_names_its_client_and_scopes(
    algorithm: str, provider: Provider, verifier: OidcVerifier
) -> None:
    principal = await verifier.verify(await provider.token(algorithm))

    assert principal == Principal("ci", frozenset({"read", "persons:write"}), provider.issuer)


@pytest.mark.parametrize("rule", VALID_CLAIMS)
@pytest.mark.usefixtures("fixed_time")
async def test_a_token_with_valid_claims_is_accepted(
    rule: str, provider: Provider, verifier: OidcVerifier
) -> None:
    assert await verifier.verify(provider.signed(**VALID_CLAIMS[rule]))


@pytest.mark.parametrize("defect", INVALID_CLAIMS)
@pytest.mark.usefixtures("fixed_time")
async def test_a_token_with_invalid_claims_is_refused(
    defect: str, provider: Provider, verifier: OidcVerifier
) -> None:
    (claim,) = INVALID_CLAIMS[defect]
    text = await reason(verifier, provider.signed(**INVALID_CLAIMS[defect]))

    assert f"`{claim}`" in text or text == "The access token has expired."


@pytest.mark.parametrize(
    ("claims", "named"),
    [*((value, "JSON") for value in (b"[]", b'"ci"', b"{", b"[" * 5_000)), (None, "`exp`")],
)
async def test_claims_that_are_not_a_json_object_of_finite_numbers_are_refused(
    claims: bytes | None, named: str, provider: Provider, verifier: OidcVerifier
) -> None:
    if claims is None:
        claims = orjson.dumps(provider.claims(exp=0)).replace(b'"exp":0', b'"exp":NaN')
    key = provider.keys["ES256"]
    token = sign({"alg": "ES256", "kid": key.kid}, claims, "ES256", key)

    assert named in await reason(verifier, token)


@pytest.mark.parametrize("defect", INVALID_HEADERS)
async def test_a_token_with_an_invalid_header_is_refused(
    defect: str, provider: Provider, verifier: OidcVerifier
) -> None:
    token = provider.signed(header=INVALID_HEADERS[defect])

    assert "signature" not in await reason(verifier, token)


@pytest.mark.parametrize("defect", MALFORMED)
async def test_a_malformed_token_is_refused(defect: str, verifier: OidcVerifier) -> None:
    assert await reason(verifier, MALFORMED[defect])


async def test_a_token_of_more_than_8_kib_is_refused(
    provider: Provider, verifier: OidcVerifier
) -> None:
    assert "8192" in await reason(verifier, provider.signed(groups="g" * 6_000))


async def test_the_usual_types_of_access_tokens_are_accepted(
    provider: Provider, verifier: OidcVerifier
) -> None:
    for type_ in ("at+jwt", "application/at+jwt", "AT+JWT", "JWT"):
        assert await verifier.verify(provider.signed(header={"typ": type_}))


@pytest.mark.parametrize("encoding", ["PEM", "DER"])
async def test_a_public_key_is_not_accepted_as_the_secret_of_a_mac(
    encoding: Any, provider: Provider, verifier: OidcVerifier
) -> None:
    key = provider.keys["RS256"]
    assert not isinstance(key, OctKey)
    signed = provider.signed("RS256", header={"alg": "HS256"}).rpartition(".")[0]
    mac = hmac.digest(key.as_bytes(encoding), signed.encode(), "sha256")
    token = f"{signed}.{base64url(mac)}"

    assert "signed with" in await reason(verifier, token)


@pytest.mark.parametrize("header", ["jwk", "jku", "x5u", "x5c"])
async def test_a_key_in_the_header_is_ignored(
    header: str, provider: Provider, verifier: OidcVerifier
) -> None:
    forged = generated("first", "ES256")["ES256"]
    public = forged.as_dict()
    value: Any = {"jwk": public, "x5c": [public["x"]]}.get(header, f"{provider.issuer}/jwks")
    claims = orjson.dumps(provider.claims())
    token = sign({"alg": "ES256", "kid": forged.kid, header: value}, claims, "ES256", forged)

    assert "signature" in await reason(verifier, token)
    assert await verifier.verify(provider.signed(header={header: value}))


@ALGORITHMS
async def test_a_changed_token_is_refused(
    algorithm: str, provider: Provider, verifier: OidcVerifier
) -> None:
    token = provider.signed(algorithm)
    header, claims, signature = token.split(".")
    other_claims = provider.signed(algorithm, scope="write").split(".")[1]
    await verifier.verify(token)

    for changed in (other_claims, signature), (claims, base64url(b"s" * 64)), (claims, ""):
        assert "signature" in await reason(verifier, ".".join((header, *changed)))


@pytest.mark.parametrize("value", ["read  billing write:all", ["read", "billing", "Read"]])
async def test_scopes_are_a_text_or_an_array_in_the_configured_claim(
    value: object, provider: Provider, start_verifier: StartVerifier
) -> None:
    verifier = await start_verifier(provider.issuer, scope_claim="permissions")
    principal = await verifier.verify(provider.signed(scope="write", permissions=value))

    assert principal.scopes == {"read"}


async def test_a_verified_token_is_recalled_until_it_expires(
    provider: Provider, verifier: OidcVerifier, fixed_time: pytest.MonkeyPatch
) -> None:
    token = provider.signed(exp=NOW + 100)
    await verifier.verify(token)

    fixed_time.setattr(time, "time", lambda: NOW + 129.9)
    assert verifier.recall(token)
    fixed_time.setattr(time, "time", lambda: NOW + 130.0)
    assert verifier.recall(token) is None
    assert "expired" in await reason(verifier, token)
