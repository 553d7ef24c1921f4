"""Access tokens of an OpenID Connect issuer: JSON Web Tokens (RFC 7519, RFC 9068)."""

import time
from collections import OrderedDict
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import orjson
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError
from joserfc.jws import CompactSignature, JWSRegistry, extract_compact, validate_compact
from joserfc.jwt import JWTClaimsRegistry

from registry.access.jwks import KEY_TYPES, JwksClient, JwksLimits
from registry.access.principal import InvalidToken, Principal
from registry.access.token_form import digest_of

_MAX_TOKEN_LENGTH = 8_192

_MAX_SUBJECT_LENGTH = 255
"""Characters of the claim `sub` (OpenID Connect Core 1.0, 2)."""

_LEEWAY = 30
"""Seconds by which the clocks of the issuer and of the service may differ."""

_MAX_VERIFIED = 10_000
"""Verified tokens that are kept, in about 5 MB."""

_TOKEN_TYPES = {"at+jwt", "application/at+jwt", "jwt"}
"""Values of the header `typ`, in lower case. Many issuers do not use that of RFC 9068 yet."""


class _Registry(JWSRegistry):
    """Algorithms as joserfc implements them, without its warning for the name EdDSA (RFC 9864)."""

    def get_alg(self, name: str) -> Any:
        """Return the implementation of an algorithm, which is one of KEY_TYPES."""
        return self.algorithms[name]


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What the claims of an access token must contain.

    issuer: the value of `iss`. audience: a value of `aud`. scope_claim: the claim with the scopes,
    an array or a text with spaces between them. known_scopes: those of the service, which ignores
    all others.
    """

    issuer: str
    audience: str
    scope_claim: str
    known_scopes: frozenset[str]


class OidcVerifier:
    """Verifies access tokens of one issuer, and keeps the result until a token expires."""

    def __init__(self, rules: ClaimRules, limits: JwksLimits = JwksLimits()) -> None:  # noqa: B008 - immutable
        self._rules = rules
        self._claims = JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": rules.issuer},
            aud={"essential": True, "value": rules.audience},
            exp={"essential": True},
            sub={"essential": True},
        )
        self._registry = _Registry(strict_check_header=False)
        self._verified = OrderedDict[bytes, tuple[Principal, float]]()  # and when they expire
        self._jwks = JwksClient(rules.issuer, self._verified.clear, limits)

    def refreshed_keys(self) -> AbstractAsyncContextManager[None]:
        """Return the context in which tokens can be verified: it keeps the keys up to date."""
        return self._jwks.refreshed()

    def recall(self, token: str) -> Principal | None:
        """Return the principal of a token that was verified before, unless it has expired since."""
        digest = digest_of(token)
        principal, expires = self._verified.get(digest, (None, 0.0))
        if principal is None or expires <= time.time():
            return None
        self._verified.move_to_end(digest)
        return principal

    async def verify(self, token: str) -> Principal:
        """Return the principal that the claims `sub` and the one with the scopes describe.

        It can be recalled until the token expires or its key is no longer one of the issuer. Raises
        InvalidToken, or KeysUnavailable if the keys of the issuer cannot be read.
        """
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
        principal = Principal(subject, self._scopes(claims), self._rules.issuer)
        self._verified[digest_of(token)] = principal, claims["exp"] + _LEEWAY
        if len(self._verified) > _MAX_VERIFIED:
            self._verified.popitem(last=False)
        return principal

    async def _verified_claims(self, token: str) -> dict[str, Any]:
        """Return the claims after all checks of RFC 9068, 4, but for those of the scopes."""
        signature = _parse(token, self._registry)
        header = signature.headers()
        key = await self._jwks.key((header["kid"], KEY_TYPES[header["alg"]]))
        if not key:
            raise InvalidToken("The issuer does not have the key of the access token.")
        try:
            is_valid = validate_compact(signature, key, registry=self._registry)
        except JoseError as error:  # a malformed header, or a key for another algorithm or curve
            raise InvalidToken("The header of the access token does not fit its key.") from error
        if not is_valid:
            raise InvalidToken("The signature of the access token is not valid.")
        try:
            claims = orjson.loads(signature.payload)
        except orjson.JSONDecodeError as error:
            raise InvalidToken("The claims of the access token are not valid JSON.") from error
        if not isinstance(claims, dict):
            raise InvalidToken("The claims of the access token are not a JSON object.")
        try:
            self._claims.validate(claims)
        except ExpiredTokenError as error:
            raise InvalidToken("The access token has expired.") from error
        except ClaimError as error:
            raise InvalidToken(
                f"The claim `{error.claim}` of the access token is missing or not accepted."
            ) from error
        if "cnf" in claims:  # RFC 7800: of mutual TLS (RFC 8705) or DPoP (RFC 9449)
            raise InvalidToken(
                "The access token is bound to its sender by the claim `cnf`, which the service "
                "cannot check."
            )
        return claims

    def _scopes(self, claims: dict[str, Any]) -> frozenset[str]:
        value = claims.get(self._rules.scope_claim, [])
        scopes = value.split(" ") if isinstance(value, str) else value
        if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
            raise InvalidToken(
                f"The claim `{self._rules.scope_claim}` of the access token is neither a text nor "
                "an array of texts."
            )
        return self._rules.known_scopes.intersection(scopes)


def _parse(token: str, registry: JWSRegistry) -> CompactSignature:
    """Return the parts of a JSON Web Token, of which none is verified.

    Its header has `alg`, which is one of KEY_TYPES, and `kid`. Keys and addresses of keys in the
    header are ignored: anyone could have put them there.
    """
    try:
        signature = extract_compact(token.encode(), registry=registry)
    except JoseError as error:
        raise InvalidToken("The access token is not a signed JSON Web Token.") from error
    header: object = signature.headers()
    if not isinstance(header, dict):
        raise InvalidToken("The header of the access token is not a JSON object.")
    algorithm, kid, type_ = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or algorithm not in KEY_TYPES:
        raise InvalidToken(f"Access tokens have to be signed with {', '.join(KEY_TYPES)}.")
    if not isinstance(kid, str):
        raise InvalidToken("The header of the access token does not name its key with `kid`.")
    if not isinstance(type_, str) or type_.lower() not in _TOKEN_TYPES:
        raise InvalidToken("The header `typ` of the access token is not that of an access token.")
    if "crit" in header:  # RFC 7515, 4.1.11
        raise InvalidToken("The header of the access token has extensions that are not supported.")
    return signature
