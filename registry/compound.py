"""Compound documents: include paths -> the included resources, in memory or as a stream."""

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import NamedTuple, TypeAlias, cast

from registry.jsonapi.documents import PLAIN, Compound, LinkageById, Part
from registry.jsonapi.query import Include, IncludePath, Query
from registry.model.graph import Graph
from registry.model.record import FirstPage, LinkedIds, Record, ids_in
from registry.model.resource_type import Relationship, ResourceType
from registry.offloading import in_chunks, offload
from registry.storage import CHUNK, Snapshot

Followed: TypeAlias = Mapping[str, Mapping[str, int | None]]
"""Type -> relationship -> members shown per resource, None for all: what include paths follow.

A resource that several paths reach appears once. So it shows every relationship that any path
follows from its type, with as many members as the path with the most.
"""


class PathEnd(NamedTuple):
    """The resources at the end of an include path. include: the steps that follow."""

    path: IncludePath
    type: ResourceType
    include: Include


def path_ends(
    resource_type: ResourceType, include: Include, graph: Graph, path: IncludePath = ()
) -> Iterator[PathEnd]:
    """Yield the ends of all paths in an include tree, each before those that follow it.

    resource_type: the type that the tree starts at. path: leads to it; it is the first one.
    """
    yield PathEnd(path, resource_type, include)
    for name, subtree in include.items():
        target = graph[resource_type.relationships[name].target]
        yield from path_ends(target, subtree, graph, (*path, name))


def followed_relationships(ends: Iterable[PathEnd], query: Query) -> Followed:
    """Return the relationships that the paths follow from their ends."""
    followed: dict[str, dict[str, int | None]] = defaultdict(dict)
    for end in ends:
        members = followed[end.type.type]
        for name in end.include:
            size = query.include_sizes.get((*end.path, name))
            sizes = {size, members.get(name, size)}
            members[name] = None if None in sizes else max(filter(None, sizes))
    return followed


async def resolve(
    resource_type: ResourceType,
    records: Sequence[Record],
    query: Query,
    snapshot: Snapshot,
    graph: Graph,
    start: IncludePath = (),
) -> Compound:
    """Return the resources related to the primary records along the include paths.

    Each resource appears once in the document, and not in `included` if it is primary. A foreign
    key of a missing resource counts as null. start: the path that has led to the records. Raises
    Unavailable if the database does not respond.
    """
    if query.include is None:
        return PLAIN
    include = query.include_below(start)
    followed = followed_relationships(path_ends(resource_type, include, graph, start), query)
    resolver = IncludeResolver(query, snapshot, graph, followed)
    resolver.add_primary(resource_type, records)
    await resolver.resolve(resource_type, records, include)
    return Compound(resolver.linkage, resolver.included)


class IncludeResolver:
    """Resolves the include paths of one document; each resource is loaded at most once.

    linkage: of the resources in the document. included: their records, by type. The methods raise
    Unavailable if the database does not respond.
    """

    def __init__(self, query: Query, snapshot: Snapshot, graph: Graph, followed: Followed) -> None:
        self._query = query
        self._snapshot = snapshot
        self._graph = graph
        self._followed = followed
        self._loaded: dict[str, dict[int, Record]] = defaultdict(dict)
        self._in_document: dict[str, set[int]] = defaultdict(set)
        self.included: dict[str, list[Record]] = defaultdict(list)
        self.linkage: dict[str, dict[str, dict[int, LinkedIds]]] = defaultdict(
            lambda: defaultdict(dict)
        )

    def add_primary(self, resource_type: ResourceType, records: Iterable[Record]) -> None:
        """Add the primary resources, which are not included again."""
        self._loaded[resource_type.type] = {record["_id"]: record for record in records}
        self._in_document[resource_type.type] = set(self._loaded[resource_type.type])

    async def resolve(
        self, resource_type: ResourceType, records: Sequence[Record], include: Include
    ) -> None:
        """Resolve the include tree below these records."""
        await self.link(resource_type, records)
        for name, subtree in include.items():
            relationship = resource_type.relationships[name]
            linkage = self.linkage[resource_type.type][name]
            size = len(records) + len(self._loaded[relationship.target])
            include_related = partial(self._include_related, records, relationship, linkage)
            related = await offload(include_related, size=size)
            await self.resolve(self._graph[relationship.target], related, subtree)

    def _include_related(
        self,
        records: Sequence[Record],
        relationship: Relationship,
        linkage: Mapping[int, LinkedIds],
    ) -> list[Record]:
        """Include the records that these are linked to, and return them."""
        linked = (linkage[record["_id"]] for record in records)
        ids = set(chain.from_iterable(map(ids_in, linked)))
        loaded, present = self._loaded[relationship.target], self._in_document[relationship.target]
        self.included[relationship.target] += [loaded[id_] for id_ in sorted(ids - present)]
        present |= ids
        return [loaded[id_] for id_ in sorted(ids)]

    async def link(self, resource_type: ResourceType, records: Sequence[Record]) -> None:
        """Load what the records are linked to, unless that was done before."""
        linkage_by_name = self.linkage[resource_type.type]
        for name, size in self._followed.get(resource_type.type, {}).items():
            relationship, linkage = resource_type.relationships[name], linkage_by_name[name]
            new = [record for record in records if record["_id"] not in linkage]
            if relationship.to_many:
                linkage |= await self._link_many(resource_type, new, relationship, size)
            else:
                linkage |= await self._link_one(new, relationship)

    async def _link_one(
        self, records: Sequence[Record], relationship: Relationship
    ) -> dict[int, LinkedIds]:
        target, loaded = self._graph[relationship.target], self._loaded[relationship.target]
        foreign_key = relationship.foreign_key
        keys: dict[int, int | None] = {}
        async for chunk in in_chunks(records):
            keys |= {one["_id"]: one.get(foreign_key) for one in chunk}
        targets = {key for key in keys.values() if key is not None}
        if unknown := targets - loaded.keys():
            attributes = self._query.attributes(target)
            found = await self._snapshot.read_by_ids(target, unknown, attributes)
            loaded |= {record["_id"]: record for record in found}
        if missing := targets - loaded.keys():
            keys |= {id_: None for id_, key in keys.items() if key in missing}
        return cast("dict[int, LinkedIds]", keys)

    async def _link_many(
        self,
        resource_type: ResourceType,
        records: Sequence[Record],
        relationship: Relationship,
        size: int | None,
    ) -> dict[int, LinkedIds]:
        members: dict[int, list[int]] = {record["_id"]: [] for record in records}
        if not members:
            return {}
        attributes = self._query.attributes(self._graph[relationship.target])
        limit = None if size is None else size + 1  # one more reveals whether others follow
        related = await self._snapshot.read_members(
            resource_type, relationship, list(members), attributes, limit
        )
        key, loaded = relationship.foreign_key, self._loaded[relationship.target]
        async for chunk in in_chunks(related):
            for record in chunk:
                if (owner := record[key]) in members:
                    members[owner].append(record["_id"])
                    loaded.setdefault(record["_id"], record)
        if size is None:
            return {**members}
        return {
            owner: FirstPage(ids[:size], size, len(ids) > size) for owner, ids in members.items()
        }


_PAGE_BITS = 10
"""A page holds 2 ** 10 ids as bits of one integer. Assigned ids are dense, so few pages exist."""

_OFFSET_MASK = (1 << _PAGE_BITS) - 1


class IdBitset:
    """A set of ids that takes about one bit per id where they are consecutive."""

    def __init__(self) -> None:
        self._pages: dict[int, int] = {}

    def __contains__(self, id_: int) -> bool:
        return bool(self._pages.get(id_ >> _PAGE_BITS, 0) >> (id_ & _OFFSET_MASK) & 1)

    def __iter__(self) -> Iterator[int]:
        """Yield the ids in ascending order."""
        for index in sorted(self._pages):
            page = self._pages[index]
            while page:
                lowest = page & -page
                yield (index << _PAGE_BITS) + lowest.bit_length() - 1
                page ^= lowest

    def update(self, ids: Iterable[int]) -> None:
        """Add ids."""
        for id_ in ids:
            index = id_ >> _PAGE_BITS
            self._pages[index] = self._pages.get(index, 0) | 1 << (id_ & _OFFSET_MASK)


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
