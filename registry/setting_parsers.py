"""The text of a setting -> its value. Each function raises ValueError with the reason."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from registry.access import secure_url

MAX_WORKERS = 64

_MAX_SECRET = 2**13
"""Bytes of a file with a secret."""


def database_name(text: str) -> str:
    """Return the name if MongoDB allows it and does not reserve it."""
    if re.search(r'[/\\. "$*<>:|?]', text) or len(text.encode()) > 63:
        raise ValueError(f"{text!r} is not a valid database name: use letters, digits, _ and -")
    if text.lower() in {"admin", "config", "local"}:
        raise ValueError(f"the database name {text!r} is reserved by MongoDB")
    return text


def integer(least: int, greatest: int) -> Callable[[str], int]:
    """Return a parser of integers from `least` to `greatest`."""

    def parse(text: str) -> int:
        digits = f"[0-9]{{1,{len(str(greatest))}}}"
        if not re.fullmatch(digits, text) or not least <= int(text) <= greatest:
            raise ValueError(f"{text!r} is not an integer from {least} to {greatest}")
        return int(text)

    return parse


def worker_count(text: str) -> int:
    """Return a number of worker processes that this platform supports."""
    workers = integer(1, MAX_WORKERS)(text)
    if workers > 1 and sys.platform != "linux":
        raise ValueError("only Linux balances connections between processes: use 1 worker")
    return workers


def seconds(text: str) -> float:
    """Return a number of seconds from 0.001 to 9999.999."""
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", text) or not float(text):
        raise ValueError(f"{text!r} is not a number of seconds from 0.001 to 9999.999")
    return float(text)


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that takes only these texts."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def secret(name: str, environment: Mapping[str, str]) -> str:
    """Return the value of a variable, or the text of the file that the variable `NAME_FILE` names.

    Other users, and `docker inspect`, see variables. Empty if neither is set. The reason of a
    ValueError begins with the name of the variable.
    """
    source = f"{name}_FILE"
    value, file = environment.get(name, ""), environment.get(source)
    if not file:
        return value
    if value:
        raise ValueError(f"{name} and {source}: set one of them")
    try:
        with Path(file).open("rb") as opened:
            content = opened.read(_MAX_SECRET + 1)
    except OSError as error:
        raise ValueError(f"{source}: cannot read {file} ({error.strerror})") from None
    if len(content) > _MAX_SECRET:
        raise ValueError(f"{source}: {file} has more than {_MAX_SECRET:,} bytes")
    if not (text := content.decode(errors="replace").strip()):
        raise ValueError(f"{source}: {file} is empty")
    return text


def _http_url(text: str) -> str:
    if not re.fullmatch(r"https?://[\w.~:/%\[\]-]+", text, re.ASCII) or not _has_host(text):
        raise ValueError(f"{text!r} is not a valid base URL such as https://registry.example.com")
    return text


def _has_host(url: str) -> bool:
    """Return whether a URL has a host, and no invalid port."""
    try:
        return bool(urlsplit(url).hostname) and urlsplit(url).port != 0
    except ValueError:  # such as for a port greater than 65535
        return False


def base_url(text: str) -> str:
    """Return the base URL without a slash at its end.

    It has no path: the links of resources are paths such as `/persons/1`, which clients resolve
    against the host.
    """
    url = _http_url(text).rstrip("/")
    if urlsplit(url).path:
        raise ValueError(f"{text!r} has a path, which the links of resources would lack")
    return url


def issuer_url(text: str) -> str:
    """Return the URL of an OpenID Connect issuer, which is compared as it is."""
    return secure_url(_http_url(text))


def host_name(text: str) -> str:
    """Return the host name in lower case."""
    if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", text.lower()):
        raise ValueError(f"{text!r} is not a host name such as registry.example.com, without port")
    return text.lower()


def origin(text: str) -> str:
    """Return the origin as browsers write it (RFC 6454, 6.1), or `*`."""
    if text == "*":
        return text
    match = re.fullmatch(
        r"([a-z][a-z0-9+.-]*)://([\w.-]+|\[[\da-f:.]+\])(:\d+)?", text.lower(), re.ASCII
    )
    if not match or not _has_host(text):
        raise ValueError(f"{text!r} is not an origin such as https://app.example.com, nor *")
    # Without the default port.
    return re.sub(r"^(http:.*):80$|^(https:.*):443$", r"\1\2", match[0])
