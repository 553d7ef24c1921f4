"""The settings of the service, from command-line flags and environment variables."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, NoReturn, Self, get_type_hints
from urllib.parse import urlsplit

from registry.access.urls import is_loopback, secure_url
from registry.jsonapi.pagination import Sizes

_MAX_WORKERS = 64

_AUTH = ("auto", "on", "off")

_OTHER_SECONDS = 0.5
"""What a request may take by default beside its wait and its query: with their defaults, it gets a
response within 10 s even without a database."""

CORES = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
"""The cores that this process may use; the default limits scale with them."""


class StartError(Exception):
    """The service cannot start or continue; the message is one line with reason and remedy."""


def _database(text: str) -> str:
    if re.search(r'[/\\. "$*<>:|?]', text) or len(text.encode()) > 63:
        raise ValueError(f"{text!r} is not a valid database name: use letters, digits, _ and -")
    if text.lower() in {"admin", "config", "local"}:
        raise ValueError(f"the database name {text!r} is reserved by MongoDB")
    return text


def _integer(least: int, greatest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        digits = f"[0-9]{{1,{len(str(greatest))}}}"
        if not re.fullmatch(digits, text) or not least <= int(text) <= greatest:
            raise ValueError(f"{text!r} is not an integer from {least} to {greatest}")
        return int(text)

    return parse


def _workers(text: str) -> int:
    workers = _integer(1, _MAX_WORKERS)(text)
    if workers > 1 and sys.platform != "linux":
        raise ValueError("only Linux balances connections between processes: use 1 worker")
    return workers


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", text) or not float(text):
        raise ValueError(f"{text!r} is not a number of seconds from 0.001 to 9999.999")
    return float(text)


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def _base_url(text: str) -> str:
    parts = urlsplit(text)
    plain = re.fullmatch(r"https?://[\w.~:/%\[\]-]+", text, re.ASCII)
    if not plain or not parts.hostname or parts.port == 0:  # an invalid port raises
        raise ValueError(f"{text!r} is not a valid base URL such as https://registry.example.com")
    return text


def _public_url(text: str) -> str:
    return _base_url(text).rstrip("/")


def _issuer(text: str) -> str:
    return secure_url(_base_url(text))


def _address(text: str) -> str:
    """Return an address to listen on; one of IPv6 may be in brackets, as in a URL."""
    if not text.startswith("["):
        return text
    inner = re.fullmatch(r"\[(.+)\]", text)
    try:
        return str(IPv6Address(inner[1] if inner else text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv6 address in brackets such as [::1]") from None


def _host_name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", text.lower()):
        raise ValueError(f"{text!r} is not a host name such as registry.example.com, without port")
    return text.lower()


def _origin(text: str) -> str:
    if text == "*":
        return text
    match = re.fullmatch(
        r"([a-z][a-z0-9+.-]*)://([\w.-]+|\[[\da-f:.]+\])(:\d+)?", text.lower(), re.ASCII
    )
    if not match or urlsplit(text).port == 0:  # an invalid port raises
        raise ValueError(f"{text!r} is not an origin such as https://app.example.com, nor *")
    # As browsers write it: without the default port (RFC 6454, 6.1).
    return re.sub(r"^(http:.*):80$|^(https:.*):443$", r"\1\2", match[0])


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not an IP address or network such as 10.1.2.3 or 10.1.2.0/24"
        ) from None


def _auth(text: str) -> str:
    if text not in _AUTH:
        raise ValueError(f"{text!r} is not one of {', '.join(_AUTH)}")
    return text


_count = _integer(1, 999_999)


@dataclass(frozen=True, slots=True)
class Settings:
    """The validated settings of one service.

    The flag of `data_dir` is `--data-dir`, its environment variable `REGISTRY_DATA_DIR`. Each
    annotation names the parser of the text and has the description in `--help`. A setting whose
    default is a tuple has any number of values: its flag can be repeated, and its variable has them
    separated by commas.
    """

    mongodb_uri: Annotated[
        str | None, str, "replica set or sharded cluster to use instead of an embedded mongod"
    ] = None
    database: Annotated[str, _database, "name of the database"] = "registry"
    data_dir: Annotated[Path, Path, "data directory of the embedded mongod"] = Path("data")
    mongod: Annotated[Path | None, Path, "path of the mongod to embed"] = None
    host: Annotated[str, _address, "address to listen on; :: for all of IPv4 and IPv6"] = (
        "127.0.0.1"
    )
    port: Annotated[int, _integer(0, 65_535), "port to listen on; 0 picks a free one"] = 8080
    workers: Annotated[int, _workers, f"number of worker processes, 1 to {_MAX_WORKERS}"] = 1
    public_url: Annotated[
        str | None, _public_url, "base URL under which clients reach the service"
    ] = None
    auth: Annotated[
        str, _auth, "require access tokens: on, off, or auto, which is off on loopback addresses"
    ] = "auto"
    tls_certificate: Annotated[
        Path | None, Path, "PEM file with the certificate chain for TLS; reloaded on SIGHUP"
    ] = None
    tls_key: Annotated[Path | None, Path, "PEM file with the private key of the certificate"] = None
    allowed_host: Annotated[
        tuple[str, ...], _host_name, "further host name that requests may be sent to; repeatable"
    ] = ()
    cors_origin: Annotated[
        tuple[str, ...],
        _origin,
        "origin whose pages may use the service (CORS), * for all; repeatable",
    ] = ()
    trusted_proxy: Annotated[
        tuple[IPv4Network | IPv6Network, ...],
        _network,
        "address or network whose X-Forwarded headers are used; repeatable",
    ] = ()

    oidc_issuer: Annotated[
        str | None, _issuer, "OpenID Connect issuer whose JWT access tokens are accepted"
    ] = None
    oidc_audience: Annotated[
        str | None, str, "audience that these tokens are for, such as the public URL"
    ] = None
    oidc_scope_claim: Annotated[str, str, "claim of these tokens that has the scopes"] = "scope"
    access_log: Annotated[
        str, _one_of("on", "off"), "on: log each request to standard error when it has ended"
    ] = "off"
    log_format: Annotated[str, _one_of("text", "json"), "format of log lines: text or json"] = (
        "text"
    )
    metrics_port: Annotated[
        int | None,
        _integer(0, 65_535),
        "port for /metrics alone, on the same host; none: /metrics is on the port of the API",
    ] = None

    compression: Annotated[
        str, _one_of("on", "off"), "compress responses of 1,000 bytes or more: on or off"
    ] = "on"
    page_size: Annotated[int, _count, "page size unless the request sets one"] = 50
    largest_page: Annotated[int, _count, "maximum page size"] = 1_000
    most_operations: Annotated[int, _count, "maximum atomic operations per request"] = 1_000
    query_seconds: Annotated[
        float, _seconds, "time limit of a query with a filter or sort, in seconds"
    ] = 5.0
    send_seconds: Annotated[
        float,
        _seconds,
        "period over which the speed of a client that is waited for is measured, in seconds",
    ] = 60.0
    send_rate: Annotated[
        int, _count, "disconnect clients that read fewer bytes of a response per second"
    ] = 4_096

    small_requests: Annotated[
        int, _count, "reads by id, pages along an index and small writes in progress per worker"
    ] = 1_000 * CORES
    heavy_queries: Annotated[
        int,
        _count,
        "queries that no index serves, and deep numbered pages, in progress per worker",
    ] = max(1, CORES // 2)
    streams: Annotated[int, _count, "responses with a whole collection in progress per worker"] = (
        8 * CORES
    )
    large_transactions: Annotated[
        int, _count, "writes of more than 100 resources in progress per worker"
    ] = max(1, CORES // 2)
    queue_length: Annotated[
        int, _integer(0, 999_999), "requests that may wait for each of these limits"
    ] = 2_000
    queue_seconds: Annotated[float, _seconds, "how long a request may wait, in seconds"] = 4.0
    request_seconds: Annotated[
        float | None,
        _seconds,
        "time until a response begins, in seconds; none: 0.5 more than the wait and a query",
    ] = None

    @property
    def requires_tokens(self) -> bool:
        """Whether requests need an access token."""
        return self.auth == "on" or (self.auth == "auto" and not is_loopback(self.host))

    @property
    def is_published(self) -> bool:
        """Whether settings say that clients of other machines use the service."""
        host = urlsplit(self.public_url).hostname if self.public_url else None
        is_public = host is not None and not is_loopback(host)
        return is_public or bool(self.trusted_proxy or self.oidc_issuer)

    @property
    def scheme(self) -> str:
        """The scheme of the URLs of the service: `https` with TLS, otherwise `http`."""
        return "https" if self.tls_certificate else "http"

    @property
    def response_seconds(self) -> float:
        """Seconds from the arrival of a request until its response has to begin."""
        return self.request_seconds or self.queue_seconds + self.query_seconds + _OTHER_SECONDS

    @property
    def sizes(self) -> Sizes:
        """The default and maximum page size; the default never exceeds the maximum."""
        return Sizes(min(self.page_size, self.largest_page), self.largest_page)

    @classmethod
    def parse(cls, arguments: Sequence[str], environment: Mapping[str, str]) -> Self:
        """Read the settings from command-line arguments and environment variables.

        A flag takes precedence over its variable; an empty variable counts as unset. An invalid
        value ends the process with status 2 and one line that names the flag or variable.
        """
        parser = Parser(
            prog="python -m registry",
            description="Serve the JSON:API registry of persons and computers.",
            allow_abbrev=False,
        )
        hints = get_type_hints(cls, include_extras=True)
        options = {name: hint.__metadata__ for name, hint in hints.items()}
        for field in fields(cls):
            default = "none" if field.default in {None, ()} else field.default
            _, description = options[field.name]
            parser.add_argument(
                flag(field.name),
                action="append",
                metavar="VALUE",
                help=f"{description} [{variable(field.name)}, default: {default}]",
            )
        flags = vars(parser.parse_args(arguments))
        values: dict[str, Any] = {}
        for field in fields(cls):
            source, texts = _texts(field, flags[field.name], environment)
            parse, _ = options[field.name]
            parsed = tuple(parser.parse_value(source, text, parse) for text in texts)
            if parsed:
                values[field.name] = parsed if _is_repeatable(field) else parsed[0]
        settings = cls(**values)
        if settings.response_seconds < settings.queue_seconds + settings.query_seconds:
            text = ", ".join(
                f"{flag(name)} {getattr(settings, name):g}"
                for name in ("request_seconds", "queue_seconds", "query_seconds")
            )
            parser.error(f"{text}: the first is less than the sum of the other two")
        if bool(settings.oidc_issuer) != bool(settings.oidc_audience):
            parser.error("--oidc-issuer and --oidc-audience require each other")
        if bool(settings.tls_certificate) != bool(settings.tls_key):
            parser.error("--tls-certificate and --tls-key: set both or neither")
        return settings


class Parser(argparse.ArgumentParser):
    """An argument parser whose error messages are one line."""

    def parse_value(self, source: str, text: str, parse: Callable[[str], Any]) -> Any:
        """Return the parsed value; source: the flag or variable that an error message names."""
        try:
            if not text:
                raise ValueError("the value is empty")
            return parse(text)
        except ValueError as error:
            self.error(f"{source}: {error}")

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and the message on standard error."""
        self.exit(2, f"registry: {message}; --help lists the options\n")


def _texts(
    field: Field[Any], flags: list[str] | None, environment: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Return the flag or variable that sets a field, and the texts of its values."""
    if flags is not None:
        return flag(field.name), flags if _is_repeatable(field) else flags[-1:]
    source = variable(field.name)
    text = environment.get(source)
    if not text:
        return source, []
    return source, [part.strip() for part in text.split(",")] if _is_repeatable(field) else [text]


def _is_repeatable(field: Field[Any]) -> bool:
    return isinstance(field.default, tuple)


def flag(name: str) -> str:
    """Return the flag of a field of Settings."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """Return the environment variable of a field of Settings."""
    return name.upper() if name == "mongodb_uri" else f"REGISTRY_{name.upper()}"
