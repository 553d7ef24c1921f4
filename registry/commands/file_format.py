"""The formats of files that the commands `import` and `export` have in common."""

import argparse
from pathlib import PurePath

from registry.settings import Parser

CSV, NDJSON = "csv", "ndjson"

_SUFFIXES = {".csv": CSV, ".ndjson": NDJSON, ".jsonl": NDJSON}


def add_format(parser: Parser) -> None:
    """Add the option for the format."""
    parser.add_argument(
        "--format",
        choices=(CSV, NDJSON),
        help="format of the file [default: that of its name, otherwise csv]",
    )


def format_of(parsed: argparse.Namespace) -> str:
    """Return the format: of the option, else of the suffix of the file, else CSV."""
    return parsed.format or _SUFFIXES.get(PurePath(parsed.file).suffix.lower(), CSV)
