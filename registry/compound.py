"""Compound documents: include paths -> the linkage of resources, and the included ones.

A document is read as a stream of parts, first the primary resources, then the included ones. Its
rules:

- Each resource is shown once, and not among the included ones if it is primary.
- A part has at most a chunk of resources, and as many identifiers as one query may return (`chunk`
  and `members` of Capacity). A resource that links to more is a part by itself, whose identifiers
  are read while they are sent.
- The records that a document has linked to are kept until these and the identifiers are more than
  `kept_records`. From then on only ids are kept, about one bit each, and records are read again.

`resolve` collects a document that can be kept as a whole, as most can.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

from registry.jsonapi.documents import PLAIN, Compound, Identifiers, Part
from registry.jsonapi.query import Include, IncludePath, Query
from registry.model.graph import Graph
from registry.model.record import ID, FirstPage, LinkedIds, Record, StreamedIds, ids_in
from registry.model.resource_type import Relationship, ResourceType
from registry.storage import Snapshot, TooManyMembers

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
        target = graph[resource_type.followed[name].target]
        yield from path_ends(target, subtree, graph, (*path, name))


def followed_relationships(ends: Iterable[PathEnd], query: Query) -> Followed:
    """Return the relationships that the paths follow from their ends."""
    followed: dict[str, dict[str, int | None]] = defaultdict(dict)
    for end in ends:
        members = followed[end.type.type]
        for name in end.include:
            size, other = query.include_sizes.get((*end.path, name)), members.get(name, 0)
            members[name] = None if size is None or other is None else max(size, other)
    return followed


async def resolve(  # noqa: PLR0913 - what a document depends on
    resource_type: ResourceType,
    records: Sequence[Record],
    query: Query,
    snapshot: Snapshot,
    graph: Graph,
    start: IncludePath = (),
    *,
    is_bounded: bool = True,
) -> Compound | None:
    """Return the resources related to the primary records along the include paths.

    None if they cannot be kept: then a CompoundStream reads them. start: the path that has led
    to the records. is_bounded: False where `include` has only to-one relationships, of which each
    record has few. Raises as the methods of CompoundStream.
    """
    if query.include is None:
        return PLAIN
    stream = CompoundStream(resource_type, query, snapshot, graph, start, is_bounded=is_bounded)
    return await stream.collect(records)


async def single_chunk(records: Sequence[Record]) -> AsyncGenerator[Sequence[Record]]:
    """Yield the only chunk of a document."""
    if records:
        yield records


_PAGE_BITS = 10
"""A page holds 2 ** 10 ids as bits of one integer. Assigned ids are dense, so few pages exist."""

_OFFSET_MASK = (1 << _PAGE_BITS) - 1


class IdBitset:
    """A set of ids that takes about one bit per id where they are consecutive."""

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._pages: dict[int, int] = {}
        self.update(ids)

    def __bool__(self) -> bool:
        return bool(self._pages)

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


_Ids: TypeAlias = set[int] | IdBitset
"""Ids of a document: a set while its records are kept, as it is faster."""


class CompoundStream:
    """Reads the parts of one compound document.

    start: the path that leads to the primary resources. is_kept: whether the document fits into
    memory so far. The methods raise Unavailable if the database does not respond, or no longer has
    the snapshot.
    """

    def __init__(
        self,
        resource_type: ResourceType,
        query: Query,
        snapshot: Snapshot,
        graph: Graph,
        start: IncludePath = (),
        *,
        is_bounded: bool = True,
    ) -> None:
        self._query = query
        self._snapshot = snapshot
        self._graph = graph
        self._start = start
        capacity = snapshot.reads.capacity
        self._limit = capacity.kept_records if is_bounded else None
        ends = list(path_ends(resource_type, query.include_below(start), graph, start))
        self._followed = followed_relationships(ends, query)
        self._path_ends = {end.path: end for end in ends}
        self._linked: defaultdict[IncludePath, _Ids] = defaultdict(set)
        self._shown: defaultdict[str, _Ids] = defaultdict(set)
        self._loaded: dict[str, dict[int, Record]] = defaultdict(dict)
        self._size = 0  # of what is kept
        self._chunk = self._part_size = capacity.chunk
        self.is_kept = True
        self._forget_linkage()

    async def primary(self, chunks: AsyncIterable[Sequence[Record]]) -> AsyncGenerator[Part]:
        """Yield the primary resources. chunks: of records."""
        resource_type = self._path_ends[self._start].type
        async for records in chunks:
            if not self._query.include:
                self._forget_linkage()
                yield Part(resource_type, records, self._linkage)
                continue
            self._keep(resource_type, records)
            end, rest = self._path_ends[self._start], records
            while rest:
                part, rest = await self._next_part(end, rest)
                if part:
                    yield part

    async def identified(
        self, chunks: AsyncIterable[Sequence[Record]]
    ) -> AsyncGenerator[Identifiers]:
        """Yield the identifiers of resources, if these are the primary data.

        `included` then begins with these resources, if `include` names them.
        """
        resource_type = self._path_ends[self._start].type
        async for records in chunks:
            ids = [record[ID] for record in records]
            if self._query.include:
                self._keep(resource_type, records)
                self._linked[self._start].update(ids)
            yield Identifiers(resource_type.type, ids)

    async def included(self) -> AsyncGenerator[Part]:
        """Yield the included resources. Call after reading all of the primary data."""
        for path, end in self._path_ends.items():
            for ids in self._linked_chunks(path, end):
                rest: Sequence[Record] = await self._read(end.type, ids)
                while rest:
                    part, rest = await self._next_part(end, rest)
                    if part:
                        yield part

    async def collect(self, records: Sequence[Record]) -> Compound | None:
        """Return all linkage and included resources of these primary ones, None if not `is_kept`.

        The same as reading `primary` and `included`, in less time.
        """
        included: dict[str, list[Record]] = defaultdict(list)
        shown = None if self._query.include is None else included
        resource_type = self._path_ends[self._start].type
        if not self._query.include:
            return Compound(self._linkage, shown)
        self._keep(resource_type, records)
        for path, end in self._path_ends.items():
            if path == self._start:
                while records and self.is_kept:
                    part, records = await self._next_part(end, records)
                    if part and path:  # the primary data are identifiers
                        included[end.type.type] += part.records
            for ids in self._linked_chunks(path, end):
                rest: Sequence[Record] = await self._read(end.type, ids)
                while rest and self.is_kept:
                    part, rest = await self._next_part(end, rest)
                    if part:
                        included[end.type.type] += part.records
            if not self.is_kept:
                return None
        return Compound(self._linkage, shown)

    def _linked_chunks(self, path: IncludePath, end: PathEnd) -> Iterator[list[int]]:
        """Yield the ids that a path leads to and that are needed, in chunks."""
        if not (linked := self._linked[path]):
            return
        ids = iter(sorted(linked) if isinstance(linked, set) else linked)
        while chunk := list(islice(ids, self._chunk)):
            if not end.include:  # the path ends: what is shown already is not needed again
                shown = self._shown[end.type.type]
                chunk = [id_ for id_ in chunk if id_ not in shown]
            yield chunk

    async def _next_part(
        self, end: PathEnd, records: Sequence[Record]
    ) -> tuple[Part | None, Sequence[Record]]:
        """Return a part of resources at the end of a path, and those that are left.

        None instead of the part if all its resources are in the document already.
        """
        if not self.is_kept:
            self._forget_linkage()
        while not await self._link(end, some := records[: self._part_size]):
            pass  # until the part is small enough
        rest = records[len(some) :]
        shown = self._shown[end.type.type]
        new = [record for record in some if record[ID] not in shown]
        if not new:
            await self._read_streamed(end, some)
            return None, rest
        shown.update([record[ID] for record in new])
        return Part(end.type, new, self._linkage), rest

    async def _link(self, end: PathEnd, records: Sequence[Record]) -> bool:
        """Add the linkage of resources; return whether it fits into one part.

        If not, the next part is made smaller.
        """
        type_name = end.type.type
        for name, size in self._followed.get(type_name, {}).items():
            relationship, links = end.type.followed[name], self._linkage[type_name][name]
            path = (*end.path, name)
            if new := [record for record in records if record[ID] not in links]:
                try:
                    links |= await self._links(end.type, relationship, new, size)
                except TooManyMembers as error:
                    first = records[0][ID]
                    if len(records) > 1:
                        fitting = next(
                            i for i, record in enumerate(records) if record[ID] >= error.id
                        )
                        self._part_size = fitting or (1 if first == error.id else len(records) // 2)
                        return False
                    ids = self._stream_ids(path, relationship, first)
                    links[first] = StreamedIds(relationship.target, ids)
                    self._forget()
            if name in end.include:
                shown = [ids_in(links[record[ID]]) for record in records]
                self._linked[path].update(chain.from_iterable(shown))
        self._part_size = min(self._chunk, self._part_size + -(-self._part_size // 8))
        return True

    async def _links(
        self,
        resource_type: ResourceType,
        relationship: Relationship,
        records: Sequence[Record],
        size: int | None,
    ) -> dict[int, LinkedIds]:
        """Return what the records are linked to, by id. Raises TooManyMembers."""
        target, key = self._graph[relationship.target], relationship.foreign_key
        shown = self._query.shown(target) if self.is_kept else frozenset[str]()
        if not relationship.to_many:
            keys: dict[int, LinkedIds] = {record[ID]: record.get(key) for record in records}
            linked = {to for record in records if (to := record.get(key)) is not None}
            if unknown := linked - self._loaded[target.type].keys():
                found = await self._snapshot.read_by_ids(target, unknown, shown)
                self._keep(target, found)
                if unknown := unknown - {record[ID] for record in found}:  # they do not exist
                    keys = {id_: None if to in unknown else to for id_, to in keys.items()}
            return keys
        members: dict[int, list[int]] = {record[ID]: [] for record in records}
        limit = None if size is None else size + 1  # one more reveals whether others follow
        found = await self._snapshot.read_members(
            resource_type, relationship, list(members), shown, limit
        )
        for record in found:
            members[record[key]].append(record[ID])
        self._keep(target, found)
        if size is None:
            return {**members}
        return {
            owner: FirstPage(ids[:size], size, len(ids) > size) for owner, ids in members.items()
        }

    async def _stream_ids(
        self, path: IncludePath, relationship: Relationship, id_: int
    ) -> AsyncGenerator[list[int]]:
        """Yield the ids of all members of one resource, which the path leads to."""
        async with aclosing(self._snapshot.member_ids(relationship, id_)) as chunks:
            async for ids in chunks:
                self._linked[path].update(ids)
                yield ids

    async def _read_streamed(self, end: PathEnd, records: Sequence[Record]) -> None:
        """Read the ids that resources link to which are not shown again."""
        for name in end.include:
            links = self._linkage[end.type.type][name]
            for linked in [links[record[ID]] for record in records]:
                if isinstance(linked, StreamedIds):
                    async for _ in linked.chunks:
                        pass

    async def _read(self, resource_type: ResourceType, ids: Sequence[int]) -> list[Record]:
        """Return the records with these ids."""
        loaded = self._loaded[resource_type.type]
        if unknown := [id_ for id_ in ids if id_ not in loaded]:
            shown = self._query.shown(resource_type)
            found = await self._snapshot.read_by_ids(resource_type, unknown, shown)
            if len(unknown) == len(ids):
                return found
            loaded = loaded | {record[ID]: record for record in found}
        return [loaded[id_] for id_ in ids if id_ in loaded]

    def _keep(self, resource_type: ResourceType, records: Sequence[Record]) -> None:
        """Keep records until they are too many."""
        if self.is_kept:
            self._loaded[resource_type.type].update({record[ID]: record for record in records})
            self._size += len(records)
            if self._limit is not None and self._size > self._limit:
                self._forget()

    def _forget_linkage(self) -> None:
        """Collect linkage anew, for parts that show only their own."""
        self._linkage: dict[str, dict[str, dict[int, LinkedIds]]]
        self._linkage = defaultdict(lambda: defaultdict(dict))

    def _forget(self) -> None:
        """Keep only ids from now on."""
        if self.is_kept:
            self.is_kept = False
            self._loaded.clear()
            self._linked = defaultdict(IdBitset, _bitsets(self._linked))
            self._shown = defaultdict(IdBitset, _bitsets(self._shown))


def _bitsets(sets: Mapping[Any, _Ids]) -> Iterator[tuple[Any, IdBitset]]:
    return ((name, IdBitset(ids)) for name, ids in sets.items())
