"""Include paths -> the included resources of a compound document, one query per step."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, cast

from registry.jsonapi.documents import PLAIN, Compound
from registry.jsonapi.query import Include, IncludePath, Query
from registry.jsonapi.resource_objects import LinkageById
from registry.model.graph import Graph
from registry.model.record import FirstPage, LinkedIds, Record, ids_in
from registry.model.resource_type import Relationship, ResourceType
from registry.offloading import in_chunks, offload
from registry.storage import Snapshot

Followed: TypeAlias = Mapping[str, Mapping[str, int | None]]
"""Type -> relationship -> members shown per resource, None for all: what include paths follow.

A resource that several paths reach appears once. So it shows every relationship that any path
follows from its type, with as many members as the path with the most.
"""


async def resolve(
    resource: ResourceType,
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
    followed = followed_relationships(resource, include, query, graph, start)
    resolver = _IncludeResolver(query, snapshot, graph, followed)
    resolver.add_primary(resource, records)
    await resolver.resolve(resource, records, include)
    return Compound(resolver.linkage, resolver.included)


async def link(
    resource: ResourceType,
    records: Sequence[Record],
    query: Query,
    snapshot: Snapshot,
    graph: Graph,
    followed: Followed,
) -> LinkageById:
    """Return the linkage of the records alone. Raises as `resolve` does."""
    resolver = _IncludeResolver(query, snapshot, graph, followed)
    await resolver.link(resource, records)
    return resolver.linkage


def followed_relationships(
    resource: ResourceType, include: Include, query: Query, graph: Graph, path: IncludePath = ()
) -> Followed:
    """Return the relationships that the paths of an include tree follow.

    resource: the type that the tree starts at. path: the steps that lead to it.
    """
    followed: dict[str, dict[str, int | None]] = defaultdict(dict)
    for type_name, subpath in _steps(resource, include, graph, path):
        name, size = subpath[-1], query.include_sizes.get(subpath)
        sizes = {size, followed[type_name].get(name, size)}
        followed[type_name][name] = None if None in sizes else max(filter(None, sizes))
    return followed


def _steps(
    resource: ResourceType, include: Include, graph: Graph, path: IncludePath
) -> Iterator[tuple[str, IncludePath]]:
    """Yield each step of an include tree: the type that it starts at, and the path to its end."""
    for name, subtree in include.items():
        subpath = (*path, name)
        yield resource.type, subpath
        target = graph[resource.relationships[name].target]
        yield from _steps(target, subtree, graph, subpath)


class _IncludeResolver:
    """Resolves the include paths of one document; each resource is loaded at most once.

    linkage: of the resources in the document. included: their records, by type.
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

    def add_primary(self, resource: ResourceType, records: Iterable[Record]) -> None:
        """Add the primary resources, which are not included again."""
        self._loaded[resource.type] = {record["_id"]: record for record in records}
        self._in_document[resource.type] = set(self._loaded[resource.type])

    def include(self, resource: ResourceType, records: Iterable[Record]) -> None:
        """Include the records that are not in the document yet."""
        present = self._in_document[resource.type]
        new = {id_: record for record in records if (id_ := record["_id"]) not in present}
        present.update(new)
        self.included[resource.type] += new.values()

    async def resolve(
        self, resource: ResourceType, records: Sequence[Record], include: Include
    ) -> None:
        """Resolve the include tree below these records."""
        await self.link(resource, records)
        for name, subtree in include.items():
            relationship = resource.relationships[name]
            size = len(records) + len(self._loaded[relationship.target])
            add_related = partial(self._add_related, resource, records, relationship)
            related = await offload(add_related, size=size)
            await self.resolve(self._graph[relationship.target], related, subtree)

    def _add_related(
        self, resource: ResourceType, records: Sequence[Record], relationship: Relationship
    ) -> list[Record]:
        """Include the records that these are linked to, and return them."""
        linkage = self.linkage[resource.type][relationship.name]
        loaded = self._loaded[relationship.target]
        linked: Iterable[LinkedIds] = linkage.values()
        if len(linkage) > len(records):  # also that of records of other paths
            linked = [linkage[record["_id"]] for record in records]
        if relationship.to_many:
            ids = set(chain.from_iterable(map(ids_in, linked)))
        else:
            ids = _without_none(linked)
        related = [loaded[id_] for id_ in sorted(ids)]
        self.include(self._graph[relationship.target], related)
        return related

    async def link(self, resource: ResourceType, records: Sequence[Record]) -> None:
        """Load what the records are linked to, unless that was done before."""
        for name, size in self._followed.get(resource.type, {}).items():
            relationship, linkage = resource.relationships[name], self.linkage[resource.type][name]
            new = records
            if linkage:
                new = [record for record in records if record["_id"] not in linkage]
            if relationship.to_many:
                linkage |= await self._link_many(resource, new, relationship, size)
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
        targets = _without_none(keys.values())
        if unknown := targets - loaded.keys():
            attributes = self._query.attributes(target)
            found = await self._snapshot.read_by_ids(target, unknown, attributes)
            loaded |= {record["_id"]: record for record in found}
        if missing := targets - loaded.keys():
            keys |= {id_: None for id_, key in keys.items() if key in missing}
        return cast("dict[int, LinkedIds]", keys)

    async def _link_many(
        self,
        resource: ResourceType,
        records: Sequence[Record],
        relationship: Relationship,
        size: int | None,
    ) -> dict[int, LinkedIds]:
        members: dict[int, list[int]] = {record["_id"]: [] for record in records}
        if not members:
            return {}
        related = await self._find_members(resource, list(members), relationship, size)
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

    async def _find_members(
        self,
        resource: ResourceType,
        ids: Sequence[int],
        relationship: Relationship,
        size: int | None,
    ) -> list[Record]:
        """Return the records linked to those with these ids; of each one, `size` and one more.

        The one more reveals whether others follow.
        """
        attributes = self._query.attributes(self._graph[relationship.target])
        limit = None if size is None else size + 1
        return await self._snapshot.read_members(resource, relationship, ids, attributes, limit)


def _without_none(ids: Iterable[Any]) -> set[int]:
    unique = set(ids)
    unique.discard(None)
    return unique
