"""The resources of an export: CSV as the service sends it, or NDJSON of the pages of a type."""

from collections.abc import Sequence
from contextlib import aclosing, suppress
from graphlib import CycleError, TopologicalSorter
from typing import IO

import orjson
from aiohttp import hdrs

from registry.client import Client
from registry.client.client_documents import understood
from registry.client.transport import Parameters
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.protocol import CSV_TYPE
from registry.transfer.rows import ID


def by_dependency(graph: Graph) -> list[ResourceType]:
    """Return the types, each after those that it links to, if that is possible."""
    targets = {
        name: {link.target for link in one.links if link.target != name}
        for name, one in graph.items()
    }
    with suppress(CycleError):
        return [graph[name] for name in TopologicalSorter(targets).static_order()]
    return list(graph.values())


def projection_parameters(resource: ResourceType, columns: Sequence[str]) -> Parameters:
    """Return the parameters for columns such as `serial`, `owner` and `owner.email`.

    By default, these are all that an import of the type needs. The service refuses unknown ones.
    """
    fields: dict[str, dict[str, None]] = {resource.type: {}}
    for column in columns or [ID, *resource.attributes, *resource.to_one]:
        first, _, field = column.rpartition(".")
        name = first or field
        fields[resource.type][name] = None
        if link := resource.to_one.get(name):
            fields.setdefault(link.target, {})[field if first else ID] = None
    included = [name for name in fields[resource.type] if name in resource.to_one]
    parameters = [(f"fields[{name}]", ",".join(names)) for name, names in fields.items()]
    return [*parameters, *([("include", ",".join(included))] if included else [])]


async def write_csv(client: Client, path: str, parameters: Parameters, file: IO[bytes]) -> int:
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


async def write_ndjson(client: Client, path: str, parameters: Parameters, file: IO[bytes]) -> int:
    """Write the resource objects of a collection, without URLs; as `write_csv`."""
    lines = 0
    async with aclosing(client.pages(path, parameters)) as pages:
        async for page in pages:
            for resource in page["data"]:
                with understood(path):
                    shown = {name: resource[name] for name in ("type", ID, "attributes")}
                    if links := resource.get("relationships"):
                        linkage = {name: {"data": one["data"]} for name, one in links.items()}
                        shown["relationships"] = linkage
                file.write(orjson.dumps(shown, option=orjson.OPT_APPEND_NEWLINE))
            lines += len(page["data"])
    return lines
