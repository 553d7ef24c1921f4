"""The page docs/cli.md, as `python -m tests.cli` writes it from `--help` of every command."""

import os
import re
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from registry.__main__ import main
from registry.settings import CORES
from tests.system.service import environment

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"

_HEAD = """# The command line

These are the commands with their options, as `--help` prints them. In a checkout, the command
`registry` is `./scripts/registry`, and `registry serve` is `./scripts/serve`.
"""


def help_of(*command: str, columns: int = 100) -> str:
    """Return what `--help` of a command prints in a terminal of this width."""
    with (
        patch.dict(os.environ, environment(COLUMNS=str(columns)), clear=True),
        patch.object(sys, "argv", ["__main__.py", *command, "--help"]),
        redirect_stdout(StringIO()) as printed,
        suppress(SystemExit),
    ):
        main()
    return printed.getvalue()


def commands() -> list[tuple[str, ...]]:
    """Return the words of each command that its own help or that of another lists."""
    names = re.findall(r"^    (\w+) ", help_of(), re.MULTILINE)
    tokens = re.findall(r"^    (\w+) ", help_of("token"), re.MULTILINE)
    return [(), *((name,) for name in names), *(("token", name) for name in tokens)]


def page() -> str:
    """Return the text of the page."""
    parts = [_HEAD]
    for command in commands():
        shown = help_of(*command).replace("python -m registry", "registry")
        shown = shown.replace(f"[default: {1_000 * CORES}]", "[default: 1000 per core]")
        parts.append(f"## {' '.join(('registry', *command))}\n\n```text\n{shown}```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"Wrote {PAGE}\n")
