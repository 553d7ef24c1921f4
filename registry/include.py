"""The include resolver: what a compound document holds, one query a step of the include path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from registry.jsonapi.document import PLAIN, Compound
from registry.jsonapi.query import Include
from registry.resource import Graph, Linked, Record, Relationship, Resource
from registry.storage.repository import Repository


async def resolve(
    resource: Resource,
    records: Sequence[Record],
    include: Include | None,
    repository: Repository,
    graph: Graph,
) -> Compound:
    """Return the resources related to the primary records along the include paths.

    Each resource is in the document once, and not in `included` if it is primary. A key that
    leads to no resource counts as no link. Raises Unavailable if the database does not answer.
    """
    if include is None:
        return PLAIN
    walk = _Walk(resource, records, repository, graph)
    await walk.follow(resource, records, include)
    return Compound(walk.links, walk.included)


class _Walk:
    """One traversal of the include tree; remembers what it has met."""

    def __init__(
        self, primary: Resource, records: Sequence[Record], repository: Repository, graph: Graph
    ) -> None:
        self._repository = repository
        self._graph = graph
        self._known: dict[str, dict[int, Record]] = defaultdict(dict)
        self._known[primary.type] = {record["_id"]: record for record in records}
        self.links: dict[tuple[str, int], dict[str, Linked]] = defaultdict(dict)
        self.included: dict[str, list[Record]] = defaultdict(list)

    async def follow(self, resource: Resource, records: Iterable[Record], include: Include) -> None:
        """Take every step that starts at these records."""
        for name, rest in include.items():
            relationship = resource.relationships[name]
            step = self._to_many if relationship.to_many else self._to_one
            found = await step(resource, records, relationship)
            await self.follow(self._graph[relationship.target], found, rest)

    async def _to_one(
        self, resource: Resource, records: Iterable[Record], relationship: Relationship
    ) -> list[Record]:
        target, known = self._graph[relationship.target], self._known[relationship.target]
        keys = {record["_id"]: record.get(relationship.column) for record in records}
        wanted = {key for key in keys.values() if key is not None}
        if unknown := wanted - known.keys():
            self._add(target, await self._repository.find(target, "_id", unknown))
        for number, key in keys.items():
            self.links[resource.type, number][relationship.name] = key if key in known else None
        return [known[key] for key in wanted if key in known]

    async def _to_many(
        self, resource: Resource, records: Iterable[Record], relationship: Relationship
    ) -> list[Record]:
        target = self._graph[relationship.target]
        members: dict[int, list[int]] = {record["_id"]: [] for record in records}
        if not members:
            return []
        found = await self._repository.find(target, relationship.column, members.keys())
        self._add(target, found)
        for record in found:
            members[record[relationship.column]].append(record["_id"])
        for number, ids in members.items():
            self.links[resource.type, number][relationship.name] = ids
        return found

    def _add(self, resource: Resource, records: Iterable[Record]) -> None:
        known = self._known[resource.type]
        new = [record for record in records if record["_id"] not in known]
        known.update((record["_id"], record) for record in new)
        self.included[resource.type] += new
