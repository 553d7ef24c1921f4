"""The resources of an export: from a snapshot of the database, or over the API."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeAlias

from registry.client.registry_client import Client, Document
from registry.csv_format import Column
from registry.jsonapi.query import Query
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource_type import Relationship, ResourceType
from registry.storage import Repository
from registry.transfer.rows import ID


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
        return {name: one for name, one in self.resource.to_one.items() if name in names}

    @property
    def joined(self) -> Mapping[str, Relationship]:
        """Those with columns of their targets besides the id."""
        names = {column.relationship for column in self.columns if column.field != ID}
        return {name: one for name, one in self.links.items() if name in names}


Selected: TypeAlias = tuple[Selection, Document]
"""Resources, with those that other columns need, in the form of a document of the API."""


def by_dependency(graph: Graph) -> list[ResourceType]:
    """Return the types, each after those that it links to, if that is possible."""
    targets = {
        name: {link.target for link in one.links if link.target != name}
        for name, one in graph.items()
    }
    with suppress(CycleError):
        return [graph[name] for name in TopologicalSorter(targets).static_order()]
    return list(graph.values())


async def read_service(client: Client, selections: Sequence[Selection]) -> AsyncGenerator[Selected]:
    """Yield the documents of pages, each at its own point in time. Raises RegistryError."""
    for selection in selections:
        resource, links = selection.resource, selection.links
        whole = {resource.type, *(link.target for link in selection.joined.values())}
        by_id = {link.target for link in links.values()} - whole
        query = [*selection.parameters, *((f"fields[{name}]", ID) for name in sorted(by_id))]
        query += [("include", ",".join(links))] if links else []
        async for document in client.pages(resource.collection, query):
            yield selection, document


async def read_database(
    repository: Repository, graph: Graph, selections: Sequence[Selection]
) -> AsyncGenerator[Selected]:
    """Yield documents of all types as they are at one point in time. Raises StorageError."""
    snapshot = await repository.snapshot_for(selections[0].resource, selections[0].query)
    for selection in selections:
        resource, query = selection.resource, selection.query
        async with snapshot.listing(resource, query).chunks() as chunks:
            async for records in chunks:
                included: list[Document] = []
                for link in selection.joined.values():
                    target = graph[link.target]
                    ids = {each[link.foreign_key] for each in records} - {None}
                    names = target.attribute_names
                    found = await snapshot.read_by_ids(target, ids, names)
                    included += [_resource_object(target, each, names) for each in found]
                names = query.attributes(resource)
                data = [_resource_object(resource, each, names) for each in records]
                yield selection, {"data": data, "included": included}


def _resource_object(resource: ResourceType, record: Record, names: Collection[str]) -> Document:
    links: dict[str, Any] = {}
    for name, link in resource.to_one.items():
        key = record.get(link.foreign_key)
        links[name] = {"data": None if key is None else {"type": link.target, ID: str(key)}}
    shown = {name: resource.json_value(name, record) for name in resource.readable if name in names}
    head = {"type": resource.type, ID: str(record["_id"])}
    return {**head, "attributes": shown, "relationships": links}
