"""The requirement files, as uv has written them."""

from __future__ import annotations

import re

_PIN = re.compile(
    r"(?P<name>[\w.-]+)==(?P<version>[^ ;]+)(?P<marker> ; [^\\]+)? \\\n"
    r"(?P<hashes>(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
)


def pins(text: str) -> dict[str, str]:
    """Return the versions by the names of the packages; each must have hashes, and nothing else."""
    text = re.sub("(?m)^ *#.*\n", "", text)
    assert _PIN.sub("", text) == ""
    return {found["name"]: found["version"] for found in _PIN.finditer(text)}
