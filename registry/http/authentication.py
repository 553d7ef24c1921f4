"""Authentication: the access token of a request -> its principal (RFC 6750)."""

from aiohttp import hdrs, web

from registry.access.oidc import ClaimRules, OidcVerifier
from registry.access.principal import Principal, known_scopes
from registry.access.tokens import PREFIX, check_form, digest_of
from registry.jsonapi.error_types import InvalidAuthorization
from registry.model.graph import Graph
from registry.settings import Settings
from registry.storage import TokenLookups


class Authenticator:
    """Finds the principals of access tokens.

    oidc: verifies the tokens of an OpenID Connect issuer; None if only those of the service count.
    """

    def __init__(self, lookups: TokenLookups, oidc: OidcVerifier | None = None) -> None:
        self._lookups = lookups
        self._oidc = oidc

    def recall(self, token: str) -> Principal | None:
        """Return the principal of a token that was verified before, if that still counts."""
        if token.startswith(PREFIX):
            return self._lookups.recall(digest_of(token))
        return self._oidc.recall(token) if self._oidc else None

    async def check(self, token: str) -> None:
        """Raise as `verify` does unless the token still counts."""
        if self.recall(token) is None:
            await self.verify(token)

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token.

        Raises InvalidToken; or KeysUnavailable, Unavailable or BulkheadFull.
        """
        if self._oidc and not token.startswith(PREFIX):
            return await self._oidc.verify(token)
        check_form(token)
        return await self._lookups.find(digest_of(token))


def oidc_verifier(settings: Settings, graph: Graph) -> OidcVerifier | None:
    """Return the verifier of the issuer's tokens, None without an issuer or without access control.

    graph: all types; scopes that name none of them are ignored.
    """
    issuer, audience = settings.oidc_issuer, settings.oidc_audience
    if not settings.requires_tokens or issuer is None or audience is None:
        return None
    scopes = known_scopes(graph.values())
    return OidcVerifier(ClaimRules(issuer, audience, settings.oidc_scope_claim, scopes))


def bearer_token(request: web.BaseRequest) -> str | None:
    """Return the access token of a request (RFC 6750, 2.1).

    None if there is none or it has another scheme. Raises InvalidAuthorization if there are several
    or none after the scheme. The form of the token is left to its verification.
    """
    values = request.headers.getall(hdrs.AUTHORIZATION, ())
    if not values:
        return None
    if len(values) > 1:
        raise InvalidAuthorization("The header `Authorization` is given more than once.")
    scheme, _, token = values[0].partition(" ")
    if scheme.lower() != "bearer":
        return None
    if not (stripped := token.strip()):
        raise InvalidAuthorization("There is no access token in the header `Authorization`.")
    return stripped
