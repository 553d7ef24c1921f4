"""Text of others on a terminal or in a log, where some characters are commands."""

import re
import sys

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters of terminals, and characters that end a line or change its direction."""


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
