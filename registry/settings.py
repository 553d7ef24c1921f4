"""The settings of one service, read from command-line flags, then from environment variables."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_type_hints
from urllib.parse import urlsplit

from registry.access import is_loopback
from registry.model.graph import Graph
from registry.model.resource_type import InvalidDeclaration
from registry.program import DATA_DIR, IS_CHECKOUT, printable, program
from registry.protocol import LARGEST_PAGE
from registry.resources.types_file import InvalidTypesFile, TypesFile, declared_types, read_types
from registry.setting_parsers import (
    MAX_WORKERS,
    base_url,
    database_name,
    host_name,
    integer,
    issuer_url,
    one_of,
    origin,
    seconds,
    secret,
    worker_count,
)

CORES = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
"""The cores that this process may use."""

_CREDENTIALS = re.compile("://.*@", re.DOTALL)
"""Everything to the last @, as credentials that are not escaped may have any character."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The validated settings of one service.

    The flag of `data_dir` is `--data-dir`, its environment variable `REGISTRY_DATA_DIR`. Each
    annotation names the parser of the text, and its value and sentence in `--help`. A setting whose
    default is a tuple has any number of values: its flag can be repeated, and its variable has them
    separated by commas.
    """

    mongodb_uri: Annotated[
        str | None, str, "URI", "Use this replica set or cluster; without it, a mongod is started."
    ] = None
    database: Annotated[str, database_name, "NAME", "Keep the data in this database."] = "registry"
    data_dir: Annotated[Path, Path, "DIRECTORY", "Keep the data of the embedded mongod here."] = (
        DATA_DIR
    )
    mongod: Annotated[
        Path | None, Path, "PROGRAM", "Start this mongod instead of the installed one."
    ] = None

    host: Annotated[str, str, "ADDRESS", "Listen on this address; :: listens on all of them."] = (
        "127.0.0.1"
    )
    port: Annotated[int, integer(0, 65_535), "PORT", "Listen on this port; 0 picks a free one."] = (
        8080
    )
    workers: Annotated[
        int, worker_count, "COUNT", f"Serve with so many processes, up to {MAX_WORKERS}."
    ] = 1
    public_url: Annotated[
        str | None, base_url, "URL", "Tell clients this base URL instead of the one they used."
    ] = None
    auth: Annotated[
        str,
        one_of("auto", "on", "off"),
        "MODE",
        "Require access tokens: on, off, or auto, which requires them unless only this machine "
        "can connect.",
    ] = "auto"
    tls_certificate: Annotated[
        Path | None, Path, "FILE", "Serve HTTPS with this certificate chain (PEM)."
    ] = None
    tls_key: Annotated[
        Path | None, Path, "FILE", "Use this private key of the certificate (PEM)."
    ] = None
    allowed_host: Annotated[
        tuple[str, ...], host_name, "HOST", "Answer requests for this host name too (repeatable)."
    ] = ()
    cors_origin: Annotated[
        tuple[str, ...],
        origin,
        "ORIGIN",
        "Let web pages of this origin use the API; * lets all (repeatable).",
    ] = ()
    trusted_proxy: Annotated[
        tuple[IPv4Network | IPv6Network, ...],
        ip_network,
        "NETWORK",
        "Believe what this proxy says about clients (repeatable).",
    ] = ()

    types: Annotated[
        TypesFile | None, read_types, "FILE", "Add the types and attributes of this TOML file."
    ] = None
    unique: Annotated[
        tuple[str, ...],
        str,
        "TYPE.ATTRIBUTE",
        "Refuse a value that another resource has, such as of person.email (repeatable).",
    ] = ()
    revisions: Annotated[
        int | None,
        integer(1, 24_855),
        "DAYS",
        "Keep who changed which value for so many days; without it, this is not stored.",
    ] = None

    oidc_issuer: Annotated[
        str | None, issuer_url, "URL", "Accept tokens of this OpenID Connect issuer."
    ] = None
    oidc_audience: Annotated[
        str | None, str, "NAME", "Refuse its tokens that are not meant for this audience."
    ] = None
    oidc_scope_claim: Annotated[
        str, str, "CLAIM", "Read the scopes of its tokens from this claim."
    ] = "scope"

    access_log: Annotated[str, one_of("on", "off"), "on|off", "Log every request."] = "off"
    log_format: Annotated[
        str, one_of("text", "json"), "text|json", "Write log lines in this format."
    ] = "text"
    metrics_port: Annotated[
        int | None, integer(0, 65_535), "PORT", "Serve /metrics on a port of its own."
    ] = None

    compression: Annotated[
        str, one_of("on", "off"), "on|off", "Compress large responses for clients that ask for it."
    ] = "on"
    page_size: Annotated[
        int,
        integer(1, LARGEST_PAGE),
        "COUNT",
        f"Put so many resources on a page whose size is not given, up to {LARGEST_PAGE:,}.",
    ] = 50
    query_seconds: Annotated[
        float, seconds, "SECONDS", "Refuse a request whose query takes longer, with 503."
    ] = 5.0
    capacity: Annotated[
        int,
        integer(1, 999_999),
        "COUNT",
        "Let so many requests per worker be in progress; others wait, then get 503.",
    ] = 1_000 * CORES

    @property
    def requires_tokens(self) -> bool:
        """Whether requests need an access token."""
        return self.auth == "on" or (self.auth == "auto" and not is_loopback(self.host))

    @property
    def scheme(self) -> str:
        """The scheme of the URLs of the service: `https` with TLS, otherwise `http`."""
        return "https" if self.tls_certificate else "http"

    @property
    def graph(self) -> Graph:
        """All types: those of this package and of the file. Raises InvalidDeclaration."""
        return Graph(declared_types(self.types), self.revisions).with_unique(self.unique)

    def contradiction(self) -> str | None:
        """Return what is wrong with the combination of settings that are each valid."""
        setting = "revisions"
        try:
            graph = Graph(declared_types(self.types), self.revisions)
            setting = "unique"
            graph.with_unique(self.unique)
        except InvalidDeclaration as error:
            return f"{flag(setting)}: {error}"
        if bool(self.oidc_issuer) != bool(self.oidc_audience):
            return "--oidc-issuer and --oidc-audience require each other"
        if bool(self.tls_certificate) != bool(self.tls_key):
            return "--tls-certificate and --tls-key: set both or neither"
        if self.auth == "auto" and not self.requires_tokens and (name := self._published_by()):
            return (
                f"{flag(name)}: the API would be open through your proxy. Require tokens with "
                "--auth on, or allow everybody with --auth off"
            )
        return None

    def _published_by(self) -> str | None:
        """Return the setting that implies clients on other machines, None without one."""
        host = urlsplit(self.public_url).hostname if self.public_url else None
        if host is not None and not is_loopback(host):
            return "public_url"
        if self.trusted_proxy:
            return "trusted_proxy"
        return "oidc_issuer" if self.oidc_issuer else None


_GROUPS = {
    "mongodb_uri": "the database",
    "host": "the network",
    "types": "types",
    "oidc_issuer": "OpenID Connect",
    "access_log": "logs and metrics",
    "compression": "responses and limits",
}
"""The titles of the groups of settings in `--help`, by the first setting of each."""

_FIELDS = {field.name: field for field in fields(Settings)}
_HINTS = get_type_hints(Settings, include_extras=True)

VARIABLES = (
    "An environment variable sets each option that is not given: REGISTRY_DATA_DIR sets "
    "--data-dir, MONGODB_URI sets --mongodb-uri, and MONGODB_URI_FILE names a file with that URI."
)
"""What the help of a command with settings ends with."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose error messages are one line."""

    def settings(
        self, parsed: argparse.Namespace, environment: Mapping[str, str] = os.environ
    ) -> Settings:
        """Return the settings in parsed flags, some of which may be missing, and in variables.

        Exits as `parse_settings` does.
        """
        values: dict[str, Any] = {}
        uri = variable("mongodb_uri")
        try:
            environment = {**environment, uri: secret(uri, environment)}
        except ValueError as error:
            self.error(str(error))
        for name, field in _FIELDS.items():
            source, texts = _texts(field, getattr(parsed, name, None), environment)
            parse, *_ = _HINTS[name].__metadata__
            found = tuple(self._parse(source, text, parse) for text in texts)
            if found:
                values[name] = found if _is_repeatable(field) else found[0]
        settings = Settings(**values)
        if contradiction := settings.contradiction():
            self.error(contradiction)
        return settings

    def _parse(self, source: str, text: str, parse: Callable[[str], Any]) -> Any:
        """Return the parsed value; source: the flag or variable that an error message names."""
        try:
            if not text:
                raise ValueError("the value is empty")
            return parse(text)
        except InvalidTypesFile as error:  # the options are right
            self.exit(2, f"registry: {printable(f'{source}: {error}')}\n")
        except ValueError as error:
            self.error(f"{source}: {error}")

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and the message on standard error, without the credentials of URIs."""
        shown = printable(without_credentials(message.removeprefix("argument ")))
        self.exit(2, f"registry: {shown}; --help lists the options\n")


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the settings from command-line arguments and environment variables.

    A flag takes precedence over its variable; an empty variable counts as unset. An invalid value
    ends the process with status 2 and one line that names the flag or variable; `--help` lists the
    settings and ends it with status 0.
    """
    parser = Parser(
        prog=f"{program()} serve",
        usage="%(prog)s [OPTIONS]",
        description="Serve the API, the page for people and Swagger UI until a signal stops it.",
        epilog=VARIABLES,
        allow_abbrev=False,
    )
    add: Callable[..., object] = parser.add_argument
    for name in _FIELDS:
        if title := _GROUPS.get(name):
            add = parser.add_argument_group(title).add_argument
        add_setting(add, name)
    return parser.settings(parser.parse_args(arguments), environment)


def add_setting(add: Callable[..., object], name: str) -> None:
    """Add the flag of a setting. add: `add_argument` of a parser or of a group."""
    field, (_, metavar, description) = _FIELDS[name], _HINTS[name].__metadata__
    default = "data" if IS_CHECKOUT and field.default == DATA_DIR else field.default
    shown = "" if default in {None, ()} else f" [default: {default}]"
    text = f"{description}{shown}".replace("%", "%%")
    add(flag(name), action="append", metavar=metavar, help=text)


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


def without_credentials(text: str) -> str:
    """Return a text with URIs without their credentials."""
    return _CREDENTIALS.sub("://...@", text)


def flag(name: str) -> str:
    """Return the flag of a field of Settings."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """Return the environment variable of a field of Settings."""
    return name.upper() if name == "mongodb_uri" else f"REGISTRY_{name.upper()}"
