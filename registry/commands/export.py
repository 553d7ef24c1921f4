"""The command `export`: resources as CSV or NDJSON, from the database or over the API."""

import argparse
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from io import TextIOWrapper

from registry.capacity import Capacity
from registry.client import RegistryError
from registry.commands.arguments import (
    TOKEN_VARIABLE,
    add_file,
    base_url,
    database_parser,
    declared_graph,
    failure_of,
    is_csv,
    open_client,
    settings_of,
)
from registry.commands.database import open_database, place_of, run
from registry.commands.output import describe, output_file
from registry.csv_format import find_column
from registry.installation import command
from registry.jsonapi.error_objects import ApiErrors
from registry.jsonapi.query import QueryScope, parse_query
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.printable import note
from registry.settings import Parser, Settings
from registry.start_error import StartError
from registry.storage import InvalidRecord, Repository, StorageError
from registry.transfer.csv_files import CsvWriter
from registry.transfer.exporter import (
    Selected,
    Selection,
    by_dependency,
    read_database,
    read_service,
)
from registry.transfer.ndjson_files import write_ndjson
from registry.transfer.progress import counted
from registry.transfer.rows import ID

_DESCRIPTION = (
    "Write the resources of the database, as they are at one point in time, to a new file, also "
    "while the service runs; with --url, read them over the API. The file gets its name when it is "
    "complete."
)


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    graph = declared_graph(arguments)
    parser = _parser(graph)
    parsed = parser.parse_args(arguments)
    types = [one for one in by_dependency(graph) if not one.read_only]
    if parsed.type is not None:
        types = [graph[parsed.type]]
    elif is_csv(parsed) or parsed.fields or parsed.filter or parsed.sort:
        parser.error(f"--type: name the type to export: {' or '.join(graph)}")
    selections = [_selection(parser, parsed, one, graph) for one in types]
    settings = settings_of(parsed)
    source = _chunks(settings, parsed.url, graph, selections)
    counts = run(_export(source, selections, parsed.file, is_csv=is_csv(parsed)))
    written = " and ".join(counted(graph, counts))
    note(f"Wrote {written} to {parsed.file}, from {parsed.url or place_of(settings)}")


def _parser(graph: Graph) -> Parser:
    parser = database_parser("export", _DESCRIPTION, "[OPTIONS] FILE")
    add_file(parser, "file to create, or - for standard output")
    add = parser.add_argument
    url_help = (
        f"read over the API of this service, with the token in {TOKEN_VARIABLE} if it requires one"
    )
    add("--url", metavar="URL", type=base_url, help=url_help)
    type_help = "type to export; a CSV file has one [default: all that can be imported]"
    add("--type", choices=list(graph), help=type_help)
    filter_help = "as in the API: last_name[prefix]=Hop, or JSON; repeatable"
    add("--filter", action="append", default=[], metavar="FILTER", help=filter_help)
    add("--sort", metavar="KEYS", help="as in the API: --sort=-last_name,id")
    fields_help = "columns, in their order: serial,owner.email [default: all that is declared]"
    add("--fields", metavar="NAMES", help=fields_help)
    return parser


def _selection(
    parser: Parser, parsed: argparse.Namespace, resource: ResourceType, graph: Graph
) -> Selection:
    """Return what to export of a type; exit with status 2 if an option is wrong."""
    links = resource.to_one
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
    source: AsyncGenerator[Selected], selections: Sequence[Selection], name: str, *, is_csv: bool
) -> Counter[str]:
    """Write the resources to a file; return how many of each collection."""
    counts = Counter({each.resource.collection: 0 for each in selections})
    encoding = "utf-8-sig" if is_csv else "utf-8"
    try:
        async with aclosing(source):
            selected = await anext(source, None)  # an error leaves no file
            with output_file(name) as binary:
                file = TextIOWrapper(binary, encoding, newline="")
                writer = CsvWriter(file, selections[0].columns) if is_csv else None
                while selected is not None:
                    selection, document = selected
                    if writer:
                        writer.write(document)
                    else:
                        write_ndjson(document, file, selection.links)
                    counts[selection.resource.collection] += len(document["data"])
                    selected = await anext(source, None)
                file.detach()  # writes the rest
    except RegistryError as error:
        raise StartError(f"cannot write the export: {failure_of(error)}") from error
    except (StorageError, OSError) as error:
        advice = f"; `{' '.join(command('check'))}` lists all such records"
        reason = describe(error) + (advice if isinstance(error, InvalidRecord) else "")
        raise StartError(f"cannot write the export: {reason}") from error
    return counts


async def _chunks(
    settings: Settings, url: str | None, graph: Graph, selections: Sequence[Selection]
) -> AsyncGenerator[Selected]:
    """Yield the resources of the service at a URL, or else of the database."""
    async with AsyncExitStack() as stack:
        if url is not None:
            client = await stack.enter_async_context(open_client(url))
            source = read_service(client, selections)
        else:
            database = await stack.enter_async_context(open_database(settings))
            repository = Repository(database, graph, Capacity.of(settings))
            stack.push_async_callback(repository.close)
            source = read_database(repository, graph, selections)
        chunks = await stack.enter_async_context(aclosing(source))
        async for chunk in chunks:
            yield chunk
