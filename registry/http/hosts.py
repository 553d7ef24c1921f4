"""The hosts that requests may be sent to, against DNS rebinding.

Otherwise, a page in a browser could read a registry on localhost under a name of the page's own
site, whose address its owner changes to 127.0.0.1.
"""

import re
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from registry.http.proxies import TrustedProxies
from registry.jsonapi.error_types import MalformedRequest, MisdirectedRequest
from registry.settings import Settings

_AUTHORITY = re.compile(r"([\w-][\w.-]*|\[[\da-fA-F:.]+\])(:\d{1,5})?", re.ASCII)

_MAX_CACHED = 256
"""Allowed hosts, as clients write them, that are kept so as not to be parsed again."""


class AllowedHosts:
    """Rejects requests for other hosts than those of the service (RFC 9110, 7.4).

    Allowed are every IP address, since rebinding takes a name, `localhost`, and the names in the
    settings: `host`, `public_url` and `allowed_host`. Ports are not compared: forwarded ports and
    containers change them, and the name decides alone.
    """

    def __init__(self, settings: Settings, proxies: TrustedProxies) -> None:
        public = urlsplit(settings.public_url or "").hostname or ""
        names = {"localhost", settings.host, public, *settings.allowed_host}
        self._names = frozenset(name.lower() for name in names)
        self._proxies = proxies
        self._has_proxies = bool(settings.trusted_proxy)
        # Errors are not cached, so that clients cannot displace the hosts in use.
        self.check_authority = lru_cache(_MAX_CACHED)(self._check_authority)

    def check(self, request: web.BaseRequest) -> None:
        """Raise MalformedRequest or MisdirectedRequest unless the host is allowed."""
        host = request.headers.get(hdrs.HOST)
        # Nearly all requests need no more than this header, which is the fastest to read.
        if host is None or self._has_proxies or not request.raw_path.startswith("/"):
            host = self._proxies.authority(request)
        self.check_authority(host)

    def _check_authority(self, authority: str) -> None:
        """Check a host with or without a port; raises as `check` does."""
        match = _AUTHORITY.fullmatch(authority)
        if not match:
            raise MalformedRequest("The host that the request names is not valid.")
        name = match[1].lower().removesuffix(".")
        if name not in self._names:
            try:
                ip_address(name.strip("[]"))
            except ValueError:
                raise MisdirectedRequest(name) from None
