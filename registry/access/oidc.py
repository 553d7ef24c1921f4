"""Access tokens of an OpenID Connect issuer: JSON Web Tokens (RFC 7519, RFC 9068), and its keys."""

import asyncio
import logging
import time
import warnings
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from time import monotonic
from typing import Any

import orjson
from aiohttp import ClientError, ClientSession, DummyCookieJar
from joserfc import jwt
from joserfc.errors import (
    BadSignatureError,
    ClaimError,
    ExpiredTokenError,
    InvalidPayloadError,
    JoseError,
    SecurityWarning,
)
from joserfc.jwk import Key, import_key
from joserfc.jws import JWSRegistry, extract_compact

from registry.access import secure_url
from registry.access.principal import Principal, digest_of
from registry.jsonapi.error_types import InvalidToken, IssuerUnavailable, retry_after

_REFRESH_SECONDS = 300.0
"""Interval at which keys are read, so that keys the issuer has removed are not accepted."""

_PAUSE_SECONDS = 10.0
"""Time between two attempts to read keys, however many unknown keys and errors there are."""

_STALE_SECONDS = 3_600.0
"""How long keys are used while they cannot be read again."""

_READ_SECONDS = 5.0
"""The time that an attempt may take."""

_MAX_RESPONSE = 2**18
"""Bytes of a response of the issuer."""

_MAX_TOKEN_LENGTH = 8_192

_MAX_SUBJECT_LENGTH = 255
"""Characters of the claim `sub` (OpenID Connect Core 1.0, 2)."""

_LEEWAY = 30
"""Seconds by which the clocks of the issuer and of the service may differ."""

_MAX_VERIFIED = 10_000
"""Verified tokens that are kept, in about 5 MB."""

_KEY_TYPES = {"RS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}
"""The accepted signature algorithms (`alg`), and the type of key (`kty`) that each requires."""

_TOKEN_TYPES = {"at+jwt", "application/at+jwt", "jwt"}
"""Values of the header `typ`, in lower case. Many issuers do not use that of RFC 9068 yet."""

KeyName = tuple[str, str]
"""The id of a key (`kid`) and its type (`kty`), which may share ids (RFC 7517, 4.5)."""

_log = logging.getLogger("registry")


class _Registry(JWSRegistry):
    """Algorithms as joserfc implements them, without its warning for the name EdDSA (RFC 9864)."""

    def get_alg(self, name: str) -> Any:
        """Return the implementation of an algorithm, which is one of _KEY_TYPES."""
        return self.algorithms[name]


_REGISTRY = _Registry(strict_check_header=False)


class OidcVerifier:
    """Verifies access tokens of one issuer, and keeps the result until a token expires.

    issuer: the value of `iss`. audience: a value of `aud`. scope_claim: the claim with the scopes,
    an array or a text with spaces between them. known_scopes: those of the service, which ignores
    all others.
    """

    def __init__(
        self, issuer: str, audience: str, scope_claim: str, known_scopes: frozenset[str]
    ) -> None:
        self._issuer, self._scope_claim, self._known_scopes = issuer, scope_claim, known_scopes
        self._claims = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
            sub={"essential": True},
        )
        self._verified = OrderedDict[bytes, tuple[Principal, float]]()  # and when they expire
        self._keys = _IssuerKeys(issuer, self._verified.clear)
        self.refreshed_keys = self._keys.refreshed

    def recall(self, token: str) -> Principal | None:
        """Return the principal of a token that was verified before, unless it has expired since."""
        digest = digest_of(token)
        principal, expires = self._verified.get(digest, (None, 0.0))
        if principal is None or expires <= time.time():
            return None
        self._verified.move_to_end(digest)
        return principal

    async def verify(self, token: str) -> Principal:
        """Return the principal of a valid token. Raises InvalidToken or IssuerUnavailable."""
        if len(token) > _MAX_TOKEN_LENGTH or not token.isascii():
            raise InvalidToken(
                f"An access token is at most {_MAX_TOKEN_LENGTH} ASCII characters long."
            )
        claims = await self._verified_claims(token)
        subject: str = claims["sub"]
        if len(subject) > _MAX_SUBJECT_LENGTH or not subject.isprintable():
            raise InvalidToken(
                f"The claim `sub` of the access token is longer than {_MAX_SUBJECT_LENGTH} "
                "characters or not printable."
            )
        principal = Principal(subject, self._scopes(claims), self._issuer)
        self._verified[digest_of(token)] = principal, claims["exp"] + _LEEWAY
        if len(self._verified) > _MAX_VERIFIED:
            self._verified.popitem(last=False)
        return principal

    async def _verified_claims(self, token: str) -> dict[str, Any]:
        """Return the claims after all checks of RFC 9068, 4, except those of the scopes."""
        key = await self._keys.key(_key_name(token))
        if not key:
            raise InvalidToken("The issuer does not have the key of the access token.")
        try:
            claims = jwt.decode(token, key, registry=_REGISTRY).claims
            self._claims.validate(claims)
        except BadSignatureError as error:
            raise InvalidToken("The signature of the access token is not valid.") from error
        except (InvalidPayloadError, RecursionError) as error:
            raise InvalidToken("The claims of the access token are not a JSON object.") from error
        except ExpiredTokenError as error:
            raise InvalidToken("The access token has expired.") from error
        except ClaimError as error:
            raise InvalidToken(
                f"The claim `{error.claim}` of the access token is missing or not accepted."
            ) from error
        except JoseError as error:  # a malformed header, or a key for another algorithm or curve
            raise InvalidToken("The header of the access token does not fit its key.") from error
        if "cnf" in claims:  # RFC 7800: of mutual TLS (RFC 8705) or DPoP (RFC 9449)
            raise InvalidToken(
                "The access token is bound to its sender by the claim `cnf`, which the service "
                "cannot check."
            )
        return claims

    def _scopes(self, claims: dict[str, Any]) -> frozenset[str]:
        value = claims.get(self._scope_claim, [])
        scopes = value.split(" ") if isinstance(value, str) else value
        if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
            raise InvalidToken(
                f"The claim `{self._scope_claim}` of the access token is neither a text nor an "
                "array of texts."
            )
        return self._known_scopes.intersection(scopes)


def _key_name(token: str) -> KeyName:
    """Return the name of the key in the header of a token; nothing is verified yet.

    Keys and addresses of keys in the header are ignored: anyone could have put them there.
    """
    try:
        header: object = extract_compact(token.encode(), registry=_REGISTRY).headers()
    except JoseError as error:
        raise InvalidToken("The access token is not a signed JSON Web Token.") from error
    if not isinstance(header, dict):
        raise InvalidToken("The header of the access token is not a JSON object.")
    algorithm, kid, type_ = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or algorithm not in _KEY_TYPES:
        raise InvalidToken(f"Access tokens have to be signed with {', '.join(_KEY_TYPES)}.")
    if not isinstance(kid, str):
        raise InvalidToken("The header of the access token does not name its key with `kid`.")
    if not isinstance(type_, str) or type_.lower() not in _TOKEN_TYPES:
        raise InvalidToken("The header `typ` of the access token is not that of an access token.")
    if "crit" in header:  # RFC 7515, 4.1.11
        raise InvalidToken("The header of the access token has extensions that are not supported.")
    return kid, _KEY_TYPES[algorithm]


class _IssuerKeys:
    """Reads the key set of an issuer (RFC 7517) repeatedly. on_change: called after changes."""

    def __init__(self, issuer: str, on_change: Callable[[], object]) -> None:
        self._issuer = issuer
        self._on_change = on_change
        self._keys: dict[KeyName, Key] = {}
        self._attempt: asyncio.Task[None] | None = None
        self._attempted_at = self._read_at = -inf
        self._has_failed = False

    @asynccontextmanager
    async def refreshed(self) -> AsyncIterator[None]:
        """Refresh the keys, at once and periodically, until the context ends."""
        periodic = asyncio.create_task(self._refresh_periodically())
        try:
            yield
        finally:
            tasks = [task for task in (periodic, self._attempt) if task]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def key(self, name: KeyName) -> Key | None:
        """Return a key; None if the issuer does not have it. Raises IssuerUnavailable."""
        if name not in self._keys:
            await self._refresh()
        key = self._keys.get(name)
        if not key and self._has_failed:
            raise IssuerUnavailable(
                "The keys of the OpenID Connect issuer cannot be read.",
                headers=retry_after(self._seconds_to_attempt()),
            )
        return key

    async def _refresh_periodically(self) -> None:
        while True:
            await self._refresh()
            await asyncio.sleep(_REFRESH_SECONDS)

    async def _refresh(self) -> None:
        """Wait for the attempt under way, or for a new one unless the last was just before."""
        if not self._attempt or self._attempt.done():
            if self._seconds_to_attempt() > 0:
                return
            self._attempted_at = monotonic()
            self._attempt = asyncio.create_task(self._read())
        await asyncio.shield(self._attempt)  # from the disconnect of one of several waiting clients

    def _seconds_to_attempt(self) -> float:
        return self._attempted_at + _PAUSE_SECONDS - monotonic()

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                keys = await self._fetch()
        except (ClientError, TimeoutError, ValueError) as error:
            reason = str(error) or type(error).__name__
            _log.error("cannot read the keys of the issuer %s: %.300a", self._issuer, reason)
            self._has_failed = True
            keys = {} if monotonic() - self._read_at > _STALE_SECONDS else self._keys
        else:
            self._has_failed = False
            self._read_at = monotonic()
        if keys != self._keys:
            self._keys = keys
            self._on_change()

    async def _fetch(self) -> dict[KeyName, Key]:
        """Read the keys (OpenID Connect Discovery 1.0, 4). Raises ClientError or ValueError."""
        async with ClientSession(cookie_jar=DummyCookieJar()) as session:
            url = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
            configuration = await _get(session, url)
            if configuration.get("issuer") != self._issuer:
                raise ValueError(f"{url} is the configuration of another issuer")
            document = await _get(session, secure_url(str(configuration.get("jwks_uri"))))
        return _usable_keys(document)


async def _get(session: ClientSession, url: str) -> dict[str, Any]:
    body = bytearray()
    # A redirect could lead to an address without TLS, or within the network of the service.
    async with session.get(url, allow_redirects=False) as response:
        if response.status != 200:
            raise ValueError(f"{url} responded with status {response.status}")
        async for part in response.content.iter_any():
            body += part
            if len(body) > _MAX_RESPONSE:
                raise ValueError(f"{url} has more than {_MAX_RESPONSE} bytes")
    document = orjson.loads(body)
    if not isinstance(document, dict):
        raise ValueError(f"{url} is not a JSON object")  # noqa: TRY004 - it is invalid data
    return document


def _usable_keys(document: dict[str, Any]) -> dict[KeyName, Key]:
    """Return the keys that can be used; others are ignored, as RFC 7517, 5 requires."""
    members = document.get("keys")
    if not isinstance(members, list):
        raise ValueError("the key set has no array `keys`")  # noqa: TRY004 - it is invalid data
    named = [jwk for jwk in members if isinstance(jwk, dict) and isinstance(jwk.get("kid"), str)]
    keys = dict[KeyName, Key]()
    for jwk in named:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", SecurityWarning)  # RSA keys of less than 2048 bits
                keys[jwk["kid"], jwk["kty"]] = import_key(jwk)
        except (JoseError, SecurityWarning, KeyError, TypeError, ValueError):
            _log.warning("ignored the key %.100a of the issuer, which is not valid", jwk["kid"])
    return keys
