"""Access control: who sends a request, what it may do, and which addresses are safe."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def secure_url(text: str) -> str:
    """Return a URL whose responses nobody on the network can replace.

    Raises ValueError unless it is https, or http on a loopback address.
    """
    parts = urlsplit(text)
    host = parts.hostname or ""
    if not host or parts.port == 0:  # an invalid port raises
        raise ValueError(f"{text!r} is not a valid URL")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ValueError(f"{text!r} is not an https URL")
    return text


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine; False for names other than `localhost`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
