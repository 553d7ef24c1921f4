"""The middleware that lets only requests of authorized principals through."""

from collections.abc import Mapping, Sequence

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from registry.access.principal import Principal
from registry.http.app_keys import AUTHENTICATOR, DEADLINES, PRINCIPAL
from registry.http.authentication import bearer_token
from registry.http.health import HEALTH_PATHS
from registry.http.routes import UI_PATH
from registry.http.views.entry_point import ROOT_PATH
from registry.jsonapi.authorization import Requirement, authorize
from registry.jsonapi.error_types import AuthenticationRequired

_PUBLIC = (UI_PATH, *sorted(HEALTH_PATHS))
"""Prefixes of the paths that need no access token; the root needs none either."""


def access_middleware(app: web.Application) -> Middleware:
    """Return the middleware, which sets the principal of a request before its view is called.

    A handler declares in `requirements`, by method, what each request requires; the view checks
    what parameters and documents require in addition. A route that declares nothing is refused
    unless its path is public. OPTIONS only shows the methods of a path, and needs no token.
    """

    @web.middleware
    async def check_access(request: web.Request, handler: Handler) -> web.StreamResponse:
        requirements = getattr(request.match_info.handler, "requirements", None)
        if requirements is None:
            if _is_public(request):
                return await handler(request)
            if request.match_info.http_exception is None:
                raise web.HTTPForbidden
            requirements = {}  # no route: 404 or 405, but only for an authenticated client
        if request.method == hdrs.METH_OPTIONS:
            return await handler(request)
        token, authenticator = bearer_token(request), app[AUTHENTICATOR]
        if token is None:
            raise AuthenticationRequired
        principal = authenticator.recall(token)
        if principal is not None:
            _admit(request, principal, requirements)
            return await handler(request)
        # The verification counts towards the time that the request may take.
        task = app[DEADLINES].start()
        try:
            _admit(request, await authenticator.verify(token), requirements)
            return await handler(request)
        finally:
            app[DEADLINES].end(task)

    return check_access


def _admit(
    request: web.Request, principal: Principal, requirements: Mapping[str, Sequence[Requirement]]
) -> None:
    """Set the principal of a request. Raises ApiErrors if it lacks a required scope."""
    request[PRINCIPAL] = principal
    authorize(principal, requirements.get(request.method, ()))


def _is_public(request: web.Request) -> bool:
    resource = request.match_info.route.resource
    # Without a resource nothing but 404 or 405 follows, so the path as it was sent suffices.
    path = request.path if resource is None else resource.canonical
    return path == ROOT_PATH or path.startswith(_PUBLIC)
