"""The commands `import` and `seed`: rows of a file, or generated ones, for a running service."""

import argparse
import asyncio
import codecs
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from io import BufferedReader
from pathlib import Path
from types import FrameType
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
from registry.commands.output import input_file, output
from registry.model.graph import Graph
from registry.program import note
from registry.settings import Parser
from registry.transfer.csv_files import read_csv
from registry.transfer.importer import Importer, Ledger
from registry.transfer.lookups import ImportOptions
from registry.transfer.ndjson_files import read_ndjson
from registry.transfer.progress import Tally
from registry.transfer.rows import InvalidFile, Row, decoded

_DESCRIPTION = (
    "Create the resources of a file in a running service, or update those that it has: found by "
    "their ids, unique attributes, e-mail addresses, or what --key names. With one of these, a "
    "second import of a file changes nothing. Invalid rows are reported by line and column; all "
    "others are stored."
)


def import_file(arguments: Sequence[str]) -> None:
    """Import a file; exit with status 1 if rows are invalid, with 2 if the file is."""
    graph = declared_graph(arguments)
    parser = _import_parser(graph)
    parsed = parser.parse_args(arguments)
    if is_csv(parsed) and parsed.type is None:
        parser.error(f"--type: name the type of a CSV file: {' or '.join(_types(graph))}")
    options = _options(parser, parsed, graph)
    tally = Tally(graph, parsed.url, is_dry=parsed.dry_run)
    with ExitStack() as stack:
        try:
            source = BufferedReader(stack.enter_context(input_file(parsed.file)))
            ledger = stack.enter_context(closing(_ledger(parsed, options)))
            file = stack.enter_context(decoded(source, parsed.encoding))
            rows = read_ndjson(file, graph)
            if is_csv(parsed):
                resource, renamed = graph[parsed.type], dict(parsed.map)
                rows = read_csv(file, resource, graph, renamed, replaces=parsed.replace)
            _import(rows, options, tally, ledger)
        except (InvalidFile, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            _fail(f"{parsed.file}: {reason or error}", tally, status=2)
    _finish(tally)


def seed(arguments: Sequence[str]) -> None:
    """Create generated persons and computers; exit with status 1 if that fails."""
    parser = client_parser("seed", "Fill a running service with generated persons and computers.")
    add = partial(parser.add_argument, metavar="COUNT", type=checked(_count))
    add("--persons", default=100, help="number to create [default: 100]")
    add("--computers", help="number to create [default: 3 per person]")
    seed_help = "the same seed and counts produce the same data [default: 1]"
    parser.add_argument("--seed", type=int, default=1, metavar="NUMBER", help=seed_help)
    parsed, graph = parser.parse_args(arguments), declared_graph(arguments)
    computers = 3 * parsed.persons if parsed.computers is None else parsed.computers
    tally = Tally(graph, parsed.url)
    # Imported late: loading Faker takes longer than to report wrong arguments.
    from registry.transfer.generator import generate  # noqa: PLC0415

    rows = generate(parsed.persons, computers, parsed.seed)
    with closing(Ledger()) as ledger:
        _import(rows, ImportOptions(creates=True, labels=frozenset(graph)), tally, ledger)
    _finish(tally)


def _import(rows: Iterable[Row], options: ImportOptions, tally: Tally, ledger: Ledger) -> None:
    """Import rows; exit with status 1 if the service fails, with 130 if interrupted."""

    async def work() -> None:
        async with open_client(tally.url) as client:
            await Importer(client, options, tally, ledger).run(rows)

    signal.signal(signal.SIGINT, partial(_interrupt, tally))
    try:
        asyncio.run(work())
    except RegistryError as error:
        _fail(failure_of(error), tally, status=1)


def _finish(tally: Tally) -> NoReturn:
    output(str(tally))
    sys.exit(1 if tally.invalid_rows else 0)


def _fail(reason: str, tally: Tally, status: int) -> NoReturn:
    note(f"registry: {reason}{f'; {tally}' if tally.counts else ''}")
    sys.exit(status)


def _interrupt(tally: Tally, number: int, _: FrameType | None) -> NoReturn:
    """End the process at once: a thread that waits for standard input would delay an exit."""
    note(f"registry: interrupted; {tally}; the same command continues")
    os._exit(128 + number)


def _import_parser(graph: Graph) -> Parser:
    parser = client_parser("import", _DESCRIPTION, "[OPTIONS] FILE")
    add_file(parser, "the file to read, or - for standard input")
    add, repeatable = parser.add_argument, partial(parser.add_argument, action="append", default=[])
    add("--type", choices=_types(graph), help="type of the rows of a CSV file")
    key_help = (
        "what tells resources apart: serial, owner.email, or first_name,last_name; repeatable"
    )
    repeatable("--key", metavar="NAMES", help=key_help)
    create_help = "create a new resource of each row; ids only link the rows of the file"
    add("--create", action="store_true", help=create_help)
    replace_help = "empty cells remove values and links [default: leave them as they are]"
    add("--replace", action="store_true", help=replace_help)
    map_help = "column of the file and what it is: 'Serial number=serial'; 'Notes=' leaves it out"
    repeatable("--map", metavar="COLUMN=NAME", type=checked(_map), help=map_help)
    encoding_help = "encoding of the file, such as cp1252 [default: utf-8]"
    add("--encoding", type=_encoding, default="utf-8", metavar="NAME", help=encoding_help)
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
    (prefix, *others), fields = {first for first, _, _ in names}, tuple(one for *_, one in names)
    links = (link for one in types for link in graph[one].to_one.values() if link.name == prefix)
    named = types if not prefix else {prefix, *(link.target for link in links)} & graph.keys()
    found = {one: fields for one in named if graph[one].readable.keys() >= {*fields}}
    return {} if others else found


def _map(text: str) -> tuple[str, str]:
    column, equals, name = text.rpartition("=")
    if not equals:
        raise ValueError(f"{text!r} is not COLUMN=NAME")
    return column.strip(), name.strip()


def _encoding(name: str) -> str:
    try:
        encoding = codecs.lookup(name).name
    except LookupError:
        raise argparse.ArgumentTypeError(f"unknown encoding {name}") from None
    return "utf-8-sig" if encoding == "utf-8" else encoding


def _ledger(parsed: argparse.Namespace, options: ImportOptions) -> Ledger:
    """Return a ledger, which outlives the process if nothing else tells which rows are stored."""
    if not options.creates or options.is_dry or parsed.file == "-":
        return Ledger()
    path, status = Path(f"{parsed.file}.progress"), Path(parsed.file).stat()
    version = f"{status.st_size}-{status.st_mtime_ns}"
    ledger = Ledger(path, version)
    if not ledger.source.endswith(version):
        raise InvalidFile(f"changed since its import began: delete {path} to create it all again")
    return ledger


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a valid count")
    return int(text)
