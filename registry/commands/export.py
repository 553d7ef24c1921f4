"""The command `export`: resources of a running service as CSV or NDJSON."""

import argparse
import asyncio
from collections.abc import Mapping, Sequence

from registry.client import RegistryError
from registry.commands.arguments import (
    add_file,
    client_parser,
    declared_graph,
    failure_of,
    is_csv,
    open_client,
)
from registry.commands.output import describe, fail, output_file
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.printable import note
from registry.settings import Parser
from registry.start_error import StartError
from registry.transfer.exporter import (
    by_dependency,
    projection_parameters,
    write_csv,
    write_ndjson,
)
from registry.transfer.progress import counted

_DESCRIPTION = (
    "Write resources of a running service to a new file, which gets its name when it is complete. "
    "A CSV file shows one point in time, an NDJSON file one for every 1,000 resources."
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
    try:
        counts = asyncio.run(_export(parsed, types))
    except RegistryError as error:
        if error.status == 400 and error.parameter:
            parser.error(f"--{error.parameter.partition('[')[0]}: {error.detail}")
        fail(StartError(f"cannot write the export: {failure_of(error)}"))
    except OSError as error:
        fail(StartError(f"cannot write the export: {describe(error)}"))
    note(f"Wrote {' and '.join(counted(graph, counts))} to {parsed.file}, from {parsed.url}")


def _parser(graph: Graph) -> Parser:
    parser = client_parser("export", _DESCRIPTION, "[OPTIONS] FILE")
    add_file(parser, "file to create, or - for standard output")
    add = parser.add_argument
    type_help = "type to export; a CSV file has one [default: all that can be imported]"
    add("--type", choices=list(graph), help=type_help)
    filter_help = "as in the API: last_name[prefix]=Hop, or JSON; repeatable"
    add("--filter", action="append", default=[], metavar="FILTER", help=filter_help)
    add("--sort", metavar="KEYS", help="as in the API: --sort=-last_name,id")
    fields_help = "columns, in their order: serial,owner.email [default: all that is declared]"
    add("--fields", metavar="NAMES", help=fields_help)
    return parser


async def _export(parsed: argparse.Namespace, types: Sequence[ResourceType]) -> Mapping[str, int]:
    """Write the resources to the file; return how many of each collection."""
    write = write_csv if is_csv(parsed) else write_ndjson
    columns = parsed.fields.split(",") if parsed.fields else []
    chosen = [_filter_parameter(text) for text in parsed.filter]
    chosen += [("sort", parsed.sort)] if parsed.sort else []
    with output_file(parsed.file) as file:
        async with open_client(parsed.url) as client:
            return {
                one.collection: await write(
                    client, one.collection, [*chosen, *projection_parameters(one, columns)], file
                )
                for one in types
            }


def _filter_parameter(text: str) -> tuple[str, str]:
    """Return the query parameter for `last_name=Hopper`, `last_name[prefix]=Ho`, or JSON."""
    if text.startswith("["):
        return "filter", text
    name, _, value = text.partition("=")
    field, bracket, operator = name.partition("[")
    return f"filter[{field}]{bracket}{operator}", value
