"""The database of a command: that of MONGODB_URI, or the embedded one, also while it is in use."""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from registry.installation import program
from registry.model.graph import Graph
from registry.mongod.data_directory import has_data
from registry.mongod.unix_socket import running_uri
from registry.resources import RESOURCES
from registry.settings import Parser, Settings, flag, parse_settings, setting_help
from registry.start_error import StartError
from registry.storage import Database, connect

_Result = TypeVar("_Result")

_SETTINGS = ("mongodb_uri", "database", "data_dir", "mongod")


def database_options() -> Parser:
    """Return a parser for the options of the database, a parent of those of commands."""
    parser = Parser(add_help=False)
    for name in _SETTINGS:
        parser.add_argument(flag(name), metavar="VALUE", help=setting_help(name))
    return parser


def database_parser(command: str, description: str, arguments: str = "[OPTIONS]") -> Parser:
    """Return a parser for a command with the options of the database, to which others are added.

    arguments: how the usage shows all of them.
    """
    return Parser(
        prog=f"{program()} {command}",
        usage=f"%(prog)s {arguments}",
        description=description,
        parents=[database_options()],
        allow_abbrev=False,
    )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Return the settings in the parsed options and in the environment, as the service has them."""
    flags = {flag(name): getattr(arguments, name) for name in _SETTINGS}
    given = {name: value for name, value in flags.items() if value is not None}
    return parse_settings(list(chain(*given.items())), os.environ)


def backup_parser(command: str, description: str, file: str) -> Parser:
    """Return a parser for a command on a backup, the argument `file`. file: its help."""
    parser = database_parser(command, description, "[OPTIONS] FILE")
    parser.add_argument("file", type=_backup_path, metavar="FILE", help=file)
    return parser


def _backup_path(text: str) -> Path:
    if text == "-":
        raise argparse.ArgumentTypeError("a backup cannot be read from or written to a pipe")
    return Path(text)


@asynccontextmanager
async def open_database(
    settings: Settings, *, exclusive: bool = False, creates: bool = False
) -> AsyncIterator[Database]:
    """Yield the database; for the embedded one, a mongod is started if no service runs it.

    exclusive: whether a running service is an error. creates: whether the data directory is created
    if it has no data, which is an error otherwise. Raises StartError.
    """
    async with AsyncExitStack() as stack:
        if settings.mongodb_uri is None:
            uri = stack.enter_context(running_uri(settings))
            if uri is not None and exclusive:
                raise StartError(
                    f"a service uses the data directory {settings.data_dir}: stop it first"
                )
            if uri is None and not creates and not has_data(settings):
                raise StartError(
                    f"the data directory {settings.data_dir} has no data: correct --data-dir or "
                    "REGISTRY_DATA_DIR, or start the service, which creates it"
                )
            settings = replace(settings, mongodb_uri=uri)
        yield await stack.enter_async_context(connect(settings, Graph(RESOURCES)))


def run(command: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a command; exit with status 1 and one line if it fails."""
    try:
        return asyncio.run(command)
    except StartError as error:
        sys.exit(f"registry: {error}")
