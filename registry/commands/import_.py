"""The command `import`: a CSV file, which the service reads, or operations of an NDJSON file."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import IO, NoReturn

import orjson
from aiohttp import hdrs

from registry.client import Client, RegistryError
from registry.client.transport import Document, Parameters
from registry.commands.arguments import (
    add_file,
    checked,
    client_parser,
    declared_graph,
    failure_of,
    is_csv,
    open_client,
)
from registry.commands.ndjson_lines import Line, LineWriter, read_lines
from registry.commands.output import counted, input_file, output
from registry.model.graph import Graph
from registry.program import note
from registry.protocol import CSV_TYPE, NDJSON_TYPE, PREFER, ROLL_BACK
from registry.settings import Parser

_DESCRIPTION = (
    "Create the resources of a file in a running service, or update existing ones. The rows of a "
    "CSV file are found by their ids, unique attributes, e-mail addresses, or what --key names; "
    "with one of these, importing a file again changes nothing. The lines of an NDJSON file are "
    "found by their ids or unique attributes. Invalid rows are reported by line and column; all "
    "others are stored."
)

LINE_SECONDS = 5.0
"""Seconds between lines of progress where standard error is not a terminal."""

_PIECE = 2**16

_OPTIONS = {
    "`rows[map][COLUMN]`": "--map COLUMN=NAME",
    "`rows[key]`": "--key",
    "`rows[create]=true`": "--create",
    "`Content-Type: text/csv; charset=windows-1252`": "--encoding windows-1252",
}
"""What the service says of its parameters, in the words of the command."""

_OF_CSV = ("type", "key", "map", "replace", "encoding")
"""The options that only CSV files have."""

_EFFECTS = {"created": "created", "updated": "changed", "unchanged": "left unchanged"}


def main(arguments: Sequence[str]) -> None:
    """Import a file; exit with status 1 if rows are invalid, with 2 if the file is."""
    graph = declared_graph(arguments)
    parser = _parser(graph)
    parsed = parser.parse_args(arguments)
    if is_csv(parsed) and parsed.type is None:
        parser.error(f"--type: name the type of a CSV file: {' or '.join(_types(graph))}")
    if not is_csv(parsed):
        for name in _OF_CSV:
            if getattr(parsed, name) != parser.get_default(name):
                parser.error(f"--{name}: only CSV files have it, not NDJSON")
    tally = Tally(graph, parsed.url, is_dry=parsed.dry_run, next_run=_next_run(parsed))
    try:
        with input_file(parsed.file) as file:
            if is_csv(parsed):
                run(tally, lambda client: _report_of_csv(parsed, file, tally, client))
            else:
                store_lines(read_lines(file, graph, creates=parsed.create), tally)
    except OSError as error:
        tally.fail(f"{parsed.file}: {error.strerror or error}", status=2)


@dataclass
class Tally:
    """The progress of an import, and its summary.

    next_run: what the same command does if this one is interrupted. counts: the last `meta` of the
    report.
    """

    graph: Graph
    url: str
    is_dry: bool = False
    next_run: str = "stores everything again"
    counts: Document = field(default_factory=lambda: {"rows": 0, "invalid": 0})
    started: float = field(default_factory=monotonic)
    shown: float = field(default_factory=monotonic)

    def add(self, line: Document) -> None:
        """Take a line of a report: print its errors, or the progress, in a pipe at times."""
        for error in line.get("errors", ()):
            source = error.get("source", {})
            place = f"line {source['line']}" if "line" in source else "registry"
            column = f", column {source['column']}" if "column" in source else ""
            note(f"{place}{column}: {_in_options(error['detail'])}")
        if "meta" in line:
            self.counts = line["meta"]
            rows, now = self.counts["rows"], monotonic()
            is_terminal = sys.stderr is not None and sys.stderr.isatty()
            if is_terminal or now - self.shown >= LINE_SECONDS:
                self.shown = now
                text = f"{rows:,} rows, {rows / (now - self.started):,.0f} per second"
                note(text, end="\r" if is_terminal else "\n")

    def fail(self, reason: str, status: int) -> NoReturn:
        """Exit with a reason, and what was stored until then."""
        has_effects = any(map(self.counts.get, _EFFECTS))
        note(f"registry: {reason}{f'; {self}' if has_effects else ''}")
        sys.exit(status)

    def __str__(self) -> str:
        collections = {resource.type: resource.collection for resource in self.graph.values()}
        parts = list[str]()
        for effect, words in _EFFECTS.items():
            if numbers := self.counts.get(effect):
                named = {collections.get(name, name): number for name, number in numbers.items()}
                parts.append(f"{words} {' and '.join(counted(self.graph, named))}")
        seconds, invalid = monotonic() - self.started, self.counts["invalid"]
        speed = f"{seconds:.1f} s, {self.counts['rows'] / max(seconds, 0.001):,.0f} rows per second"
        text = f"{', '.join(parts) or 'changed nothing'} at {self.url}, in {speed}"
        if invalid:
            text += f"; skipped {invalid:,} invalid row{'s' * (invalid > 1)}"
        return f"dry run, nothing is stored: {text}" if self.is_dry else text


def store_lines(lines: Iterable[Line], tally: Tally) -> NoReturn:
    """Store the lines of an NDJSON file; exit as `run`."""
    run(tally, lambda client: LineWriter(client, rolls_back=tally.is_dry).report(lines))


def run(tally: Tally, report: Callable[[Client], AsyncIterator[Document]]) -> NoReturn:
    """Import, and show the report; exit with status 1 if rows are invalid or the service fails.

    report: yields the lines of the report, as the service sends them.
    """

    async def show() -> None:
        async with open_client(tally.url) as client:
            async for line in report(client):
                tally.add(line)

    try:
        asyncio.run(show())
    except RegistryError as error:
        tally.fail(failure_of(error), status=1)
    except KeyboardInterrupt:
        tally.fail(f"interrupted: the same command {tally.next_run}", status=130)
    if "complete" not in tally.counts:
        tally.fail("the import has ended before the last row", status=2)
    output(str(tally))
    sys.exit(1 if tally.counts["invalid"] else 0)


async def _report_of_csv(
    parsed: argparse.Namespace, file: IO[bytes], tally: Tally, client: Client
) -> AsyncIterator[Document]:
    """Send a file to the service, and yield its report. Exits with status 2 if it is refused."""
    flags = {"rows[replace]": parsed.replace, "rows[create]": parsed.create}
    parameters: Parameters = [
        *(("rows[key]", key) for key in parsed.key),
        *((f"rows[map][{column}]", name) for column, name in parsed.map),
        *((name, "true") for name, is_set in flags.items() if is_set),
    ]
    headers = {
        hdrs.ACCEPT: NDJSON_TYPE,
        hdrs.CONTENT_TYPE: f"{CSV_TYPE}; charset={parsed.encoding}",
        PREFER: ROLL_BACK if parsed.dry_run else None,
    }

    async def pieces() -> AsyncIterator[bytes]:
        file.seek(0)
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece

    path, rest = tally.graph[parsed.type].collection, b""
    try:
        report = client.download(path, headers, parameters, pieces, is_repeatable=not parsed.create)
        async for received in report:
            *lines, rest = (rest + received).split(b"\n")
            for line in lines:
                yield orjson.loads(line)
    except RegistryError as error:
        if error.status not in {400, 413, 415, 422}:
            raise
        tally.fail(f"{parsed.file}: {_in_options(error.detail or str(error))}", status=2)


def _in_options(detail: str) -> str:
    """Return what the service says in the words of the command."""
    for parameter, option in _OPTIONS.items():
        detail = detail.replace(parameter, option)
    return detail


def _parser(graph: Graph) -> Parser:
    parser = client_parser("import", _DESCRIPTION, "[OPTIONS] FILE")
    add_file(parser, "the file to read, or - for standard input")
    add, repeatable = parser.add_argument, partial(parser.add_argument, action="append", default=[])
    add("--type", choices=_types(graph), help="CSV: type of the rows")
    key_help = (
        "CSV: what tells resources apart: serial, owner.email, or first_name,last_name; repeatable"
    )
    repeatable("--key", metavar="NAMES", help=key_help)
    create_help = "create a new resource from each row; ids only link the lines of the file"
    add("--create", action="store_true", help=create_help)
    replace_help = "CSV: empty cells remove values and links [default: leave them as they are]"
    add("--replace", action="store_true", help=replace_help)
    map_help = "CSV: column and what it becomes: 'Serial number=serial'; 'Notes=' leaves it out"
    repeatable("--map", metavar="COLUMN=NAME", type=checked(_map), help=map_help)
    encoding_help = "CSV: encoding, such as windows-1252 [default: utf-8]"
    add("--encoding", default="utf-8", metavar="NAME", help=encoding_help)
    add("--dry-run", action="store_true", help="check and report, store nothing")
    return parser


def _next_run(parsed: argparse.Namespace) -> str:
    if parsed.create:
        return "stores everything again"
    if not is_csv(parsed):
        return "continues, but stores lines without an id or a unique value again"
    return "continues" if parsed.key else "continues, or asks for a --key"


def _types(graph: Graph) -> list[str]:
    return [resource.type for resource in graph.writable]


def _map(text: str) -> tuple[str, str]:
    column, equals, name = text.rpartition("=")
    if not equals:
        raise ValueError(f"{text!r} is not COLUMN=NAME")
    return column.strip(), name.strip()
