"""Compound documents of collections of any size, in constant memory."""

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from itertools import islice

from registry.compound.id_bitset import IdBitset
from registry.compound.include_resolver import (
    IncludeResolver,
    followed_relationships,
    path_ends,
    resolve,
)
from registry.jsonapi.documents import Part
from registry.jsonapi.query import IncludePath, Query
from registry.jsonapi.resource_objects import LinkageById
from registry.model.graph import Graph
from registry.model.record import Record, ids_in
from registry.model.resource_type import ResourceType
from registry.storage import CHUNK, Snapshot


class CompoundStream:
    """The parts of one compound document that is encoded while it is read.

    A collection smaller than one chunk is resolved in memory. Of a larger one, only ids are kept,
    as bitsets, and the included resources are read after the primary ones. start: the path that
    leads to the collection. The methods raise Unavailable if the database does not respond, or no
    longer has the snapshot.
    """

    def __init__(
        self,
        resource_type: ResourceType,
        query: Query,
        snapshot: Snapshot,
        graph: Graph,
        start: IncludePath = (),
    ) -> None:
        self._type = resource_type
        self._query = query
        self._snapshot = snapshot
        self._graph = graph
        self._start = start
        include = query.include_below(start)
        ends = list(path_ends(resource_type, include, graph, start))
        self._followed = followed_relationships(ends, query)
        self._path_ends = {end.path: end for end in ends}
        self._linked: dict[IncludePath, IdBitset] = defaultdict(IdBitset)
        self._seen: dict[str, IdBitset] = defaultdict(IdBitset)
        self._resolved_parts: list[Part] = []

    async def primary(self, chunks: AsyncIterable[Sequence[Record]]) -> AsyncGenerator[Part]:
        """Yield the primary resources. chunks: of CHUNK records, the last one may be shorter."""
        is_first = True
        async for records in chunks:
            if is_first and len(records) < CHUNK:
                yield await self._resolve_all(records)
            else:
                yield Part(self._type, records, await self._resolve_step(self._start, records))
            is_first = False

    async def included(self) -> AsyncGenerator[Part]:
        """Yield the included resources, each once. Call after reading all of `primary`."""
        for part in self._resolved_parts:
            yield part
        for path, end in self._path_ends.items():
            seen, ids = self._seen[end.type.type], iter(self._linked[path])
            while chunk := list(islice(ids, CHUNK)):
                if not end.include:  # the path ends: resources in the document are not needed again
                    chunk = [id_ for id_ in chunk if id_ not in seen]
                attributes = self._query.attributes(end.type)
                records = await self._snapshot.read_by_ids(end.type, chunk, attributes)
                new = [record for record in records if record["_id"] not in seen]
                linkage = await self._resolve_step(path, records)
                if new:
                    yield Part(end.type, new, linkage)

    async def _resolve_all(self, records: Sequence[Record]) -> Part:
        """Return the only chunk of primary resources, and keep what it includes."""
        compound = await resolve(
            self._type, records, self._query, self._snapshot, self._graph, self._start
        )
        self._resolved_parts = [
            Part(self._graph[type_name], included, compound.linkage)
            for type_name, included in (compound.included or {}).items()
            if included
        ]
        return Part(self._type, records, compound.linkage)

    async def _resolve_step(self, path: IncludePath, records: Sequence[Record]) -> LinkageById:
        """Return the linkage of resources at the end of a path, and keep the linked ids."""
        if not self._query.include:
            return {}
        end = self._path_ends[path]
        resolver = IncludeResolver(self._query, self._snapshot, self._graph, self._followed)
        self._seen[end.type.type].update(record["_id"] for record in records)
        await resolver.link(end.type, records)
        for name in end.include:
            for linked_ids in resolver.linkage[end.type.type][name].values():
                self._linked[(*path, name)].update(ids_in(linked_ids))
        return resolver.linkage
