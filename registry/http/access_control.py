"""Access control: the access token of a request -> its principal, and what that may do."""

import shlex

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from registry.access.authorization import authorize
from registry.access.oidc import OidcVerifier
from registry.access.principal import PREFIX, Principal, check_form, digest_of, known_scopes
from registry.http.addresses import PAGE_PATH, UI_PATH
from registry.http.routes import Route, TokenUse, route_of
from registry.jsonapi.error_types import AuthenticationRequired, InvalidAuthorization
from registry.model.graph import Graph
from registry.program import command, is_default
from registry.settings import Settings, flag
from registry.storage import TokenLookups, Tokens

PRINCIPAL = web.RequestKey("principal", Principal)
"""The sender of the request; set before the view is called, if the request has a token."""

_PUBLIC = (UI_PATH, PAGE_PATH)
"""Prefixes of the paths of files, which need no access token."""


class Authenticator:
    """Finds the principals of access tokens. oidc: for those of an issuer, if there is one."""

    def __init__(self, lookups: TokenLookups, oidc: OidcVerifier | None = None) -> None:
        self._lookups = lookups
        self._oidc = oidc

    async def verify(self, token: str) -> Principal:
        """Return the principal. Raises InvalidToken, IssuerUnavailable, or as `find`."""
        if self._oidc and not token.startswith(PREFIX):
            return self._oidc.recall(token) or await self._oidc.verify(token)
        if (principal := self._lookups.recall(digest := digest_of(token))) is not None:
            return principal
        check_form(token)
        return await self._lookups.find(digest)


def oidc_verifier(settings: Settings, graph: Graph) -> OidcVerifier | None:
    """Return the verifier of the tokens of the issuer, if the settings name one."""
    issuer, audience = settings.oidc_issuer, settings.oidc_audience
    if not settings.requires_tokens or issuer is None or audience is None:
        return None
    scopes = known_scopes(graph.writable)
    return OidcVerifier(issuer, audience, settings.oidc_scope_claim, scopes)


def bearer_token(request: web.BaseRequest) -> str | None:
    """Return the access token of a request (RFC 6750, 2.1); None without one.

    Raises InvalidAuthorization if there are several, or none after the scheme.
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


AUTHENTICATOR = web.AppKey("authenticator", Authenticator)


@web.middleware
async def check_access(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set the principal of a request, and check that it has the scopes its route requires.

    The view checks what query and document require in addition. Where there is no declared route,
    only `_PUBLIC` paths are open. OPTIONS only shows the methods of a path, and needs no token.
    Raises AuthenticationRequired, InvalidAuthorization, InvalidToken, IssuerUnavailable, ApiErrors.
    """
    route = route_of(request)
    if request.method == hdrs.METH_OPTIONS or _ignores_tokens(request, route):
        return await handler(request)
    if route is None and request.match_info.http_exception is None:
        raise web.HTTPForbidden
    token = bearer_token(request)
    if token is None:
        if route is not None and route.token is TokenUse.ACCEPTED:
            return await handler(request)
        raise AuthenticationRequired
    request[PRINCIPAL] = principal = await request.app[AUTHENTICATOR].verify(token)
    if route is not None:  # else 404 or 405, but only for an authenticated client
        authorize(principal, route.requirements.get(request.method, ()))
    return await handler(request)


def _ignores_tokens(request: web.Request, route: Route | None) -> bool:
    if route is not None:
        return route.token is TokenUse.IGNORED
    resource = request.match_info.route.resource
    # Without a resource nothing but 404 or 405 follows, so the path as it was sent suffices.
    path = request.path if resource is None else resource.canonical
    return path.startswith(_PUBLIC)


async def access_notice(settings: Settings, tokens: Tokens) -> str:
    """Return what the operator may have missed: a sentence without a period, "" if nothing."""
    if not settings.requires_tokens or settings.oidc_issuer or await tokens.has_any():
        return ""
    # In the database that the service uses.
    words = [*command("token"), "create", "--name", "NAME", "--scope", "write"]
    defaults = Settings()
    if not is_default(settings.data_dir):
        words += [flag("data_dir"), str(settings.data_dir.absolute())]
    if settings.database != defaults.database:
        words += [flag("database"), settings.database]
    return f"No access token exists yet; `{shlex.join(words)}` creates one"
