"""The sources of settings: command-line flags, then environment variables."""

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import Field, fields
from functools import cache
from typing import Any, get_type_hints

from registry.installation import program
from registry.settings.parser import Parser, flag, variable
from registry.settings.settings import Settings

_COMMON = (
    *("mongodb_uri", "data_dir", "host", "port", "workers", "public_url", "auth"),
    *("tls_certificate", "tls_key", "access_log"),
)
"""The settings that `--help` lists; `--help all` lists the others too."""


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the settings from command-line arguments and environment variables.

    A flag takes precedence over its variable; an empty variable counts as unset. An invalid value
    ends the process with status 2 and one line that names the flag or variable; `--help` lists the
    settings and ends it with status 0.
    """
    parser = _parser(_COMMON)
    flags = vars(parser.parse_args(arguments))
    if listed := flags["help"]:
        (_parser(_options()) if listed == "all" else parser).print_help()
        sys.exit(0)
    values: dict[str, Any] = {}
    for field in fields(Settings):
        source, texts = _texts(field, flags[field.name], environment)
        parse, _ = _options()[field.name]
        parsed = tuple(parser.parse_value(source, text, parse) for text in texts)
        if parsed:
            values[field.name] = parsed if _is_repeatable(field) else parsed[0]
    settings = Settings(**values)
    if contradiction := settings.contradiction():
        parser.error(contradiction)
    return settings


def setting_help(name: str) -> str:
    """Return the help of a setting, for a parser: its description, its variable and its default."""
    _, description = _options()[name]
    (default,) = (field.default for field in fields(Settings) if field.name == name)
    shown = "none" if default in {None, ()} else default
    return f"{description} [{variable(name)}, default: {shown}]".replace("%", "%%")


@cache
def _options() -> Mapping[str, tuple[Callable[[str], Any], str]]:
    """Return the function that parses each setting, and its description."""
    hints = get_type_hints(Settings, include_extras=True)
    return {name: hint.__metadata__ for name, hint in hints.items()}


def _parser(listed: Collection[str]) -> Parser:
    """Return the parser of all settings. listed: those in its help, which fits one screen."""
    parser = Parser(
        prog=f"{program()} serve",
        usage="%(prog)s [OPTIONS]",
        description="Serve the JSON:API registry of persons and computers.",
        epilog="Each setting is a flag or the environment variable in brackets.",
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument(
        *("-h", "--help"),
        nargs="?",
        const="common",
        choices=["common", "all"],
        metavar="all",
        help=f"list the {len(_COMMON)} most common settings, or all {len(_options())}",
    )
    for field in fields(Settings):
        parser.add_argument(
            flag(field.name),
            action="append",
            metavar="VALUE",
            help=setting_help(field.name) if field.name in listed else argparse.SUPPRESS,
        )
    return parser


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
