"""The application, and its keys: the objects that views and the server share."""

from aiohttp import hdrs, web

from registry.http.cors import Cors
from registry.http.followers import Followers
from registry.http.hosts import AllowedHosts
from registry.http.limits import Deadlines, Limits
from registry.http.proxies import TrustedProxies
from registry.http.responses import common_headers, request_id
from registry.model.graph import Graph
from registry.settings import Settings
from registry.storage import Coalescer, Repository, Snapshot

CORS = web.AppKey("cors", Cors)
DEADLINES = web.AppKey("deadlines", Deadlines)
FOLLOWERS = web.AppKey("followers", Followers)
GRAPH = web.AppKey("graph", Graph)
HOSTS = web.AppKey("hosts", AllowedHosts)
LINKAGE = web.AppKey("linkage", Coalescer[tuple[tuple[bytes, str], Snapshot]])
"""The documents of whole linkage that are being built, with what they were read from, by URL."""

LIMITS = web.AppKey("limits", Limits)
NOTICE = web.AppKey("notice", str)
"""What is reported when the service is ready, beside its URLs; may be empty."""

PROXIES = web.AppKey("proxies", TrustedProxies)
REPOSITORY = web.AppKey("repository", Repository)
SETTINGS = web.AppKey("settings", Settings)


def new_application(settings: Settings, limits: Limits, cors: Cors) -> web.Application:
    """Return an application without routes, with all that its server needs."""
    app = web.Application()
    app[SETTINGS], app[LIMITS], app[CORS] = settings, limits, cors
    app[PROXIES] = TrustedProxies(settings.trusted_proxy, settings.public_url)
    app[HOSTS] = AllowedHosts(settings, app[PROXIES])
    app.on_response_prepare.append(_add_headers)
    return app


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers that every response has, other than DocumentResponse, which has them."""
    response.headers.pop(hdrs.SERVER, None)  # by which aiohttp tells its version
    for name, value in common_headers(request_id(request)).items():
        response.headers.setdefault(name, value)
    cors = request.config_dict[CORS]
    if cors.is_on:
        cors.add_headers(request, response.headers)
