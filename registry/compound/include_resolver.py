"""The include resolver: what a compound document holds, one query a step of the include path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from registry.jsonapi.documents import PLAIN, Compound
from registry.jsonapi.query import Include, Query, Steps
from registry.model.graph import Graph
from registry.model.record import FirstPage, LinkedIds, Record
from registry.model.resource import Relationship, Resource
from registry.storage.records import by_id, key_of
from registry.storage.repository import Repository


async def resolve(
    resource: Resource,
    records: Sequence[Record],
    query: Query,
    repository: Repository,
    graph: Graph,
) -> Compound:
    """Return the resources related to the primary records along the include paths.

    Each resource is in the document once, and not in `included` if it is primary. A key that
    leads to no resource counts as no link. Raises Unavailable if the database does not answer.
    """
    if query.include is None:
        return PLAIN
    walk = _Walk(query, repository, graph, (resource, records))
    await walk.follow(resource, records, query.include)
    return Compound(walk.links, walk.included)


async def resolve_linkage(
    relationship: Relationship,
    records: Sequence[Record],
    query: Query,
    repository: Repository,
    graph: Graph,
) -> Compound:
    """Return what is related when the primary data are the identifiers of these records.

    relationship: what led to the records, and the first step of each include path. Raises as
    `resolve` does.
    """
    if query.include is None:
        return PLAIN
    target = graph[relationship.target]
    walk = _Walk(query, repository, graph, (target, ()))
    if relationship.name in query.include:
        walk.add(target, records)
        rest, path = query.include[relationship.name], (relationship.name,)
        await walk.follow(target, records, rest, path)
    return Compound(walk.links, walk.included)


class _Walk:
    """One traversal of the include tree; remembers what it has met."""

    def __init__(
        self,
        query: Query,
        repository: Repository,
        graph: Graph,
        primary: tuple[Resource, Sequence[Record]],
    ) -> None:
        self._query = query
        self._repository = repository
        self._graph = graph
        self._primary = primary
        self._known: dict[str, dict[int, Record]] = {}
        self.links: dict[str, dict[str, dict[int, LinkedIds]]] = defaultdict(
            partial(defaultdict, dict)
        )
        self.included: dict[str, list[Record]] = defaultdict(list)

    def add(self, resource: Resource, records: Iterable[Record]) -> None:
        """Include the records that are not in the document yet."""
        known = self._known_of(resource.type)
        new = {number: one for one in records if (number := one["_id"]) not in known}
        known |= new
        self.included[resource.type] += new.values()

    def _known_of(self, type_name: str) -> dict[int, Record]:
        """Return by id what the document holds already of a type."""
        if type_name not in self._known:
            resource, records = self._primary
            held = records if resource.type == type_name else ()
            self._known[type_name] = {record["_id"]: record for record in held}
        return self._known[type_name]

    async def follow(
        self, resource: Resource, records: Iterable[Record], include: Include, path: Steps = ()
    ) -> None:
        """Take every step that starts at these records; path: the steps that led to them."""
        for name, rest in include.items():
            relationship, here = resource.relationships[name], (*path, name)
            if relationship.to_many:
                bound = self._query.bounds.get(here)
                found = await self._to_many(resource, records, relationship, bound)
            else:
                found = await self._to_one(resource, records, relationship)
            await self.follow(self._graph[relationship.target], found, rest, here)

    async def _to_one(
        self, resource: Resource, records: Iterable[Record], relationship: Relationship
    ) -> list[Record]:
        target, known = self._graph[relationship.target], self._known_of(relationship.target)
        keys = {record["_id"]: key_of(record, relationship.foreign_key) for record in records}
        wanted = {key for key in keys.values() if key is not None}
        if unknown := wanted - known.keys():
            shown = self._query.attributes(target)
            self.add(target, await self._repository.find(target, "_id", unknown, shown))
        if gone := wanted - known.keys():
            keys = {number: None if key in gone else key for number, key in keys.items()}
        self.links[resource.type][relationship.name].update(keys)
        return [known[key] for key in wanted - gone]

    async def _to_many(
        self,
        resource: Resource,
        records: Iterable[Record],
        relationship: Relationship,
        bound: int | None,
    ) -> list[Record]:
        target = self._graph[relationship.target]
        members: dict[int, list[Record]] = {record["_id"]: [] for record in records}
        if not members:
            return []
        attributes = self._query.attributes(target)
        if bound is None:
            found = await self._repository.find(
                target, relationship.foreign_key, members.keys(), attributes
            )
        else:  # one more each, which tells whether there are others
            found = await self._repository.find_first(
                resource, relationship, list(members), bound + 1, attributes
            )
        for record in found:
            if (key := key_of(record, relationship.foreign_key)) in members:
                members[key].append(record)
        shown = [record for some in members.values() for record in some[:bound]]
        self.add(target, by_id(shown))
        linked = self.links[resource.type][relationship.name]
        for number, some in members.items():
            ids = [record["_id"] for record in some[:bound]]
            linked[number] = ids if bound is None else FirstPage(ids, bound, len(some) > bound)
        return shown
