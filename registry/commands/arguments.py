"""The arguments that commands have in common: the database, the service, and the file."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import TypeVar

from registry.client import Client, RegistryError
from registry.client.transport import base_url
from registry.commands.output import fail
from registry.model.graph import Graph
from registry.program import InvalidSetting, note, program
from registry.setting_parsers import secret
from registry.settings import VARIABLES, Parser, Settings, add_setting, variable

TOKEN_VARIABLE = "REGISTRY_TOKEN"  # noqa: S105 - the name of a variable

_REMEDIES = {
    401: f": set the variable {TOKEN_VARIABLE} to a valid access token",
    403: f": the token in {TOKEN_VARIABLE} lacks a scope",
}

_Value = TypeVar("_Value")

CSV, NDJSON = "csv", "ndjson"
_SUFFIXES = {".csv": CSV, ".ndjson": NDJSON, ".jsonl": NDJSON}

_TYPES = "types"
_SETTINGS = ("mongodb_uri", "database", "data_dir", "mongod", _TYPES, "revisions")

SERVICE_FILE = Path("/etc/registry.env")

_SERVICE_FILE_CHARACTERS = 2**16

_PLACES = {"MONGODB_URI", "MONGODB_URI_FILE", variable("data_dir")}
"""The variables that say where the database is."""

_URL, _DEFAULT_URL = "REGISTRY_URL", "http://127.0.0.1:8080"

_OF_CLIENTS = (
    f"If the service requires an access token, set the variable {TOKEN_VARIABLE} to it, or "
    f"{TOKEN_VARIABLE}_FILE to a file that has it. Set SSL_CERT_FILE to the certificates of a "
    "private authority."
)


def command_parser(
    command: str,
    description: str,
    arguments: str = "[OPTIONS]",
    epilog: str | None = None,
    kind: type[Parser] = Parser,
) -> Parser:
    """Return the parser of a command. arguments: how its usage shows them."""
    return kind(
        prog=f"{program()} {command}",
        usage=f"%(prog)s {arguments}",
        description=description,
        epilog=epilog,
        allow_abbrev=False,
    )


class DatabaseParser(Parser):
    """The parser of a command on the database of the service."""

    def settings(
        self, parsed: argparse.Namespace, environment: Mapping[str, str] = os.environ
    ) -> Settings:
        """Return the settings: in flags, else in variables, else in the file of the service."""
        variables = {name: value for name, value in environment.items() if value}
        flags = {variable(name) for name in _SETTINGS if getattr(parsed, name, None) is not None}
        stored = _settings_of_service()
        if not _PLACES.isdisjoint(flags | variables.keys()):
            # Whoever names a database must not get another one, such as that of a MONGODB_URI.
            stored = {name: value for name, value in stored.items() if name not in _PLACES}
        return super().settings(parsed, {**stored, **variables})


@cache
def _settings_of_service() -> dict[str, str]:
    """Return the variables in the file of the service, which systemd reads (EnvironmentFile)."""
    try:
        with SERVICE_FILE.open() as file:
            lines = file.read(_SERVICE_FILE_CHARACTERS).splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeError) as error:
        note(f"registry: {SERVICE_FILE} is not used: {error}")
        return {}
    pairs = (line.strip().partition("=") for line in lines if "=" in line)
    return {name: value.strip("'\"") for name, _, value in pairs if not name.startswith(("#", ";"))}


def database_parser(command: str, description: str, arguments: str = "[OPTIONS]") -> Parser:
    """Return the parser of a command with the options of the database."""
    parser = command_parser(command, description, arguments, VARIABLES, DatabaseParser)
    add_database(parser)
    return parser


def add_database(parser: Parser) -> None:
    """Add the options of the database."""
    group = parser.add_argument_group("the database")
    for name in _SETTINGS:
        add_setting(group.add_argument, name)


def declared_graph(arguments: Sequence[str]) -> Graph:
    """Return the types that a command knows, before all of its arguments are parsed.

    Exits with status 2 and one line if the file of types is not valid.
    """
    parser = Parser(prog=program(), add_help=False, allow_abbrev=False)
    add_setting(parser.add_argument, _TYPES)
    parsed, _ = parser.parse_known_args(arguments)
    names = [variable(name) for name in (_TYPES, "unique", "revisions")]
    stored = _settings_of_service()
    environment = {name: os.environ.get(name) or stored.get(name, "") for name in names}
    return parser.settings(parsed, environment).graph


def client_parser(command: str, description: str, arguments: str = "[OPTIONS]") -> Parser:
    """Return the parser of a command with the option of the service that it uses."""
    parser = command_parser(command, description, arguments, _OF_CLIENTS)
    group = parser.add_argument_group("the service")
    shown = f"Use the service at this base URL. [{_URL}, default: {_DEFAULT_URL}]"
    default = os.environ.get(_URL) or _DEFAULT_URL
    group.add_argument("--url", metavar="URL", type=checked(base_url), default=default, help=shown)
    add_setting(group.add_argument, _TYPES)
    return parser


def open_client(url: str) -> Client:
    """Return the client of a service, to be entered. All users could see a token in an option.

    Exits with status 2 if the file with the token cannot be used. Raises RegistryError for a token
    that no header can have.
    """
    try:
        token = secret(TOKEN_VARIABLE, os.environ).strip()
    except ValueError as error:
        fail(InvalidSetting(str(error)))
    if not token.isprintable():
        raise RegistryError(f"{TOKEN_VARIABLE} has control characters, which no token has")
    return Client(url, token)


def failure_of(error: RegistryError) -> str:
    """Return why a request has failed, and the remedy."""
    remedy = _REMEDIES.get(error.status or 0)
    return f"{str(error).removesuffix('.')}{remedy}" if remedy else str(error)


def add_file(parser: Parser, help_text: str) -> None:
    """Add a file and its format."""
    parser.add_argument(
        "--format",
        choices=(CSV, NDJSON),
        help="Take the file as this format, whatever its name. [default: by its suffix, else csv]",
    )
    parser.add_argument("file", metavar="FILE", help=help_text)


def is_csv(parsed: argparse.Namespace) -> bool:
    """Return whether the format is CSV, by the option, else by the suffix of the file."""
    suffix = PurePath(parsed.file).suffix.lower()
    return (parsed.format or _SUFFIXES.get(suffix, CSV)) == CSV


def checked(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Return a type of arguments; error messages have the reason of the ValueError."""

    def parse_argument(text: str) -> _Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_argument
