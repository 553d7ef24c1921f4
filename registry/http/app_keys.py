"""Keys of the application: the objects that views and the server share."""

from aiohttp import web

from registry.http.cors import Cors
from registry.http.hosts import AllowedHosts
from registry.http.limits import Deadlines, Limits
from registry.http.proxies import TrustedProxies
from registry.model.graph import Graph
from registry.settings import Settings
from registry.storage import Coalescer, Repository

CORS = web.AppKey("cors", Cors)
DEADLINES = web.AppKey("deadlines", Deadlines)
GRAPH = web.AppKey("graph", Graph)
HOSTS = web.AppKey("hosts", AllowedHosts)
LINKAGE = web.AppKey("linkage", Coalescer[tuple[bytes, str]])
"""The documents of whole linkage that are being built, by URL."""

LIMITS = web.AppKey("limits", Limits)
NOTICE = web.AppKey("notice", str)
"""What is reported when the service is ready, beside its URLs; may be empty."""

PROXIES = web.AppKey("proxies", TrustedProxies)
REPOSITORY = web.AppKey("repository", Repository)
SETTINGS = web.AppKey("settings", Settings)
