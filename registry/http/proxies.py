"""What a request says of its client and its target, also through trusted reverse proxies.

Of a trusted proxy, the headers `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are
used, as nginx, Caddy and load balancers send them; `Forwarded` (RFC 7239) is not.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from aiohttp import hdrs, web

from registry.http.service_urls import encoded_target

_MAX_ADDRESSES = 1_024
"""For how many addresses is kept whether they are trusted."""

_MAPPED = "::ffff:"
"""How the addresses of IPv4 clients begin on a socket for both versions (RFC 4291, 2.5.5.2)."""

_FORWARDED_PROTO = "X-Forwarded-Proto"
_FORWARDED_ADDRESS = re.compile(r"\s*(\[(?P<v6>[^\]]*)\]|(?P<v4>[\d.]+))(:\d+)?\s*", re.ASCII)


class TrustedProxies:
    """The reverse proxies whose `X-Forwarded` headers are used.

    networks: their addresses. public_url: the base URL under which clients reach the service; None
    for the host that a request names, which was checked.
    """

    def __init__(
        self, networks: tuple[IPv4Network | IPv6Network, ...], public_url: str | None = None
    ) -> None:
        self._networks = networks
        self._public_url = public_url
        self._trusts = lru_cache(_MAX_ADDRESSES)(self._is_in_networks)

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
        """Return what is one client for limits: its IPv4 address, or the /64 of its IPv6 address.

        The computers of one user, or one of them alone, have all addresses of such a network.
        """
        address, _, _ = self.client_address(request).partition("%")
        return str(ip_network((address, 64), strict=False)) if ":" in address else address

    def authority(self, request: web.BaseRequest) -> str:
        """Return the host that the client has sent the request to, with its port if it has one.

        RFC 9112, 3.3: the target in absolute form takes precedence over `Host`.
        """
        if self._networks and (forwarded := self._forwarded(request, hdrs.X_FORWARDED_HOST)):
            return forwarded
        if request.raw_path.startswith("/"):
            return request.host
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
        """Return the value that the last proxy has sent, "" if there is none or it is not trusted.

        The last value of a list: those before it may come from the client.
        """
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
