"""The arguments that commands have in common: the database, the service, and the file."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TypeVar

from registry.client import Client, RegistryError
from registry.client.transport import base_url
from registry.model.graph import Graph
from registry.program import program
from registry.settings import VARIABLES, Parser, add_setting, variable

TOKEN_VARIABLE = "REGISTRY_TOKEN"  # noqa: S105 - the name of a variable

_REMEDIES = {
    401: f": set the variable {TOKEN_VARIABLE} to a valid access token",
    403: f": the token in {TOKEN_VARIABLE} lacks a scope",
}

_Value = TypeVar("_Value")

CSV, NDJSON = "csv", "ndjson"
_SUFFIXES = {".csv": CSV, ".ndjson": NDJSON, ".jsonl": NDJSON}

_TYPES = "types"
_SETTINGS = ("mongodb_uri", "database", "data_dir", "mongod", _TYPES)

_URL, _DEFAULT_URL = "REGISTRY_URL", "http://127.0.0.1:8080"

_OF_CLIENTS = (
    f"The variable {TOKEN_VARIABLE} holds the access token, if the service requires one; "
    "SSL_CERT_FILE names the certificates of a private authority."
)


def command_parser(
    command: str, description: str, arguments: str = "[OPTIONS]", epilog: str | None = None
) -> Parser:
    """Return the parser of a command. arguments: how its usage shows them."""
    return Parser(
        prog=f"{program()} {command}",
        usage=f"%(prog)s {arguments}",
        description=description,
        epilog=epilog,
        allow_abbrev=False,
    )


def database_parser(command: str, description: str, arguments: str = "[OPTIONS]") -> Parser:
    """Return the parser of a command with the options of the database."""
    parser = command_parser(command, description, arguments, VARIABLES)
    add_database(parser)
    return parser


def add_database(parser: Parser) -> None:
    """Add the options of the database."""
    for name in _SETTINGS:
        add_setting(parser, name)


def declared_graph(arguments: Sequence[str]) -> Graph:
    """Return the types that a command knows, before all of its arguments are parsed.

    Exits with status 2 and one line if the file of types is not valid.
    """
    parser = Parser(prog=program(), add_help=False, allow_abbrev=False)
    add_setting(parser, _TYPES)
    parsed, _ = parser.parse_known_args(arguments)
    variables = [variable(name) for name in (_TYPES, "unique")]
    return parser.settings(parsed, {name: os.environ.get(name, "") for name in variables}).graph


def client_parser(command: str, description: str, arguments: str = "[OPTIONS]") -> Parser:
    """Return the parser of a command with the option of the service that it uses."""
    parser = command_parser(command, description, arguments, _OF_CLIENTS)
    shown = f"base URL of the service [{_URL}, default: {_DEFAULT_URL}]"
    default = os.environ.get(_URL) or _DEFAULT_URL
    parser.add_argument("--url", metavar="URL", type=checked(base_url), default=default, help=shown)
    add_setting(parser, _TYPES)
    return parser


def open_client(url: str) -> Client:
    """Return the client of a service, to be entered. All users could see a token in an option.

    Raises RegistryError for a token that no header can have.
    """
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
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
        help="format of the file [default: that of its name, otherwise csv]",
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
