"""The command `import`: rows of a file for a running service."""

import argparse
import asyncio
import codecs
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader
from pathlib import Path
from time import monotonic
from typing import NoReturn

from registry.client import RegistryError
from registry.commands.arguments import (
    add_file,
    checked,
    client_parser,
    declared_graph,
    failure_of,
    is_csv,
    open_client,
)
from registry.commands.output import counted, input_file, output
from registry.model.graph import Graph
from registry.program import note
from registry.settings import Parser
from registry.transfer.importer import Counts, Importer, Ledger
from registry.transfer.lookups import ImportOptions
from registry.transfer.row_files import InvalidFile, Row, decoded, read_csv, read_ndjson

_DESCRIPTION = (
    "Create the resources of a file in a running service, or update existing ones, found by their "
    "ids, unique attributes, e-mail addresses, or what --key names. With one of these, importing a "
    "file again changes nothing. Invalid rows are reported by line and column; all others are "
    "stored."
)

LINE_SECONDS = 5.0
"""Seconds between lines of progress where standard error is not a terminal."""


def main(arguments: Sequence[str]) -> None:
    """Import a file; exit with status 1 if rows are invalid, with 2 if the file is."""
    graph = declared_graph(arguments)
    parser = _parser(graph)
    parsed = parser.parse_args(arguments)
    if is_csv(parsed) and parsed.type is None:
        parser.error(f"--type: name the type of a CSV file: {' or '.join(_types(graph))}")
    options = _options(parser, parsed, graph)
    tally = Tally(graph, parsed.url, is_dry=parsed.dry_run)
    # Only if all are new: otherwise the stored resources show which rows are done.
    is_resumed = options.creates and not options.is_dry and parsed.file != "-"
    try:
        with (
            input_file(parsed.file) as source,
            decoded(BufferedReader(source), parsed.encoding) as file,
        ):
            rows = read_ndjson(file, graph)
            if is_csv(parsed):
                resource, renamed = graph[parsed.type], dict(parsed.map)
                rows = read_csv(file, resource, graph, renamed, replaces=parsed.replace)
            import_rows(rows, options, tally, Path(parsed.file) if is_resumed else None)
    except (InvalidFile, OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        tally.fail(f"{parsed.file}: {reason or error}", status=2)


@dataclass
class Tally:
    """The progress of an import, and its summary.

    counts: resources that the service has confirmed, by effect and collection. rows: of the file,
    with the invalid ones.
    """

    graph: Graph
    url: str
    is_dry: bool = False
    counts: Counts = field(default_factory=lambda: defaultdict(Counter))
    rows: int = 0
    invalid_rows: int = 0
    started: float = field(default_factory=monotonic)
    shown: float = field(default_factory=monotonic)

    def add(self, rows: Sequence[Row]) -> None:
        """Add a batch; show what is wrong with its rows, and the progress, in a pipe at times."""
        self.rows += len(rows)
        self.invalid_rows += sum(bool(row.defects) for row in rows)
        for row in rows:
            for column, reason in row.defects:
                note(f"line {row.line}{f', column {column}' if column else ''}: {reason}")
        now = monotonic()
        text = f"{self.rows:,} rows, {self.rows / (now - self.started):,.0f} per second"
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        if is_terminal or now - self.shown >= LINE_SECONDS:
            self.shown = now
            note(text, end="\r" if is_terminal else "\n")

    def fail(self, reason: str, status: int) -> NoReturn:
        """Exit with a reason, and what was stored until then."""
        note(f"registry: {reason}{f'; {self}' if self.counts else ''}")
        sys.exit(status)

    def __str__(self) -> str:
        parts = [
            f"{effect} {' and '.join(counted(self.graph, counts))}"
            for effect, counts in self.counts.items()
        ]
        seconds = monotonic() - self.started
        speed = f"{seconds:.1f} s, {self.rows / max(seconds, 0.001):,.0f} rows per second"
        text = f"{', '.join(parts) or 'changed nothing'} at {self.url}, in {speed}"
        if self.invalid_rows:
            text += f"; skipped {self.invalid_rows:,} invalid row{'s' * (self.invalid_rows > 1)}"
        return f"dry run, nothing is stored: {text}" if self.is_dry else text


def import_rows(
    rows: Iterable[Row], options: ImportOptions, tally: Tally, imported: Path | None = None
) -> NoReturn:
    """Import rows; exit with status 1 if some are invalid or the service fails, else with 0.

    imported: as for Ledger. Raises what reading a row does, or a Ledger.
    """

    async def work() -> None:
        with closing(Ledger(imported)) as ledger:
            async with open_client(tally.url) as client:
                importer = Importer(client, tally.graph, options, ledger, tally.counts)
                async for batch in importer.run(rows):
                    tally.add(batch)

    try:
        asyncio.run(work())
    except RegistryError as error:
        tally.fail(failure_of(error), status=1)
    except KeyboardInterrupt:
        tally.fail("interrupted: the same command continues", status=130)
    output(str(tally))
    sys.exit(1 if tally.invalid_rows else 0)


def _parser(graph: Graph) -> Parser:
    parser = client_parser("import", _DESCRIPTION, "[OPTIONS] FILE")
    add_file(parser, "the file to read, or - for standard input")
    add, repeatable = parser.add_argument, partial(parser.add_argument, action="append", default=[])
    add("--type", choices=_types(graph), help="type of the rows of a CSV file")
    key_help = (
        "what tells resources apart: serial, owner.email, or first_name,last_name; repeatable"
    )
    repeatable("--key", metavar="NAMES", help=key_help)
    create_help = "create a new resource from each row; ids only link the rows of the file"
    add("--create", action="store_true", help=create_help)
    replace_help = "empty cells remove values and links [default: leave them as they are]"
    add("--replace", action="store_true", help=replace_help)
    map_help = "column and what it becomes: 'Serial number=serial'; 'Notes=' leaves it out"
    repeatable("--map", metavar="COLUMN=NAME", type=checked(_map), help=map_help)
    encoding_help = "encoding of the file, such as cp1252 [default: utf-8]"
    add("--encoding", type=checked(_encoding), default="utf-8", metavar="NAME", help=encoding_help)
    add("--dry-run", action="store_true", help="check and report, store nothing")
    return parser


def _types(graph: Graph) -> list[str]:
    return [resource.type for resource in graph.writable]


def _options(parser: Parser, parsed: argparse.Namespace, graph: Graph) -> ImportOptions:
    types = {parsed.type} if is_csv(parsed) else {*_types(graph)}
    if parsed.create and parsed.key:
        parser.error("--create: rows that are all new have no --key")
    keys: dict[str, tuple[str, ...]] = {}
    for text in parsed.key:
        if not (found := _keys(text, graph, types)):
            parser.error(f"--key: {text!r} does not name attributes of one type")
        keys |= found
    return ImportOptions(
        keys,
        creates=parsed.create,
        labels=frozenset(types if parsed.create else types & keys.keys()),
        keeps_empty=is_csv(parsed) and not parsed.replace,
        is_dry=parsed.dry_run,
    )


def _keys(text: str, graph: Graph, types: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of attributes by type: of `serial`, `computer.serial` or `owner.email`."""
    names = [name.rpartition(".") for name in text.split(",")]
    (prefix, *others), fields = {first for first, _, _ in names}, tuple(name for *_, name in names)
    links = (
        link
        for type_name in types
        for link in graph[type_name].to_one.values()
        if link.name == prefix
    )
    named = types if not prefix else {prefix, *(link.target for link in links)} & graph.keys()
    found = {
        type_name: fields for type_name in named if graph[type_name].readable.keys() >= {*fields}
    }
    return {} if others else found


def _map(text: str) -> tuple[str, str]:
    column, equals, name = text.rpartition("=")
    if not equals:
        raise ValueError(f"{text!r} is not COLUMN=NAME")
    return column.strip(), name.strip()


def _encoding(name: str) -> str:
    try:
        "".encode(name)  # refuses codecs that are not for text
    except LookupError:
        raise ValueError(f"unknown encoding {name}") from None
    return "utf-8-sig" if codecs.lookup(name).name == "utf-8" else name
