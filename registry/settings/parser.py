"""The command line: a parser of arguments, and the names of flags and variables."""

import argparse
import re
from collections.abc import Callable
from typing import Any, NoReturn

from registry.printable import printable
from registry.resources.types_file import InvalidTypesFile

_CREDENTIALS = re.compile("://.*@", re.DOTALL)
"""Everything to the last @, as credentials that are not escaped may have any character."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose error messages are one line."""

    def parse_value(self, source: str, text: str, parse: Callable[[str], Any]) -> Any:
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


def without_credentials(text: str) -> str:
    """Return a text with URIs without their credentials."""
    return _CREDENTIALS.sub("://...@", text)


def flag(name: str) -> str:
    """Return the flag of a field of Settings."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """Return the environment variable of a field of Settings."""
    return name.upper() if name == "mongodb_uri" else f"REGISTRY_{name.upper()}"
