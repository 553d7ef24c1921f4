"""The sources of settings: command-line flags, then environment variables."""

from argparse import HelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from functools import partial
from typing import Any, get_type_hints

from registry.installation import program
from registry.settings.parser import Parser, flag, variable
from registry.settings.settings import Settings

_FIELDS = {field.name: field for field in fields(Settings)}
_HINTS = get_type_hints(Settings, include_extras=True)

VARIABLES = (
    "Each setting is also an environment variable, such as REGISTRY_DATA_DIR for --data-dir; that "
    "of --mongodb-uri is MONGODB_URI."
)
"""What the help of a command with settings ends with."""


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the settings from command-line arguments and environment variables.

    A flag takes precedence over its variable; an empty variable counts as unset. An invalid value
    ends the process with status 2 and one line that names the flag or variable; `--help` lists the
    settings and ends it with status 0.
    """
    parser = Parser(
        prog=f"{program()} serve",
        usage="%(prog)s [OPTIONS]",
        description="Serve the JSON:API registry of persons and computers.",
        epilog=VARIABLES,
        formatter_class=partial(HelpFormatter, max_help_position=28),  # one line for each
        allow_abbrev=False,
    )
    for name in _FIELDS:
        add_setting(parser, name)
    flags = vars(parser.parse_args(arguments))
    values: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        source, texts = _texts(field, flags[name], environment)
        parse, _ = _HINTS[name].__metadata__
        parsed = tuple(parser.parse_value(source, text, parse) for text in texts)
        if parsed:
            values[name] = parsed if _is_repeatable(field) else parsed[0]
    settings = Settings(**values)
    if contradiction := settings.contradiction():
        parser.error(contradiction)
    return settings


def add_setting(parser: Parser, name: str) -> None:
    """Add the flag of a setting, with its description and its default."""
    field, (_, description) = _FIELDS[name], _HINTS[name].__metadata__
    shown = "" if field.default in {None, ()} else f" [default: {field.default}]"
    text = f"{description}{shown}".replace("%", "%%")
    parser.add_argument(flag(name), action="append", metavar="VALUE", help=text)


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
