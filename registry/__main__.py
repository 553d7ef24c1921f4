"""The command line: `registry`, or `python -m registry`; `--help` lists the commands."""

import os
import platform
import sys
from importlib import import_module

from registry import __version__
from registry.commands.output import output
from registry.program import METRICS_VARIABLE, note, program
from registry.settings import Parser

_COMMANDS = {
    "serve": ("serve:main", "Run the service (the default)."),
    "health": ("health:main", "Tell whether a service with the same settings is alive."),
    "seed": ("seed:main", "Fill a running service with generated persons and computers."),
    "import": ("import_:main", "Load a CSV or NDJSON file into a running service."),
    "export": ("export:main", "Write resources to a CSV or NDJSON file."),
    "watch": ("watch:main", "Print the changes of a running service, or deliver them to a URL."),
    "backup": (
        "database:backup",
        "Write the whole database to a file, even while the service runs.",
    ),
    "restore": ("database:restore", "Write the content of a backup into an empty database."),
    "check": ("database:check", "Find inconsistent data, and repair what can be derived."),
    "forget": ("database:forget", "Remove what the history keeps of a deleted resource."),
    "token": ("token:main", "Create, list and revoke access tokens."),
    "upgrade": ("database:upgrade", "Raise the data format to that of a later MongoDB."),
}
"""The module in `registry.commands` and the function of each command, and what it does."""

_OPTIONS = ("-h", "--help", "--version")


def main() -> None:
    """Run the command that the first argument names; serve if it names none."""
    # That of another program: `serve` sets it if there are several workers.
    os.environ.pop(METRICS_VARIABLE, None)
    name, *arguments = sys.argv[1:] or ["serve"]
    if name.startswith("-") and name not in _OPTIONS:
        name, arguments = "serve", sys.argv[1:]
    if _parser().parse_args([name]).version:
        output(f"registry {__version__}, Python {platform.python_version()}")
    else:
        _run(name, arguments)


def _run(name: str, arguments: list[str]) -> None:
    """Load and run a command; exit with status 130 if it is interrupted."""
    module, function = _COMMANDS[name][0].split(":")
    try:
        getattr(import_module(f"registry.commands.{module}"), function)(arguments)
    except KeyboardInterrupt:
        note("registry: interrupted")
        sys.exit(130)


def _parser() -> Parser:
    parser = Parser(
        prog=program(),
        usage="%(prog)s [COMMAND] [OPTIONS]",
        description="The Person and Computer Registry: a JSON:API service on MongoDB.",
        epilog=f"`{program()} COMMAND --help` lists the options of a command.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="store_true", help="Print the version, and that of Python."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, (_, description) in _COMMANDS.items():
        commands.add_parser(name, help=description)
    return parser


if __name__ == "__main__":
    main()
