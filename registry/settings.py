"""The settings of the service, from command-line flags and environment variables."""

import argparse
import ipaddress
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NoReturn, Self, get_type_hints
from urllib.parse import urlsplit

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


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    plain = re.fullmatch(r"https?://[\w.~:/%\[\]-]+", text, re.ASCII)
    if not plain or not parts.hostname or parts.port == 0:  # an invalid port raises
        raise ValueError(f"{text!r} is not a valid base URL such as https://registry.example.com")
    return text.rstrip("/")


def _auth(text: str) -> str:
    if text not in _AUTH:
        raise ValueError(f"{text!r} is not one of {', '.join(_AUTH)}")
    return text


_count = _integer(1, 999_999)


@dataclass(frozen=True, slots=True)
class Settings:
    """The validated settings of one service.

    The flag of `data_dir` is `--data-dir`, its environment variable `REGISTRY_DATA_DIR`. Each
    annotation names the parser of the text and has the description in `--help`.
    """

    mongodb_uri: Annotated[
        str | None, str, "replica set or sharded cluster to use instead of an embedded mongod"
    ] = None
    database: Annotated[str, _database, "name of the database"] = "registry"
    data_dir: Annotated[Path, Path, "data directory of the embedded mongod"] = Path("data")
    mongod: Annotated[Path | None, Path, "path of the mongod to embed"] = None
    host: Annotated[str, str, "address to listen on"] = "127.0.0.1"
    port: Annotated[int, _integer(0, 65_535), "port to listen on; 0 picks a free one"] = 8080
    workers: Annotated[int, _workers, f"number of worker processes, 1 to {_MAX_WORKERS}"] = 1
    public_url: Annotated[
        str | None, _public_url, "base URL under which clients reach the service"
    ] = None
    auth: Annotated[
        str, _auth, "require access tokens: on, off, or auto, which is off on loopback addresses"
    ] = "auto"

    page_size: Annotated[int, _count, "page size unless the request sets one"] = 50
    largest_page: Annotated[int, _count, "maximum page size"] = 1_000
    most_operations: Annotated[int, _count, "maximum atomic operations per request"] = 1_000
    query_seconds: Annotated[
        float, _seconds, "time limit of a query with a filter or sort, in seconds"
    ] = 5.0
    send_seconds: Annotated[
        float, _seconds, "disconnect clients that read nothing of a response for so many seconds"
    ] = 60.0

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
        return self.auth == "on" or (self.auth == "auto" and not _is_loopback(self.host))

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
            default = "none" if field.default is None else field.default
            _, description = options[field.name]
            parser.add_argument(
                flag(field.name),
                metavar="VALUE",
                help=f"{description} [{_variable(field.name)}, default: {default}]",
            )
        flags = vars(parser.parse_args(arguments))
        values = {}
        for name, (parse, _) in options.items():
            if flags[name] is not None:
                values[name] = parser.parse_value(flag(name), flags[name], parse)
            elif text := environment.get(_variable(name)):
                values[name] = parser.parse_value(_variable(name), text, parse)
        settings = cls(**values)
        if settings.response_seconds < settings.queue_seconds + settings.query_seconds:
            text = ", ".join(
                f"{flag(name)} {getattr(settings, name):g}"
                for name in ("request_seconds", "queue_seconds", "query_seconds")
            )
            parser.error(f"{text}: the first is less than the sum of the other two")
        return settings


def _is_loopback(host: str) -> bool:
    """Whether clients on other hosts cannot reach an address: not if that is not certain."""
    if host.lower() == "localhost":  # never another address (RFC 6761, 6.3)
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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


def flag(name: str) -> str:
    """Return the flag of a field of Settings."""
    return "--" + name.replace("_", "-")


def _variable(name: str) -> str:
    return name.upper() if name == "mongodb_uri" else f"REGISTRY_{name.upper()}"
