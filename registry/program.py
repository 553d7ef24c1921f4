"""The program: how it was installed and started, and what it tells its user."""

import re
import shutil
import sys
from pathlib import Path

from platformdirs import user_data_path

_ROOT = Path(__file__).parents[1]

IS_CHECKOUT = (_ROOT / "setup.py").is_file()
"""Whether this package is in a checkout of the repository, where scripts run the commands."""

DATA_DIR = Path("data") if IS_CHECKOUT else user_data_path("registry", appauthor=False)
"""The default data directory: `data` in a checkout; otherwise that of the user, on Linux in
`XDG_DATA_HOME` or `~/.local/share`."""

SWAGGER_UI = Path(__file__).with_name("openapi") / "swagger-ui"
"""The directory of the required version, if scripts/swagger-ui has installed it."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters of terminals, and characters that end a line or change its direction."""


class StartError(Exception):
    """The process cannot continue.

    The message is one line with the reason and, if there is one, the remedy. Its control characters
    are escaped. status: the exit status.
    """

    status = 1

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class InvalidSetting(StartError):
    """The value of a setting is wrong."""

    status = 2


def printable(text: str) -> str:
    r"""Return a text as one line, its control characters escaped: `\x1b` for ESC."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def note(line: str, end: str = "\n") -> None:
    r"""Write a line for the user, which is not part of the output, to standard error.

    end: with `\r`, the next line takes its place on a terminal.
    """
    if sys.stderr is not None:  # as it is if closed; print would then write to standard output
        clear = "\x1b[K" if sys.stderr.isatty() else ""
        print(clear + printable(line), end=end, file=sys.stderr, flush=True)  # noqa: T201 - its purpose


def program() -> str:
    """Return how the user has started this program: `registry` or `python -m registry`."""
    name = Path(sys.argv[0]).name
    return "python -m registry" if name == "__main__.py" else name


def command(name: str) -> list[str]:
    """Return the words by which a command, such as `token`, can be run in this installation."""
    if IS_CHECKOUT:
        return ["./scripts/registry", name]
    program = ["registry"] if shutil.which("registry") else [sys.executable, "-m", "registry"]
    return [*program, name]


def is_default(data_dir: Path) -> bool:
    """Return whether commands use this data directory if they are not told another one."""
    return data_dir.absolute() == _ROOT / DATA_DIR
