"""The keys of an issuer: rotation, an issuer that is unavailable, and limits."""

import asyncio
import warnings
from typing import Any

import orjson
import pytest
from aiohttp import web
from joserfc.errors import SecurityWarning
from joserfc.jwk import RSAKey
from pytest_aiohttp.plugin import AiohttpServer

from registry.access import oidc
from registry.access.oidc import OidcVerifier
from registry.jsonapi.error_types import InvalidToken, IssuerUnavailable
from tests.access.conftest import Clock, StartVerifier
from tests.access.provider import Keys, Provider, generated, key_set

TIMEOUT = 30
"""Seconds for what takes a few milliseconds."""

UNUSABLE: dict[str, Any] = {
    "a text": "key",
    "an array": [],
    "no type": {"kid": "other"},
    "a secret": {"kty": "oct", "kid": "other", "k": "c2VjcmV0"},
    "an unknown type": {"kty": ["RSA"], "kid": "other"},
    "no id": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
    "an id that is a number": {"kty": "EC", "kid": 1, "crv": "P-256", "x": "AA", "y": "AA"},
    "no coordinates": {"kty": "EC", "kid": "other", "crv": "P-256"},
    "a point beside the curve": {"kty": "EC", "kid": "other", "crv": "P-256", "x": "AA", "y": "AA"},
    "an unknown curve": {"kty": "OKP", "kid": "other", "crv": "P-1", "x": "AA"},
    "no exponent": {"kty": "RSA", "kid": "other", "n": "AQAB", "e": ""},
    "an operation that is an object": {"kty": "RSA", "kid": "o", "use": "sig", "key_ops": [{}]},
}


class Issuer(Provider):
    """An issuer in this process, whose configuration and keys a test chooses.

    requests: how many it has had for its configuration, and for its keys. status: of the responses.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, generated("one", "ES256"))
        self.configuration: Any = {"issuer": url, "jwks_uri": f"{url}/jwks"}
        self.key_set: Any = key_set(self.keys)
        self.requests = 0
        self.status = 200

    def use(self, keys: Keys) -> None:
        """Replace the keys that it signs with and publishes."""
        self.keys, self.key_set = keys, key_set(keys)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        is_configuration = request.path == "/.well-known/openid-configuration"
        content = self.configuration if is_configuration else self.key_set
        if isinstance(content, Exception):
            raise content
        body = content if isinstance(content, bytes) else orjson.dumps(content)
        return web.Response(status=self.status, body=body)


@pytest.fixture
async def issuer(aiohttp_server: AiohttpServer, unused_tcp_port: int) -> Issuer:
    issuer = Issuer(f"http://127.0.0.1:{unused_tcp_port}")
    app = web.Application()
    app.router.add_get("/{path:.*}", issuer.respond)
    await aiohttp_server(app, port=unused_tcp_port)
    return issuer


@pytest.fixture
async def verifier(start_verifier: StartVerifier, issuer: Issuer) -> OidcVerifier:
    return await start_verifier(issuer.issuer)


async def seconds_until_retry(verifier: OidcVerifier, token: str) -> int:
    with pytest.raises(IssuerUnavailable) as unavailable:
        await verifier.verify(token)
    return int(unavailable.value.headers["Retry-After"])


async def is_accepted(verifier: OidcVerifier, token: str) -> bool:
    try:
        await verifier.verify(token)
    except InvalidToken:
        return False
    return True


@pytest.mark.parametrize(
    "algorithms",
    [{"two": "ES256"}, {"two": "EdDSA", "one": "ES256"}],
    ids=["removed", "replaced"],
)
async def test_a_verified_token_is_refused_when_its_key_is_no_longer_known(
    issuer: Issuer, clock: Clock, verifier: OidcVerifier, algorithms: dict[str, str]
) -> None:
    token = issuer.signed()
    await verifier.verify(token)
    keys = [generated(prefix, algorithm) for prefix, algorithm in algorithms.items()]
    issuer.use({name: key for each in keys for name, key in each.items()})
    clock.seconds += oidc._PAUSE_SECONDS
    await verifier.verify(issuer.signed(algorithms["two"]))

    assert verifier.recall(token) is None
    assert not await is_accepted(verifier, token)


async def test_removed_keys_are_noticed_without_a_token_of_a_new_key(
    issuer: Issuer, start_verifier: StartVerifier, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_REFRESH_SECONDS", 0.01)
    verifier = await start_verifier(issuer.issuer)
    token = issuer.signed()
    await verifier.verify(token)
    issuer.use(generated("two", "ES256"))

    clock.seconds += oidc._PAUSE_SECONDS
    async with asyncio.timeout(TIMEOUT):
        while verifier.recall(token):  # noqa: ASYNC110 - nothing else reports the refresh
            await asyncio.sleep(0.005)


async def test_keys_are_not_read_again_for_each_unknown_key(
    issuer: Issuer, clock: Clock, verifier: OidcVerifier
) -> None:
    await verifier.verify(issuer.signed())
    before = issuer.requests

    async def refuse(number: int) -> None:
        token = issuer.signed(header={"kid": f"unknown {number}"})
        assert not await is_accepted(verifier, token)

    await asyncio.gather(*map(refuse, range(100)))
    assert issuer.requests == before
    clock.seconds += oidc._PAUSE_SECONDS
    await asyncio.gather(*map(refuse, range(100)))
    await refuse(0)
    assert issuer.requests == before + 2


async def test_the_first_tokens_wait_for_the_keys_that_are_being_read(
    issuer: Issuer, start_verifier: StartVerifier
) -> None:
    verifier = await start_verifier(issuer.issuer)
    tokens = [issuer.signed(jti=str(number)) for number in range(10)]

    assert len(await asyncio.gather(*map(verifier.verify, tokens))) == 10
    assert issuer.requests == 2


async def test_a_client_that_disconnects_does_not_end_the_wait_of_others(
    issuer: Issuer, verifier: OidcVerifier
) -> None:
    first, second = (asyncio.create_task(verifier.verify(issuer.signed())) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()

    assert await second


async def test_tokens_are_verified_once_an_issuer_is_available(
    issuer: Issuer, start_verifier: StartVerifier, clock: Clock
) -> None:
    issuer.status = 503
    verifier = await start_verifier(issuer.issuer)
    token = issuer.signed()
    assert await seconds_until_retry(verifier, token) == oidc._PAUSE_SECONDS
    issuer.status = 200
    clock.seconds += 4.0
    assert await seconds_until_retry(verifier, token) == oidc._PAUSE_SECONDS - 4.0

    clock.seconds += 6.0
    assert await verifier.verify(token)


async def test_keys_are_used_for_a_limited_time_while_their_issuer_is_unavailable(
    issuer: Issuer, clock: Clock, verifier: OidcVerifier
) -> None:
    token = issuer.signed()
    await verifier.verify(token)
    issuer.status = 500
    unknown = issuer.signed(header={"kid": "unknown"})
    clock.seconds = oidc._STALE_SECONDS

    assert await seconds_until_retry(verifier, unknown)
    assert verifier.recall(token)
    assert await verifier.verify(issuer.signed(jti="another token"))
    clock.seconds += oidc._PAUSE_SECONDS
    assert await seconds_until_retry(verifier, unknown)
    assert verifier.recall(token) is None
    assert await seconds_until_retry(verifier, token)


@pytest.mark.parametrize("slash", ["", "/"])
async def test_the_path_of_an_issuer_may_end_with_a_slash(
    slash: str, issuer: Issuer, start_verifier: StartVerifier
) -> None:
    issuer.issuer += slash
    issuer.configuration["issuer"] = issuer.issuer
    verifier = await start_verifier(issuer.issuer)

    assert await verifier.verify(issuer.signed())


@pytest.mark.parametrize(
    "configuration",
    [
        {"issuer": "https://issuer.example.com"},
        {"issuer": None},
        {"jwks_uri": None},
        {"jwks_uri": 5},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "https://[::1"},
    ],
)
async def test_keys_are_not_read_with_an_invalid_configuration(
    configuration: dict[str, Any], issuer: Issuer, start_verifier: StartVerifier
) -> None:
    issuer.configuration |= configuration
    assert await seconds_until_retry(await start_verifier(issuer.issuer), issuer.signed())
    assert issuer.requests == 1


@pytest.mark.parametrize(
    "key_set",
    [
        b"",
        b"<html>",
        b"[]",
        {"keys": None},
        b'{"keys": [], "other": "' + b"o" * oidc._MAX_RESPONSE + b'"}',
        web.HTTPFound("/redirected"),
        web.HTTPNotFound(text='{"keys": []}'),
    ],
    ids=["empty", "HTML", "array", "no array", "too large", "redirect", "not found"],
)
async def test_an_invalid_key_set_is_not_used(
    key_set: Any, issuer: Issuer, start_verifier: StartVerifier
) -> None:
    issuer.key_set = key_set
    assert await seconds_until_retry(await start_verifier(issuer.issuer), issuer.signed())
    assert issuer.requests == 2


@pytest.mark.slow
async def test_an_issuer_that_does_not_respond_is_unavailable(
    start_verifier: StartVerifier, issuer: Issuer
) -> None:
    disconnected = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        disconnected.set()

    async with await asyncio.start_server(wait, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        verifier = await start_verifier(f"http://127.0.0.1:{port}")

        async with asyncio.timeout(TIMEOUT):
            assert await seconds_until_retry(verifier, issuer.signed())
            await disconnected.wait()


@pytest.mark.parametrize("defect", UNUSABLE)
async def test_an_unusable_key_does_not_keep_others_from_being_used(
    defect: str, issuer: Issuer, start_verifier: StartVerifier
) -> None:
    issuer.key_set["keys"].insert(0, UNUSABLE[defect])
    verifier = await start_verifier(issuer.issuer)

    assert await verifier.verify(issuer.signed())
    assert not await is_accepted(verifier, issuer.signed(header={"kid": "other"}))


@pytest.mark.parametrize("changes", [{"use": "enc"}, {"alg": "ES384"}, {"key_ops": ["sign"]}])
async def test_a_key_for_another_purpose_verifies_no_token(
    changes: dict[str, Any], issuer: Issuer, start_verifier: StartVerifier
) -> None:
    del issuer.key_set["keys"][0]["use"]
    issuer.key_set["keys"][0] |= changes
    assert not await is_accepted(await start_verifier(issuer.issuer), issuer.signed())


async def test_an_rsa_key_of_less_than_2048_bits_verifies_no_token(
    issuer: Issuer, start_verifier: StartVerifier
) -> None:
    with warnings.catch_warnings(action="ignore", category=SecurityWarning):
        key = RSAKey.generate_key(1024, {"kid": "short"})
    issuer.key_set["keys"].append(key.as_dict())
    with warnings.catch_warnings():  # which pytest would turn into errors
        warnings.simplefilter("default")
        verifier = await start_verifier(issuer.issuer)
        token = Provider(issuer.issuer, {"RS256": key}).signed("RS256")

        assert not await is_accepted(verifier, token)


async def test_keys_are_not_read_from_another_host_without_tls(
    issuer: Issuer, start_verifier: StartVerifier
) -> None:
    keys_url = issuer.configuration["jwks_uri"].replace("127.0.0.1", "0.0.0.0")  # noqa: S104 - reaches the issuer
    issuer.configuration["jwks_uri"] = keys_url
    assert await seconds_until_retry(await start_verifier(issuer.issuer), issuer.signed())


async def test_keys_of_different_types_may_have_the_same_id(
    issuer: Issuer, start_verifier: StartVerifier
) -> None:
    keys = generated("one", "ES256", "EdDSA")
    issuer.key_set = {"keys": [key.as_dict(private=False, kid="shared") for key in keys.values()]}
    verifier = await start_verifier(issuer.issuer)

    for algorithm in keys:
        token = Provider(issuer.issuer, keys).signed(algorithm, header={"kid": "shared"})
        assert await verifier.verify(token)
