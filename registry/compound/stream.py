"""Compound documents of collections of any size, in constant memory."""

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from registry.compound.id_bitset import IdBitset
from registry.compound.include_resolver import resolve
from registry.jsonapi.documents import Part
from registry.jsonapi.query import Include, IncludePath, Query
from registry.jsonapi.resource_objects import LinkageById
from registry.model.graph import Graph
from registry.model.record import FirstPage, LinkedIds, Record
from registry.model.resource import Resource
from registry.storage.reads.listings import CHUNK
from registry.storage.repository import Repository


@dataclass(frozen=True, slots=True)
class _PathEnd:
    """The resources at the end of an include path. include: the steps that follow."""

    resource: Resource
    include: Include
    ids: IdBitset = field(default_factory=IdBitset)


class CompoundStream:
    """The parts of one streamed compound document.

    A collection smaller than one chunk is resolved in memory. Of a larger one, only ids are kept,
    as bitsets, and the included resources are read after the primary ones. By then the paths that
    led to a resource are not known, so each shows the relationships that any path follows from its
    type. The methods raise Unavailable if the database does not respond.
    """

    def __init__(
        self, resource: Resource, query: Query, repository: Repository, graph: Graph
    ) -> None:
        self._resource = resource
        self._query = query
        self._repository = repository
        self._graph = graph
        self._path_ends: dict[IncludePath, _PathEnd] = {(): _PathEnd(resource, query.include or {})}
        self._include_sizes: dict[str, dict[str, int | None]] = defaultdict(dict)
        self._add_path_ends()
        self._seen: dict[str, IdBitset] = defaultdict(IdBitset)
        self._resolved_parts: list[Part] = []

    def _add_path_ends(self) -> None:
        """Add the end of each path, and the relationships followed from each type."""
        paths: list[IncludePath] = [()]
        for path in paths:  # extended in the loop
            end = self._path_ends[path]
            for name, subtree in end.include.items():
                subpath = (*path, name)
                target = self._graph[end.resource.relationships[name].target]
                size = self._query.include_sizes.get(subpath)
                self._include_sizes[end.resource.type][name] = size
                self._path_ends[subpath] = _PathEnd(target, subtree)
                paths.append(subpath)

    async def primary(self, chunks: AsyncIterable[Sequence[Record]]) -> AsyncGenerator[Part]:
        """Yield the primary resources. chunks: of CHUNK records, the last one may be shorter."""
        is_first = True
        async for records in chunks:
            if is_first and len(records) < CHUNK:
                yield await self._resolve_all(records)
            else:
                yield Part(self._resource, records, await self._resolve_step((), records))
            is_first = False

    async def included(self) -> AsyncGenerator[Part]:
        """Yield the included resources, each once. Call after reading all of `primary`."""
        for part in self._resolved_parts:
            yield part
        for path, end in self._path_ends.items():
            if not path:
                continue
            seen, ids = self._seen[end.resource.type], iter(end.ids)
            while chunk := list(islice(ids, CHUNK)):
                if not end.include:  # the path ends: resources in the document are not needed again
                    chunk = [id_ for id_ in chunk if id_ not in seen]
                attributes = self._query.attributes(end.resource)
                records = await self._repository.find(end.resource, "_id", chunk, attributes)
                new = [record for record in records if record["_id"] not in seen]
                linkage = await self._resolve_step(path, records)
                if new:
                    yield Part(end.resource, new, linkage)

    async def _resolve_all(self, records: Sequence[Record]) -> Part:
        """Return the only chunk of primary resources, and keep what it includes."""
        compound = await resolve(
            self._resource, records, self._query, self._repository, self._graph
        )
        self._resolved_parts = [
            Part(self._graph[type_name], included, compound.linkage)
            for type_name, included in (compound.included or {}).items()
            if included
        ]
        return Part(self._resource, records, compound.linkage)

    async def _resolve_step(self, path: IncludePath, records: Sequence[Record]) -> LinkageById:
        """Return the linkage of resources at the end of a path, and keep the linked ids."""
        if not self._query.include:
            return {}
        end = self._path_ends[path]
        sizes = self._include_sizes[end.resource.type]
        self._seen[end.resource.type].update(record["_id"] for record in records)
        one_step = replace(
            self._query,
            include={name: {} for name in sizes},
            include_sizes={(name,): size for name, size in sizes.items() if size is not None},
        )
        compound = await resolve(end.resource, records, one_step, self._repository, self._graph)
        linkage = compound.linkage.get(end.resource.type, {})
        for name in end.include:
            for linked_ids in linkage.get(name, {}).values():
                self._path_ends[(*path, name)].ids.update(_ids(linked_ids))
        return compound.linkage


def _ids(linked_ids: LinkedIds) -> Sequence[int]:
    match linked_ids:
        case None:
            return ()
        case int():
            return (linked_ids,)
        case FirstPage():
            return linked_ids.ids
    return linked_ids
