"""The sockets on which the service listens, and the URLs at which clients reach them."""

import socket
from typing import Any

_ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}  # noqa: S104 - compared, not bound
"""Wildcard addresses, each with an address at which a client on this machine reaches it."""


def listen(
    family: socket.AddressFamily, address: Any, *, reuse_port: bool = False
) -> socket.socket:
    """Return a socket that listens on an address; `::` takes IPv4 as well (RFC 4291, 2.5.5.2).

    family, address: as `socket.getaddrinfo` returns them. Raises OSError if that is not possible,
    as on a machine without IPv6.
    """
    is_dual = address[0] == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(
        address, family=family, reuse_port=reuse_port, dualstack_ipv6=is_dual
    )


def reserve_port(listener: socket.socket) -> socket.socket:
    """Replace `listener` by a socket that reserves its port for the workers but does not listen.

    Each worker binds a socket of its own with SO_REUSEPORT, so that the kernel spreads connections
    evenly; with one shared socket, a burst of connections would go to a single worker. A service
    that binds without SO_REUSEPORT fails.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved = socket.socket(listener.family)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    # Connections in TIME_WAIT must not prevent the bind, but other services must not bind as well.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listener.family == socket.AF_INET6:
        is_v6_only = listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        reserved.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, is_v6_only)
    reserved.bind(listener.getsockname())
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    listener.close()
    return reserved


def listens_on_all_addresses(listener: socket.socket) -> bool:
    """Return whether a socket listens on all addresses of the machine."""
    return listener.getsockname()[0] in _ALL_ADDRESSES


def url_of(scheme: str, listener: socket.socket) -> str:
    """Return a URL at which a browser on this machine reaches a socket that listens."""
    host, port, *_ = listener.getsockname()
    host = _ALL_ADDRESSES.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
