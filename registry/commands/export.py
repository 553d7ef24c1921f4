"""The command `export`: resources as CSV or NDJSON, from the database or over the API."""

import argparse
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from io import TextIOWrapper
from typing import TextIO

from registry.capacity import Capacity
from registry.commands.client_command import CSV, add_format, format_of, url_of
from registry.commands.database import database_parser, open_database, place_of, run, settings_of
from registry.commands.output import describe, note, output_file
from registry.installation import command
from registry.jsonapi.error_objects import ApiErrors
from registry.jsonapi.query import QueryScope, parse_query
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.resources import RESOURCES
from registry.settings import Parser, Settings
from registry.start_error import StartError
from registry.storage import InvalidRecord, Repository, StorageError
from registry.transfer.client import TOKEN_VARIABLE, TransferError, open_client
from registry.transfer.csv_files import CsvWriter, find_column
from registry.transfer.exporter import (
    Selection,
    by_dependency,
    read_database,
    read_service,
)
from registry.transfer.ndjson_files import write_ndjson
from registry.transfer.progress import counted
from registry.transfer.rows import ID, Chunk, to_one

_DESCRIPTION = (
    "Write the resources of the database, as they are at one point in time, to a new file, also "
    "while the service runs; with --url, read them over the API. The file gets its name when it is "
    "complete."
)


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    parser, graph = _parser(), Graph(RESOURCES)
    parsed = parser.parse_args(arguments)
    is_csv, types = format_of(parsed) == CSV, by_dependency(graph)
    if parsed.type is not None:
        types = [graph[parsed.type]]
    elif is_csv or parsed.fields or parsed.filter or parsed.sort:
        parser.error(f"--type: name the type to export: {' or '.join(graph)}")
    selections = [_selection(parser, parsed, one, graph) for one in types]
    if parsed.url is None:
        settings = settings_of(parsed)
        place, source = place_of(settings), _from_database(settings, graph, selections)
    else:
        place = url_of(parser, parsed)
        source = _from_service(place, selections)
    counts = run(_export(source, selections, parsed.file, is_csv=is_csv))
    note(f"Wrote {counted(graph, counts)} to {parsed.file}, from {place}")


def _parser() -> Parser:
    parser = database_parser("export", _DESCRIPTION, "[OPTIONS] FILE")
    url_help = (
        f"read over the API of this service, with the token in {TOKEN_VARIABLE} if it requires one"
    )
    parser.add_argument("--url", metavar="URL", help=url_help)
    add_format(parser)
    types = [each.type for each in RESOURCES]
    type_help = "type to export; a CSV file has one [default: all]"
    parser.add_argument("--type", choices=types, help=type_help)
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="FILTER",
        help="as in the API: last_name[prefix]=Hop, or JSON; repeatable",
    )
    parser.add_argument("--sort", metavar="KEYS", help="as in the API: --sort=-last_name,id")
    fields_help = "columns, in their order: serial,owner.email [default: all that is declared]"
    parser.add_argument("--fields", metavar="NAMES", help=fields_help)
    parser.add_argument("file", metavar="FILE", help="file to create, or - for standard output")
    return parser


def _selection(
    parser: Parser, parsed: argparse.Namespace, resource: ResourceType, graph: Graph
) -> Selection:
    """Return what to export of a type; exit with status 2 if an option is wrong."""
    links = to_one(resource)
    names = parsed.fields.split(",") if parsed.fields else [ID, *resource.attributes, *links]
    columns = []
    for name in names:
        column = find_column(f"{name}.{ID}" if name in links else name, resource, graph)
        if column is None:
            parser.error(f"--fields: a {resource.type} has no {name}")
        columns.append(column)
    own = [each.field for each in columns if each.relationship is None]
    parameters = [_filter_parameter(text) for text in parsed.filter]
    parameters += [("sort", parsed.sort)] if parsed.sort else []
    parameters.append((f"fields[{resource.type}]", ",".join(own or [ID])))
    try:
        scope = QueryScope(resource, graph, Settings().sizes, many=True)
        query = parse_query(parameters, scope)
    except ApiErrors as error:
        first = error.errors[0]
        parser.error(f"--{(first.parameter or '').partition('[')[0]}: {first.detail}")
    return Selection(resource, columns, parameters, query)


def _filter_parameter(text: str) -> tuple[str, str]:
    """Return the query parameter for `last_name=Hopper`, `last_name[prefix]=Ho`, or JSON."""
    if text.startswith("["):
        return "filter", text
    name, _, value = text.partition("=")
    field, bracket, operator = name.partition("[")
    return f"filter[{field}]{bracket}{operator}", value


async def _export(
    source: AsyncGenerator[Chunk], selections: Sequence[Selection], name: str, *, is_csv: bool
) -> Counter[str]:
    """Write the resources to a file; return how many of each type."""
    counts = Counter({each.resource.type: 0 for each in selections})
    try:
        async with aclosing(source):
            chunk = await anext(source, None)  # an error leaves no file
            with _opened(name, bom=is_csv) as file:
                write: Callable[[Chunk], None] = partial(write_ndjson, file=file)
                if is_csv:
                    write = CsvWriter(file, selections[0].columns).write
                while chunk is not None:
                    write(chunk)
                    counts.update(each["type"] for each in chunk.resources)
                    chunk = await anext(source, None)
    except InvalidRecord as error:
        check = " ".join(command("check"))
        raise StartError(
            f"cannot write the export: {error}; `{check}` lists all such records"
        ) from error
    except (StorageError, TransferError) as error:
        raise StartError(f"cannot write the export: {error}") from error
    except OSError as error:
        raise StartError(f"cannot write the export: {describe(error)}") from error
    return counts


async def _from_database(
    settings: Settings, graph: Graph, selections: Sequence[Selection]
) -> AsyncGenerator[Chunk]:
    async with open_database(settings) as database:
        repository = Repository(database, graph, Capacity.of(settings))
        try:
            async with aclosing(read_database(repository, graph, selections)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            await repository.close()


async def _from_service(url: str, selections: Sequence[Selection]) -> AsyncGenerator[Chunk]:
    async with (
        open_client(url, os.environ.get(TOKEN_VARIABLE)) as client,
        aclosing(read_service(client, selections)) as chunks,
    ):
        async for chunk in chunks:
            yield chunk


@contextmanager
def _opened(name: str, *, bom: bool) -> Iterator[TextIO]:
    """Yield a new file, or standard output. bom: whether it begins with a byte order mark."""
    with output_file(name) as binary:
        file = TextIOWrapper(binary, encoding="utf-8-sig" if bom else "utf-8", newline="")
        yield file
        file.flush()
        file.detach()
