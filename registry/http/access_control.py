"""What a request needs before its view is called: an access token with the scopes, and a slot.

A route declares both. A request that may take much memory waits for a slot of its bulkhead.
"""

import shlex
from collections.abc import Awaitable

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from registry.access.authorization import authorize
from registry.access.oidc import OidcVerifier
from registry.access.principal import PREFIX, Principal, check_form, digest_of, known_scopes
from registry.http.addresses import PAGE_PATH, UI_PATH
from registry.http.app_keys import ADDRESSES, LIMITS, REPOSITORY
from registry.http.routes import Cost, Route, TokenUse, route_of
from registry.jsonapi.content_negotiation import csv_charset
from registry.jsonapi.error_types import AuthenticationRequired, InvalidAuthorization
from registry.model.graph import Graph
from registry.offloading import MAX_INLINE_BYTES, pause
from registry.program import command, is_default
from registry.settings import Settings, flag
from registry.storage import Bulkhead, TokenLookups, Tokens

PRINCIPAL = web.RequestKey("principal", Principal)
"""The sender of the request; set before the view is called, if the request has a token."""

_PUBLIC = (UI_PATH, PAGE_PATH)
"""Prefixes of the paths of files, which need no access token."""

_LONG_TARGET = 1_000
"""Characters of a request target. Longer queries may take milliseconds to parse: one is parsed per
iteration of the event loop, and none whose client has disconnected by then."""


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
    Raises RequestError if the token is missing or not valid, or lacks a scope.
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


@web.middleware
def admit(request: web.Request, handler: Handler) -> Awaitable[web.StreamResponse]:
    """Let a request begin once there is a slot for what its route may cost.

    Raises HTTPMethodNotAllowed, or Overloaded.
    """
    route = route_of(request)
    if route is None:
        return handler(request)
    needs = route.needs.get(request.method)
    if needs is None:
        raise web.HTTPMethodNotAllowed(request.method, route.methods)
    bulkhead = None if needs.cost is Cost.SMALL else _bulkhead(request, needs.cost)
    if bulkhead is None and len(request.raw_path) <= _LONG_TARGET:
        return handler(request)
    return _wait(request, handler, bulkhead)


async def _wait(
    request: web.Request, handler: Handler, bulkhead: Bulkhead | None
) -> web.StreamResponse:
    if len(request.raw_path) > _LONG_TARGET:
        await pause()
    if bulkhead is None:
        return await handler(request)
    async with bulkhead.slot(request.app[ADDRESSES].client_network(request)):
        return await handler(request)


def _bulkhead(request: web.Request, cost: Cost) -> Bulkhead | None:
    """Return the bulkhead of a request; None for a body that is small."""
    bulkheads = request.app[REPOSITORY].bulkheads
    if cost is Cost.FOLLOWER:
        return bulkheads.followers
    return bulkheads.uploads if _may_be_large(request) else None


def _may_be_large(request: web.Request) -> bool:
    """Return whether the body may be larger than what is parsed at once, as a file of rows."""
    if csv_charset(request.headers.get(hdrs.CONTENT_TYPE)):
        return True
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
        return True
    size = request.content_length
    if size is None:
        return request.body_exists
    return MAX_INLINE_BYTES < size <= request.app[LIMITS].body_bytes  # a larger one is refused
