"""Compound documents of collections of any size, in memory that does not grow with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from registry.compound import include_resolver as include
from registry.compound.id_bitset import IdBitset
from registry.jsonapi.documents import Part
from registry.jsonapi.query import Include, Query, Steps
from registry.jsonapi.resource_objects import LinkageById
from registry.model.graph import Graph
from registry.model.record import FirstPage, LinkedIds, Record
from registry.model.resource import Resource
from registry.storage.reads.listings import CHUNK
from registry.storage.repository import Repository


@dataclass(frozen=True, slots=True)
class _Node:
    """The resources at the end of an include path. include: the steps that go on from there."""

    resource: Resource
    include: Include
    ids: IdBitset = field(default_factory=IdBitset)


class CompoundStream:
    """The parts of one compound document.

    A collection that is more than one chunk is not held, nor is what it includes: of that the ids
    are kept, and it is read when the primary resources are through. By which paths a resource is
    reached is not known yet when it is shown, so each shows the relationships that the paths
    follow from any resource of its type. The methods raise Unavailable if the database does not
    answer.
    """

    def __init__(
        self, resource: Resource, query: Query, repository: Repository, graph: Graph
    ) -> None:
        self._resource = resource
        self._query = query
        self._repository = repository
        self._graph = graph
        self._nodes: dict[Steps, _Node] = {(): _Node(resource, query.include or {})}
        self._steps: dict[str, dict[str, int | None]] = defaultdict(dict)
        self._plant()
        self._shown: dict[str, IdBitset] = defaultdict(IdBitset)
        self._held: list[Part] = []

    def _plant(self) -> None:
        """Make the nodes below the root, each after the one above it."""
        paths: list[Steps] = [()]
        for path in paths:
            node = self._nodes[path]
            for name, rest in node.include.items():
                below = (*path, name)
                target = self._graph[node.resource.relationships[name].target]
                self._steps[node.resource.type][name] = self._query.bounds.get(below)
                self._nodes[below] = _Node(target, rest)
                paths.append(below)

    async def primary(self, chunks: AsyncIterable[Sequence[Record]]) -> AsyncGenerator[Part]:
        """Yield the primary resources. chunks: of CHUNK records each, but for the last."""
        only = True
        async for records in chunks:
            if only and len(records) < CHUNK:
                yield await self._hold(records)
            else:
                yield Part(self._resource, records, await self._follow((), records))
            only = False

    async def included(self) -> AsyncGenerator[Part]:
        """Yield the included resources, each once, after the primary ones have been read."""
        for part in self._held:
            yield part
        for path, node in self._nodes.items():
            if not path:
                continue
            shown, ids = self._shown[node.resource.type], iter(node.ids)
            while numbers := list(islice(ids, CHUNK)):
                if not node.include:
                    numbers = [number for number in numbers if number not in shown]
                attributes = self._query.attributes(node.resource)
                found = await self._repository.find(node.resource, "_id", numbers, attributes)
                new = [record for record in found if record["_id"] not in shown]
                links = await self._follow(path, found)
                if new:
                    yield Part(node.resource, new, links)

    async def _hold(self, records: Sequence[Record]) -> Part:
        """Return all primary resources; what they include is few as well."""
        resolved = await include.resolve(
            self._resource, records, self._query, self._repository, self._graph
        )
        included = resolved.included or {}
        self._held = [
            Part(self._graph[name], some, resolved.links) for name, some in included.items() if some
        ]
        return Part(self._resource, records, resolved.links)

    async def _follow(self, path: Steps, records: Sequence[Record]) -> LinkageById:
        """Return the relationships of resources at the end of a path, and remember where to."""
        if not self._query.include:
            return {}
        node = self._nodes[path]
        steps = self._steps[node.resource.type]
        self._shown[node.resource.type].update(record["_id"] for record in records)
        one_step = replace(
            self._query,
            include={name: {} for name in steps},
            bounds={(name,): bound for name, bound in steps.items() if bound is not None},
        )
        resolved = await include.resolve(
            node.resource, records, one_step, self._repository, self._graph
        )
        followed = resolved.links.get(node.resource.type, {})
        for name in node.include:
            for linked in followed.get(name, {}).values():
                self._nodes[(*path, name)].ids.update(_ids(linked))
        return resolved.links


def _ids(linked: LinkedIds) -> Sequence[int]:
    match linked:
        case None:
            return ()
        case int():
            return (linked,)
        case FirstPage():
            return linked.ids
    return linked
