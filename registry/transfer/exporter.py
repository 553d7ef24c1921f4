"""The resources of an export: from a snapshot of the database, or over the API."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass

from yarl import URL

from registry.jsonapi.pagination import LARGEST_PAGE
from registry.jsonapi.query import Query
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource_type import Relationship, ResourceType
from registry.storage import Repository
from registry.transfer.client import Client, Document
from registry.transfer.csv_files import Column
from registry.transfer.rows import ID, Chunk, Values, to_one

_STORED_ID = "_id"


@dataclass(frozen=True)
class Selection:
    """What to export of a type: the columns, and the filters, order and fields of the query."""

    resource: ResourceType
    columns: Sequence[Column]
    parameters: Sequence[tuple[str, str]]
    query: Query

    @property
    def links(self) -> Mapping[str, Relationship]:
        """The relationships among the columns."""
        names = {column.relationship for column in self.columns}
        return {name: one for name, one in to_one(self.resource).items() if name in names}

    @property
    def joined(self) -> frozenset[str]:
        """The names of the relationships with columns of their targets besides the id."""
        columns = (one for one in self.columns if one.relationship and one.field != ID)
        return frozenset(one.relationship for one in columns if one.relationship)


def by_dependency(graph: Graph) -> list[ResourceType]:
    """Return the types, each after those that it links to, if that is possible."""
    types: dict[str, ResourceType] = {}

    def add(resource: ResourceType, path: tuple[str, ...]) -> None:
        for link in resource.links:
            if link.target not in (*path, resource.type):
                add(graph[link.target], (*path, resource.type))
        types.setdefault(resource.type, resource)

    for resource in graph.values():
        add(resource, ())
    return list(types.values())


async def read_service(client: Client, selections: Sequence[Selection]) -> AsyncGenerator[Chunk]:
    """Yield the resources page by page, each at its own point in time. Raises TransferError."""
    for selection in selections:
        resource, links = selection.resource, selection.links
        targets = {one.target for name, one in links.items() if name not in selection.joined}
        targets -= {links[name].target for name in selection.joined} | {resource.type}
        page = [*selection.parameters, ("page[size]", str(LARGEST_PAGE))]
        page += [("include", ",".join(links))] if links else []
        page += [(f"fields[{name}]", ID) for name in sorted(targets)]
        while page:
            document = await client.read(resource.collection, page)
            related = [*document.get("included", ()), *document["data"]]
            yield Chunk(
                [_shown(each, links) for each in document["data"]],
                {(each["type"], each[ID]): each["attributes"] for each in related},
            )
            following = document["links"].get("next")
            page = list(URL(following).query.items()) if following else []


async def read_database(
    repository: Repository, graph: Graph, selections: Sequence[Selection]
) -> AsyncGenerator[Chunk]:
    """Yield the resources of all types as they are at one point in time. Raises StorageError."""
    snapshot = await repository.snapshot_for(selections[0].resource, selections[0].query)
    for selection in selections:
        resource, query = selection.resource, selection.query
        names = query.attributes(resource)
        async with snapshot.listing(resource, query).chunks() as chunks:
            async for records in chunks:
                related: dict[tuple[str, str], Values] = {}
                for name in selection.joined:
                    link = selection.links[name]
                    key, target = link.foreign_key, graph[link.target]
                    ids = {each[key] for each in records} - {None}
                    for each in await snapshot.read_by_ids(target, ids, target.attribute_names):
                        attributes = _attributes(target, each, target.attribute_names)
                        related[target.type, str(each[_STORED_ID])] = attributes
                objects = [_resource(resource, each, names) for each in records]
                yield Chunk([_shown(each, selection.links) for each in objects], related)


def _resource(resource: ResourceType, record: Record, names: Collection[str]) -> Document:
    links = {}
    for name, link in to_one(resource).items():
        key = record[link.foreign_key]
        links[name] = {"data": None if key is None else {"type": link.target, ID: str(key)}}
    attributes = _attributes(resource, record, names)
    shown = {"type": resource.type, ID: str(record[_STORED_ID]), "attributes": attributes}
    return {**shown, "relationships": links}


def _attributes(resource: ResourceType, record: Record, names: Collection[str]) -> Values:
    return {name: resource.json_value(name, record) for name in resource.readable if name in names}


def _shown(resource: Document, links: Collection[str]) -> Document:
    """Return a resource object without URLs, with the linkage of these relationships."""
    shown = {name: resource[name] for name in ("type", ID, "attributes")}
    if links:
        linkage = resource["relationships"]
        shown["relationships"] = {name: {"data": linkage[name]["data"]} for name in links}
    return shown
