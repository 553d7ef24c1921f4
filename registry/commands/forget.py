"""The command `forget`: removes what histories keep of a deleted resource, such as a name."""

from collections.abc import Sequence

from registry.commands.arguments import database_parser, declared_graph, settings_of
from registry.commands.database import open_database, place_of, run
from registry.jsonapi.documents import path_of
from registry.model.graph import Graph
from registry.model.implicit_attributes import parse_id
from registry.model.resource_type import ResourceType
from registry.operations.consistency import forget
from registry.program import StartError, note
from registry.settings import Settings


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if the resource exists, with 2 if it cannot."""
    graph = declared_graph(arguments)
    parser = database_parser(
        "forget",
        "Remove what the history keeps of a resource that was deleted, such as the name of a "
        "person, also while the service runs. The periods and the ids stay. Backups keep it.",
        "[OPTIONS] TYPE ID",
    )
    types = [resource.type for resource in graph.writable]
    parser.add_argument("type", choices=types, metavar="TYPE", help=" or ".join(types))
    parser.add_argument("id", metavar="ID", help="the id that the resource had")
    parsed = parser.parse_args(arguments)
    id_ = parse_id(parsed.id)
    if id_ is None:
        parser.error(f"ID: {parsed.id!r} is not a valid id")
    run(_forget(settings_of(parsed), graph, graph[parsed.type], id_))


async def _forget(settings: Settings, graph: Graph, resource: ResourceType, id_: int) -> None:
    async with open_database(settings) as database:
        changed = await forget(database, graph, resource, id_)
    name = f"{resource.type} {id_}"
    if changed is None:
        path = path_of(resource, id_)
        raise StartError(f"{name} exists: delete it first, DELETE {path}")
    place = place_of(settings)
    counts = [f"{count:,} {periods.collection}" for periods, count in changed.items() if count]
    if counts:
        note(f"Removed the copied attributes of {name} from {', '.join(counts)} in {place}")
    else:
        types = " or ".join(periods.type for periods in changed)
        note(f"No {types or 'history'} has copied attributes of {name} in {place}")
