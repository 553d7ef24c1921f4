"""The command `export`: persons and computers at one point in time, as CSV or NDJSON."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from registry.capacity import Capacity
from registry.commands.database import database_parser, open_database, run, settings_of
from registry.commands.file_format import CSV, add_format, format_of
from registry.commands.output import describe, end_after_broken_pipe, note, require_output
from registry.jsonapi.error_objects import ApiErrors
from registry.jsonapi.query import Query, QueryScope, parse_query
from registry.model.graph import Graph
from registry.private_files import new_file
from registry.resources import RESOURCES
from registry.settings import Parser, Settings
from registry.start_error import StartError
from registry.storage import Repository, StorageError
from registry.transfer.csv_rows import write_csv, write_csv_header
from registry.transfer.exporter import Exporter
from registry.transfer.ndjson_rows import write_ndjson
from registry.transfer.rows import COMPUTER, PERSON, counted

_DESCRIPTION = (
    "Write persons and their computers, then computers without an owner, to a new file, as they "
    "are at one point in time, also while the service runs. --filter selects resources; computers "
    "without an owner are then left out. The file gets its name when it is complete."
)


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    graph = Graph(RESOURCES)
    query = _query(parser, parsed, graph)
    run(_export(settings_of(parsed), graph, query, parsed))


def _parser() -> Parser:
    parser = database_parser("export", _DESCRIPTION, "[OPTIONS] FILE")
    add_format(parser)
    parser.add_argument(
        "--type",
        choices=(PERSON, COMPUTER),
        default=PERSON,
        help="person: each person with computers; computer: each with its owner [default: person]",
    )
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="FILTER",
        help="as in the API: last_name[prefix]=Hop, or JSON; repeatable",
    )
    parser.add_argument(
        "--sort", default="", metavar="KEYS", help="as in the API: --sort=-last_name,id"
    )
    parser.add_argument("--fields", metavar="NAMES", help="as in the API: full_name,computers")
    parser.add_argument("file", metavar="FILE", help="file to create, or - for standard output")
    return parser


def _query(parser: Parser, parsed: argparse.Namespace, graph: Graph) -> Query:
    """Return the query that the options describe; exit with status 2 if one is wrong."""
    parameters = [_filter_parameter(text) for text in parsed.filter]
    parameters.append(("sort", parsed.sort))
    if parsed.fields is not None:
        parameters.append((f"fields[{parsed.type}]", parsed.fields))
    try:
        scope = QueryScope(graph[parsed.type], graph, Settings().sizes, many=True)
        query = parse_query(parameters, scope)
    except ApiErrors as error:
        first = error.errors[0]
        parser.error(f"--{(first.parameter or '').partition('[')[0]}: {first.detail}")
    resource = graph[parsed.type]
    exported = resource.attribute_names | resource.relationships.keys()
    if others := query.fields.get(parsed.type, frozenset()) - exported:
        parser.error(f"--fields: exports have no {', '.join(sorted(others))}")
    return query


def _filter_parameter(text: str) -> tuple[str, str]:
    """Return the query parameter for `last_name=Hopper`, `last_name[prefix]=Ho`, or JSON."""
    if text.startswith("["):
        return "filter", text
    name, _, value = text.partition("=")
    field, bracket, operator = name.partition("[")
    return f"filter[{field}]{bracket}{operator}", value


async def _export(
    settings: Settings, graph: Graph, query: Query, parsed: argparse.Namespace
) -> None:
    try:
        async with open_database(settings) as database:
            repository = Repository(database, graph, Capacity.of(settings))
            try:
                snapshot = await repository.snapshot_for(graph[parsed.type], query)
                exporter = Exporter(snapshot, graph[parsed.type], query, graph)
                with _opened(parsed.file) as file:
                    counts = await _write(exporter, file, parsed)
            finally:
                await repository.close()
    except StorageError as error:
        raise StartError(f"cannot write the export: {error}") from error
    except BrokenPipeError:
        end_after_broken_pipe()
    except OSError as error:
        raise StartError(f"cannot write the export: {describe(error)}") from error
    written = " and ".join(counted(number, name) for name, number in counts.items())
    note(f"Wrote {written} to {parsed.file}")


async def _write(exporter: Exporter, file: TextIO, parsed: argparse.Namespace) -> Counter[str]:
    """Write all rows; return the number of resources by type, but not of owners of computers."""
    counts = Counter({PERSON: 0, COMPUTER: 0} if parsed.type == PERSON else {COMPUTER: 0})
    is_csv = format_of(parsed) == CSV
    if is_csv:
        write_csv_header(exporter.columns, file)
    async with aclosing(exporter.rows()) as chunks:
        async for chunk in chunks:
            if is_csv:
                write_csv(chunk, exporter.columns, file)
            else:
                write_ndjson(chunk, file)
            counts[COMPUTER] += sum(len(row.computers) for row in chunk)
            if parsed.type == PERSON:
                counts[PERSON] += sum(row.person is not None and not row.continues for row in chunk)
    return counts


@contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    """Yield a new file, or standard output."""
    if name == "-":
        require_output()
        with open(sys.stdout.fileno(), "w", encoding="utf-8", newline="", closefd=False) as file:
            yield file
    else:
        with new_file(Path(name)) as binary:
            file = TextIOWrapper(binary, encoding="utf-8", newline="")
            yield file
            file.flush()
            file.detach()
