"""The command `export`: resources of a running service as CSV or NDJSON."""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from graphlib import CycleError, TopologicalSorter
from typing import IO

import orjson
from aiohttp import hdrs

from registry.client import Client, RegistryError
from registry.client.transport import Parameters
from registry.commands.arguments import (
    add_file,
    client_parser,
    declared_graph,
    failure_of,
    is_csv,
    open_client,
)
from registry.commands.output import counted, describe, fail, output_file
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.program import StartError, note
from registry.protocol import CSV_TYPE
from registry.settings import Parser

ID = "id"

_DESCRIPTION = (
    "Write resources of a running service to a new file, which gets its name when it is complete. "
    "A CSV file shows one point in time, an NDJSON file one for every 1,000 resources."
)


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    graph = declared_graph(arguments)
    parser = _parser(graph)
    parsed = parser.parse_args(arguments)
    types = [resource for resource in _by_dependency(graph) if not resource.read_only]
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
    add_file(parser, "Create this file; - writes to standard output.")
    add = parser.add_argument
    type_help = "Export this type; a CSV file has one. [default: all that can be imported]"
    add("--type", choices=list(graph), help=type_help)
    filter_help = "Export only what matches, as in the API: last_name[prefix]=Hop (repeatable)."
    add("--filter", action="append", default=[], metavar="FILTER", help=filter_help)
    add("--sort", metavar="KEYS", help="Sort as in the API: --sort=-last_name,id")
    fields_help = "Write these columns, in this order: serial,owner.email [default: all]"
    add("--fields", metavar="NAMES", help=fields_help)
    return parser


async def _export(parsed: argparse.Namespace, types: Sequence[ResourceType]) -> Mapping[str, int]:
    """Write the resources to the file; return how many of each collection."""
    write = _write_csv if is_csv(parsed) else _write_ndjson
    columns = parsed.fields.split(",") if parsed.fields else []
    chosen = [_filter_parameter(text) for text in parsed.filter]
    chosen += [("sort", parsed.sort)] if parsed.sort else []
    with output_file(parsed.file) as file:
        async with open_client(parsed.url) as client:
            return {
                resource.collection: await write(
                    client,
                    resource.collection,
                    [*chosen, *_projection_parameters(resource, columns)],
                    file,
                )
                for resource in types
            }


def _filter_parameter(text: str) -> tuple[str, str]:
    """Return the query parameter for `last_name=Hopper`, `last_name[prefix]=Ho`, or JSON."""
    if text.startswith("["):
        return "filter", text
    name, _, value = text.partition("=")
    field, bracket, operator = name.partition("[")
    return f"filter[{field}]{bracket}{operator}", value


def _by_dependency(graph: Graph) -> list[ResourceType]:
    """Return the types, each after the types it links to, if that is possible."""
    targets = {
        name: {link.target for link in resource.links if link.target != name}
        for name, resource in graph.items()
    }
    with suppress(CycleError):
        return [graph[name] for name in TopologicalSorter(targets).static_order()]
    return list(graph.values())


def _projection_parameters(resource: ResourceType, columns: Sequence[str]) -> Parameters:
    """Return the parameters for columns such as `serial`, `owner` and `owner.email`.

    By default, these are all that an import of the type needs. The service refuses unknown ones.
    """
    fields: dict[str, dict[str, None]] = {resource.type: {}}
    subject = [resource.subject] if resource.subject else []
    for column in columns or [ID, *resource.attributes, *resource.to_one, *subject]:
        first, _, field = column.rpartition(".")
        name = first or field
        fields[resource.type][name] = None
        if link := resource.to_one.get(name):
            fields.setdefault(link.target, {})[field if first else ID] = None
    included = [name for name in fields[resource.type] if name in resource.to_one]
    parameters = [(f"fields[{name}]", ",".join(names)) for name, names in fields.items()]
    return [*parameters, *([("include", ",".join(included))] if included else [])]


async def _write_csv(client: Client, path: str, parameters: Parameters, file: IO[bytes]) -> int:
    """Write a collection as CSV; return the number of rows. Raises RegistryError, OSError."""
    rows, is_quoted = -1, False  # the header is not counted
    pieces = client.download(path, {hdrs.ACCEPT: CSV_TYPE}, parameters)
    async with aclosing(pieces):
        async for piece in pieces:
            file.write(piece)
            # Between quotes, a line end belongs to a cell.
            parts = piece.split(b'"')
            rows += sum(part.count(b"\n") for part in parts[is_quoted::2])
            is_quoted ^= not len(parts) % 2
    return rows


async def _write_ndjson(client: Client, path: str, parameters: Parameters, file: IO[bytes]) -> int:
    """Write the resource objects of a collection, without URLs; as `_write_csv`."""
    lines = 0
    async with aclosing(client.pages(path, parameters)) as pages:
        async for page in pages:
            for resource in page["data"]:
                shown = {name: resource[name] for name in ("type", ID, "attributes")}
                if links := resource.get("relationships"):
                    linkage = {
                        name: {"data": relationship["data"]} for name, relationship in links.items()
                    }
                    shown["relationships"] = linkage
                file.write(orjson.dumps(shown, option=orjson.OPT_APPEND_NEWLINE))
            lines += len(page["data"])
    return lines
