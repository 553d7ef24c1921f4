"""The addresses of clients and of the service: paths, hosts, and what trusted proxies say of both.

A trusted proxy says so in the headers `X-Forwarded-For`, `X-Forwarded-Proto` and
`X-Forwarded-Host`, as nginx, Caddy and load balancers do; `Forwarded` (RFC 7239) is ignored.
"""

import re
from copy import copy
from functools import lru_cache
from ipaddress import ip_address, ip_network
from urllib.parse import quote, urlsplit

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion11
from multidict import MultiMapping

from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import MalformedRequest, MisdirectedRequest
from registry.settings import Settings

ROOT_PATH = "/"
OPERATIONS_PATH = "/operations"
CHANGES_PATH = "/changes"
METRICS_PATH = "/metrics"
LIVE_PATH = "/health/live"
READY_PATH = "/health/ready"
HEALTH_PATHS = frozenset({LIVE_PATH, READY_PATH})
PAGE_PATH = "/api/page"
"""The prefix of the files of the page for people."""

UI_PATH = "/api/swagger"
"""The prefix of Swagger UI and the OpenAPI document."""

_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SAFE = "/?:@!$&'()*+,;=-._~%"

_MAX_KEPT_TARGET = 2**10
"""Characters of a target whose parsed query is shared with later requests for the same target."""

_MAX_ADDRESSES = 1_024
"""Addresses that are remembered as trusted or not, and with their networks."""

_MAPPED = "::ffff:"
"""The prefix of IPv4 addresses on a socket for both versions (RFC 4291, 2.5.5.2)."""

_FORWARDED_PROTO = "X-Forwarded-Proto"
_FORWARDED_ADDRESS = re.compile(r"\s*(\[(?P<v6>[^\]]*)\]|(?P<v4>[\d.]+))(:\d+)?\s*", re.ASCII)

_AUTHORITY = re.compile(r"([\w-][\w.-]*|\[[\da-fA-F:.]+\])(:\d{1,5})?", re.ASCII)

_MAX_CACHED = 256
"""Allowed hosts, as clients write them, that are kept so as not to be parsed again."""


def encoded_target(request: web.BaseRequest) -> str:
    """Return path and query as requested, with unsafe characters percent-encoded."""
    target = request.raw_path
    if not target.startswith("/"):  # absolute-form (RFC 9112, 3.2.2)
        target = str(request.rel_url)
    return quote(_STRAY_PERCENT.sub("%25", target), _SAFE, errors="surrogateescape")


def query_of(request: web.BaseRequest) -> MultiMapping[str]:
    """Return the query parameters of a request.

    yarl keeps the last URLs, each with its parsed query once that is read, which takes fifty times
    the size of the URL. So a long query is read from a copy of its URL.
    """
    url = request.rel_url
    return (copy(url) if len(request.raw_path) > _MAX_KEPT_TARGET else url).query


@lru_cache(_MAX_ADDRESSES)
def _network(address: str) -> str:
    """Return the /64 of an IPv6 address, which may have a zone."""
    return str(ip_network((address.partition("%")[0], 64), strict=False))


class Addresses:
    """The addresses in requests, for the settings of a service.

    A request may name as its host any IP address, `localhost`, and the names in the settings:
    `host`, `public_url` and `allowed_host`. If it could name others, the owner of a site could let
    the site's name lead to 127.0.0.1, so that its pages read a registry on the machine of a visitor
    (DNS rebinding). Ports are not compared: forwarded ports and containers change them.
    """

    def __init__(self, settings: Settings) -> None:
        self._networks, self._public_url = settings.trusted_proxy, settings.public_url
        public = urlsplit(settings.public_url or "").hostname or ""
        names = {"localhost", settings.host, public, *settings.allowed_host}
        self._names = frozenset(name.lower() for name in names)
        self._trusts = lru_cache(_MAX_ADDRESSES)(self._is_in_networks)
        # Errors are not cached, so that clients cannot displace the hosts in use.
        self._check_authority = lru_cache(_MAX_CACHED)(self._check_new_authority)

    def check_host(self, request: web.BaseRequest) -> None:
        """Raise MalformedRequest, or MisdirectedRequest for a host that is not allowed."""
        host = request.headers.get(hdrs.HOST)
        if host is None and request.version >= HttpVersion11:
            raise MalformedRequest("A request of HTTP/1.1 must name its host.")
        # Nearly all requests need no more than this header, which is the fastest to read.
        if host is None or self._networks or not request.raw_path.startswith("/"):
            host = self.authority(request)
        self._check_authority(host)

    def client_address(self, request: web.BaseRequest) -> str:
        """Return the IP address of the client, "" if the connection is closed already.

        That is the last address in `X-Forwarded-For` that is not a trusted proxy: what precedes it
        may be invented by the client.
        """
        address = _unmapped(request.remote or "")
        # A request that is not valid HTTP has no headers, and none of their methods either.
        if hdrs.X_FORWARDED_FOR not in request.headers or not self._trusts(address):
            return address
        hops = ",".join(request.headers.getall(hdrs.X_FORWARDED_FOR)).split(",")
        for hop in reversed(hops):
            forwarded = _address(hop)
            if forwarded is None:
                break
            address = forwarded
            if not self._trusts(address):
                break
        return address

    def client_network(self, request: web.BaseRequest) -> str:
        """Return what counts as one client: an IPv4 address, or the /64 that an IPv6 client has."""
        address = self.client_address(request)
        return _network(address) if ":" in address else address

    def authority(self, request: web.BaseRequest) -> str:
        """Return the host that the client has sent the request to, with its port if it has one.

        The target in absolute form precedes `Host` (RFC 9112, 3.3).
        """
        if self._networks and (forwarded := self._forwarded(request, hdrs.X_FORWARDED_HOST)):
            return forwarded
        if request.raw_path.startswith("/"):
            host = request.headers.get(hdrs.HOST)
            return _own_authority(request) if host is None else host
        return request.url.raw_authority

    def origin(self, request: web.BaseRequest) -> str:
        """Return the scheme and authority by which the client has reached the service."""
        scheme = self._forwarded(request, _FORWARDED_PROTO).lower()
        if scheme not in {"http", "https"}:
            scheme = request.scheme
        return f"{scheme}://{self.authority(request)}"

    def url(self, request: web.BaseRequest) -> str:
        """Return the URL as requested, with unsafe characters percent-encoded."""
        return (self._public_url or self.origin(request)) + encoded_target(request)

    def _forwarded(self, request: web.BaseRequest, name: str) -> str:
        """Return the value of the last trusted proxy, or ""; those before it may be invented."""
        values = request.headers.getall(name, ())
        if not values or not self._trusts(_unmapped(request.remote or "")):
            return ""
        return values[-1].rpartition(",")[2].strip()

    def _is_in_networks(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    def _check_new_authority(self, authority: str) -> None:
        match = _AUTHORITY.fullmatch(authority)
        if not match:
            raise MalformedRequest("The host that the request names is not valid.")
        name = match[1].lower().removesuffix(".")
        if name not in self._names:
            try:
                ip_address(name.strip("[]"))
            except ValueError:
                raise MisdirectedRequest(
                    f"This service does not respond to requests for the host {quoted(name)}; the "
                    "setting `--allowed-host` adds a name."
                ) from None


def _own_authority(request: web.BaseRequest) -> str:
    """Return the address at which a connection was accepted: HTTP/1.0 needs no `Host`."""
    transport = request.transport
    name = None if transport is None else transport.get_extra_info("sockname")
    if not isinstance(name, tuple):
        return request.host
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"


def _unmapped(address: str) -> str:
    """Return the address of a connection, as IPv4 if that is its version."""
    mapped = address.removeprefix(_MAPPED)
    return mapped if "." in mapped else address


def _address(hop: str) -> str | None:
    """Return the address in an element of `X-Forwarded-For`, to which some proxies add a port."""
    match = _FORWARDED_ADDRESS.fullmatch(hop)
    text = (match["v6"] or match["v4"] or "") if match else hop.strip()
    try:
        parsed = ip_address(text)
        return str(getattr(parsed, "ipv4_mapped", None) or parsed)
    except ValueError:
        return None
