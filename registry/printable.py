"""Text of others on a terminal or in a log, where some characters are commands."""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters of terminals, and characters that end a line or change its direction."""


def printable(text: str) -> str:
    r"""Return a text as one line, its control characters escaped: `\x1b` for ESC."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
