"""The commands `import` and `seed`: rows of a file, or generated ones, for a running service."""

import argparse
import codecs
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TypeAlias

from registry.commands.client_command import CSV, add_format, client_parser, format_of, run, url_of
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Parser
from registry.transfer.client import Client
from registry.transfer.csv_files import read_csv
from registry.transfer.importer import Importer
from registry.transfer.ledger import Ledger
from registry.transfer.ndjson_files import read_ndjson
from registry.transfer.plans import ImportOptions
from registry.transfer.progress import Tally, shown_progress
from registry.transfer.rows import InvalidFile, InvalidRow, Note, Row, opened_text, to_one

_DESCRIPTION = (
    "Create the resources of a file in a running service, or update those that it has: found by "
    "their ids, unique attributes, e-mail addresses, or what --key names. A second import of a "
    "file changes nothing. Invalid rows are reported by line and column; all others are stored."
)

_Read: TypeAlias = Callable[[Note], Iterator[Row | InvalidRow]]


def import_file(arguments: Sequence[str]) -> None:
    """Import a file; exit with status 1 if rows are invalid, with 2 if the file is."""
    graph, parser = Graph(RESOURCES), _import_parser()
    parsed = parser.parse_args(arguments)
    is_csv = format_of(parsed) == CSV
    if is_csv and parsed.type is None:
        parser.error(f"--type: name the type of a CSV file: {' or '.join(graph)}")
    options = _options(parser, parsed, graph, {parsed.type} if is_csv else set(graph))
    renamed = dict(parser.parse_value("--map", one, _parse_map) for one in parsed.map)
    tally = Tally(graph, url_of(parser, parsed), is_dry=parsed.dry_run)

    async def work(client: Client) -> None:
        try:
            with opened_text(parsed.file, parsed.encoding) as file:
                read: _Read = partial(read_ndjson, file, graph)
                if is_csv:
                    resource, replaces = graph[parsed.type], parsed.replace
                    read = partial(read_csv, file, resource, graph, renamed, replaces=replaces)
                await _run(Importer(client, options, tally, _ledger(parsed, options)), read)
        except InvalidFile as error:
            raise InvalidFile(f"{parsed.file}: {error}") from None
        except OSError as error:
            raise InvalidFile(f"{parsed.file}: {error.strerror or error}") from error

    run(work, tally)


def seed(arguments: Sequence[str]) -> None:
    """Create generated persons and computers; exit with status 1 if that fails."""
    parser = client_parser("seed", "Fill a running service with generated persons and computers.")
    add = partial(parser.add_argument, metavar="COUNT")
    add("--persons", default="100", help="number to create [default: 100]")
    add("--computers", help="number to create [default: 3 per person]")
    seed_help = "the same seed and counts produce the same data [default: 1]"
    parser.add_argument("--seed", type=int, default=1, metavar="NUMBER", help=seed_help)
    parsed, graph = parser.parse_args(arguments), Graph(RESOURCES)
    persons = parser.parse_value("--persons", parsed.persons, _count)
    computers = 3 * persons
    if parsed.computers is not None:
        computers = parser.parse_value("--computers", parsed.computers, _count)
    tally = Tally(graph, url_of(parser, parsed))
    options = ImportOptions(creates=True, labels=frozenset(graph))

    async def work(client: Client) -> None:
        # Imported late: loading Faker takes longer than to report wrong arguments.
        from registry.transfer.generator import generate  # noqa: PLC0415

        rows = generate(persons, computers, parsed.seed)
        await _run(Importer(client, options, tally, Ledger()), lambda _: rows)

    run(work, tally)


async def _run(importer: Importer, read: _Read) -> None:
    with shown_progress("rows") as progress, importer.ledger as ledger:
        async with aclosing(importer.run(read(progress.note))) as batches:
            async for invalid in batches:
                for line in [line for row in invalid for line in row.lines()]:
                    progress.note(line)
                progress.show(importer.tally.rows)
        ledger.remove()


def _import_parser() -> Parser:
    parser = client_parser("import", _DESCRIPTION, "[OPTIONS] FILE")
    add_format(parser)
    add, repeatable = parser.add_argument, partial(parser.add_argument, action="append", default=[])
    types = [each.type for each in RESOURCES]
    add("--type", choices=types, help="type of the rows of a CSV file")
    key_help = (
        "what tells resources apart: serial, owner.email, or first_name,last_name; repeatable"
    )
    repeatable("--key", metavar="NAMES", help=key_help)
    create_help = "create a new resource of each row; ids only link the rows of the file"
    add("--create", action="store_true", help=create_help)
    replace_help = "empty cells remove values and links [default: leave them as they are]"
    add("--replace", action="store_true", help=replace_help)
    map_help = "column of the file and what it is: 'Asset Tag=serial'; 'Notes=' leaves it out"
    repeatable("--map", metavar="COLUMN=NAME", help=map_help)
    encoding_help = "encoding of the file, such as cp1252 [default: utf-8]"
    add("--encoding", type=_encoding, default="utf-8", metavar="NAME", help=encoding_help)
    add("--dry-run", action="store_true", help="check and report, store nothing")
    add("file", metavar="FILE", help="the file to read, or - for standard input")
    return parser


def _options(
    parser: Parser, parsed: argparse.Namespace, graph: Graph, types: set[str]
) -> ImportOptions:
    if parsed.create and parsed.key:
        parser.error("--create: rows that are all new have no --key")
    keys: dict[str, tuple[str, ...]] = {}
    for text in parsed.key:
        keys |= parser.parse_value("--key", text, partial(_parse_key, graph=graph, types=types))
    return ImportOptions(
        keys,
        creates=parsed.create,
        labels=frozenset(types if parsed.create else types & keys.keys()),
        keeps_empty=format_of(parsed) == CSV and not parsed.replace,
        is_dry=parsed.dry_run,
    )


def _parse_key(text: str, graph: Graph, types: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of attributes by type: of `serial`, `computer.serial` or `owner.email`."""
    names = [name.rpartition(".") for name in text.split(",")]
    prefix, fields = names[0][0], tuple(field for _, _, field in names)
    named = types if not prefix else {prefix} & graph.keys()
    named = named | {
        link.target for one in types for name, link in to_one(graph[one]).items() if name == prefix
    }
    found = {one: fields for one in named if graph[one].readable.keys() >= {*fields}}
    if not found or {each for each, _, _ in names} != {prefix}:
        raise ValueError(f"{text!r} does not name attributes of one type")
    return found


def _parse_map(text: str) -> tuple[str, str]:
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
