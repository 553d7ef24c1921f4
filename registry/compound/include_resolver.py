"""Include paths -> the included resources of a compound document, one query per step."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from registry.jsonapi.documents import PLAIN, Compound
from registry.jsonapi.query import Include, IncludePath, Query
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

    Each resource appears once in the document, and not in `included` if it is primary. A foreign
    key of a missing resource counts as null. Raises Unavailable if the database does not respond.
    """
    if query.include is None:
        return PLAIN
    resolver = _IncludeResolver(query, repository, graph)
    resolver.records[resource.type] = {record["_id"]: record for record in records}
    await resolver.resolve(resource, records, query.include)
    return Compound(resolver.linkage, resolver.included)


async def resolve_linkage(
    relationship: Relationship,
    records: Sequence[Record],
    query: Query,
    repository: Repository,
    graph: Graph,
) -> Compound:
    """Return the included resources when the primary data are identifiers of the records.

    relationship: leads to the records, and is the first step of each include path. Raises as
    `resolve` does.
    """
    if query.include is None:
        return PLAIN
    resolver = _IncludeResolver(query, repository, graph)
    if relationship.name in query.include:
        target = graph[relationship.target]
        resolver.add_included(target, records)
        subtree = query.include[relationship.name]
        await resolver.resolve(target, records, subtree, (relationship.name,))
    return Compound(resolver.linkage, resolver.included)


class _IncludeResolver:
    """Resolves the include paths of one document; each resource is loaded at most once.

    records: those in the document, by type and id.
    """

    def __init__(self, query: Query, repository: Repository, graph: Graph) -> None:
        self._query = query
        self._repository = repository
        self._graph = graph
        self.records: dict[str, dict[int, Record]] = defaultdict(dict)
        self.included: dict[str, list[Record]] = defaultdict(list)
        self.linkage: dict[str, dict[str, dict[int, LinkedIds]]] = defaultdict(
            lambda: defaultdict(dict)
        )

    def add_included(self, resource: Resource, records: Iterable[Record]) -> None:
        """Include the records that are not in the document yet."""
        known = self.records[resource.type]
        new = {id_: record for record in records if (id_ := record["_id"]) not in known}
        known |= new
        self.included[resource.type] += new.values()

    async def resolve(
        self,
        resource: Resource,
        records: Iterable[Record],
        include: Include,
        path: IncludePath = (),
    ) -> None:
        """Resolve the include tree below these records. path: the steps that lead to them."""
        for name, subtree in include.items():
            relationship, subpath = resource.relationships[name], (*path, name)
            if relationship.to_many:
                size = self._query.include_sizes.get(subpath)
                related = await self._resolve_to_many(resource, records, relationship, size)
            else:
                related = await self._resolve_to_one(resource, records, relationship)
            await self.resolve(self._graph[relationship.target], related, subtree, subpath)

    async def _resolve_to_one(
        self, resource: Resource, records: Iterable[Record], relationship: Relationship
    ) -> list[Record]:
        target, known = self._graph[relationship.target], self.records[relationship.target]
        keys = {record["_id"]: key_of(record, relationship.foreign_key) for record in records}
        targets = {key for key in keys.values() if key is not None}
        if unknown := targets - known.keys():
            attributes = self._query.attributes(target)
            loaded = await self._repository.find(target, "_id", unknown, attributes)
            self.add_included(target, loaded)
        if missing := targets - known.keys():
            keys = {id_: None if key in missing else key for id_, key in keys.items()}
        self.linkage[resource.type][relationship.name].update(keys)
        return [known[key] for key in targets - missing]

    async def _resolve_to_many(
        self,
        resource: Resource,
        records: Iterable[Record],
        relationship: Relationship,
        size: int | None,
    ) -> list[Record]:
        """Return the members. size: the maximum per record."""
        target, key = self._graph[relationship.target], relationship.foreign_key
        members: dict[int, list[Record]] = {record["_id"]: [] for record in records}
        if not members:
            return []
        attributes = self._query.attributes(target)
        if size is None:
            related = await self._repository.find(target, key, members.keys(), attributes)
        else:  # one more reveals whether others follow
            related = await self._repository.find_first(
                resource, relationship, list(members), size + 1, attributes
            )
        for record in related:
            if (owner := key_of(record, key)) in members:
                members[owner].append(record)
        first = [record for group in members.values() for record in group[:size]]
        self.add_included(target, by_id(first))
        linkage = self.linkage[resource.type][relationship.name]
        for owner, group in members.items():
            ids = [record["_id"] for record in group[:size]]
            linkage[owner] = ids if size is None else FirstPage(ids, size, len(group) > size)
        return first
