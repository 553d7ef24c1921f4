"""What the service is told at start: by flags, or else by environment variables."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NoReturn, Self, get_type_hints
from urllib.parse import urlsplit

from registry.jsonapi.pagination import Sizes

_MOST_WORKERS = 64


class StartError(Exception):
    """The service cannot start: one line that says what is wrong and what to do."""


def _database(text: str) -> str:
    if re.search(r'[/\\. "$*<>:|?]', text) or len(text.encode()) > 63:
        raise ValueError(f"{text!r} is no name of a database: take letters, digits, _ and -")
    if text.lower() in {"admin", "config", "local"}:
        raise ValueError(f"MongoDB keeps the database {text!r} for itself")
    return text


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65535:
        raise ValueError(f"{text!r} is no port: 0 to 65535, where 0 takes any free one")
    return int(text)


def _workers(text: str) -> int:
    if not re.fullmatch("[0-9]{1,2}", text) or not 1 <= int(text) <= _MOST_WORKERS:
        raise ValueError(f"{text!r} is no number from 1 to {_MOST_WORKERS}")
    if text != "1" and sys.platform != "linux":
        raise ValueError("only Linux spreads connections over several processes: leave it at 1")
    return int(text)


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", text) or not int(text):
        raise ValueError(f"{text!r} is no number from 1 to 999999")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", text) or not float(text):
        raise ValueError(f"{text!r} is no number of seconds from 0.001 to 9999.999")
    return float(text)


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    plain = re.fullmatch(r"https?://[\w.~:/%\[\]-]+", text, re.ASCII)
    if not plain or not parts.hostname or parts.port == 0:  # reading a port checks it
        raise ValueError(f"{text!r} is no URL like https://registry.example.com")
    return text.rstrip("/")


@dataclass(frozen=True, slots=True)
class _Key:
    """Where a setting comes from; its flag is the name of the field: `data_dir` is `--data-dir`."""

    variable: str
    parse: Callable[[str], Any]
    help: str


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one service, checked."""

    mongodb_uri: Annotated[
        str | None,
        _Key("MONGODB_URI", str, "replica set or sharded cluster to use, not a private mongod"),
    ] = None
    database: Annotated[str, _Key("REGISTRY_DATABASE", _database, "name of the database")] = (
        "registry"
    )
    data_dir: Annotated[
        Path, _Key("REGISTRY_DATA_DIR", Path, "where the private mongod keeps its data")
    ] = Path("data")
    mongod: Annotated[
        Path | None, _Key("REGISTRY_MONGOD", Path, "mongod to run, not the installed one")
    ] = None
    host: Annotated[str, _Key("REGISTRY_HOST", str, "address to listen on")] = "127.0.0.1"
    port: Annotated[int, _Key("REGISTRY_PORT", _port, "port to listen on, 0: any free one")] = 8080
    workers: Annotated[
        int,
        _Key("REGISTRY_WORKERS", _workers, f"number of processes that serve, 1 to {_MOST_WORKERS}"),
    ] = 1
    public_url: Annotated[
        str | None, _Key("REGISTRY_PUBLIC_URL", _public_url, "where clients reach the service")
    ] = None

    page_size: Annotated[
        int, _Key("REGISTRY_PAGE_SIZE", _count, "resources on a page, if a request does not say")
    ] = 50
    largest_page: Annotated[
        int, _Key("REGISTRY_LARGEST_PAGE", _count, "most resources on a page")
    ] = 1_000
    most_operations: Annotated[
        int, _Key("REGISTRY_MOST_OPERATIONS", _count, "most atomic operations in a request")
    ] = 1_000
    query_seconds: Annotated[
        float,
        _Key("REGISTRY_QUERY_SECONDS", _seconds, "longest time of a filter or sort"),
    ] = 5.0

    @property
    def sizes(self) -> Sizes:
        """How many resources a page has; never more by default than at most."""
        return Sizes(min(self.page_size, self.largest_page), self.largest_page)

    @classmethod
    def parse(cls, arguments: Sequence[str], environment: Mapping[str, str]) -> Self:
        """Return the settings that the command line and the environment ask for.

        A flag wins over its variable; a variable that is empty is not set. A value that cannot
        be used ends the process with status 2 and one line that names its key.
        """
        parser = _Parser(
            prog="python -m registry",
            description="The JSON:API registry of persons and computers.",
            allow_abbrev=False,
        )
        hints = get_type_hints(cls, include_extras=True)
        keys: dict[str, _Key] = {name: hint.__metadata__[0] for name, hint in hints.items()}
        for field in fields(cls):
            key = keys[field.name]
            default = "none" if field.default is None else field.default
            parser.add_argument(
                _flag(field.name),
                metavar="VALUE",
                help=f"{key.help} [{key.variable}, default: {default}]",
            )
        flags = vars(parser.parse_args(arguments))
        values = {}
        for name, key in keys.items():
            if flags[name] is not None:
                values[name] = parser.checked(_flag(name), flags[name], key.parse)
            elif environment.get(key.variable):
                values[name] = parser.checked(key.variable, environment[key.variable], key.parse)
        return cls(**values)


class _Parser(argparse.ArgumentParser):
    """An argument parser that says in one line what is wrong."""

    def checked(self, key: str, text: str, parse: Callable[[str], Any]) -> Any:
        try:
            if not text:
                raise ValueError("the value is empty")
            return parse(text)
        except ValueError as error:
            self.error(f"{key}: {error}")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"registry: {message}; --help lists the settings\n")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
