"""The verbs on stored resources: get, find, list, insert, update, delete, execute."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from pymongo import ASCENDING, IndexModel

from registry.jsonapi.atomic_operations import Operation, Verb
from registry.jsonapi.errors import NotFound, Unavailable
from registry.jsonapi.filtering import Condition, columns
from registry.jsonapi.pagination import Window
from registry.jsonapi.query import Query
from registry.jsonapi.request_documents import Change
from registry.model.graph import Graph
from registry.model.operators import Operator
from registry.model.record import Record
from registry.model.resource import Relationship, Resource
from registry.model.stored_fields import stored_fields
from registry.storage.batching import Coalescer
from registry.storage.client import answering_unavailable
from registry.storage.commands import Commands
from registry.storage.projections import fields_of, visible_fields
from registry.storage.reads.listings import Listing
from registry.storage.reads.lookups import Lookups, Members
from registry.storage.reads.range_scans import RangeScans
from registry.storage.records import Versions, joining
from registry.storage.transactions import Transactions
from registry.storage.writes.attribute_writes import AttributeWrites
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.link_writes import LinkWrites
from registry.storage.writes.unit_of_work import IdTaken
from registry.storage.writes.writer import Writer

_Result = TypeVar("_Result")

Write = Callable[[Writer], Awaitable[_Result]]

_JOINED_AT_ONCE = 10_000
"""Records of other tools that get their joined fields in one step."""

_CALLERS_A_PAGE = 256
"""Requests that are answered with the same page at once."""


class Repository:
    """The resources of one database. Its methods raise Unavailable if that does not answer.

    seconds: how long the database may look for what a filter or an order asks for.
    """

    def __init__(self, commands: Commands, graph: Graph, seconds: float) -> None:
        self._database = database = commands.database
        self._graph = graph
        self._records = {one.type: database[one.collection] for one in graph.values()}
        self._seconds = seconds
        self._counters = Counters(database)
        self._lookups = Lookups(commands)
        self._pages = Coalescer[Window](max_batch_size=_CALLERS_A_PAGE)
        self._range_scans = RangeScans(commands, graph)
        self._singles = AttributeWrites(commands, graph, self._counters)
        self._transactions = Transactions(database.client)
        self._links = LinkWrites(database, graph, self._transactions)

    async def prepare(self) -> None:
        """Create what is missing, indexes and counters; before anything else is asked for."""
        for resource in self._graph.values():
            indexes = [
                IndexModel([(column, ASCENDING), ("_id", ASCENDING)])
                for column in (one.stored_name for one in stored_fields(resource).values())
                if column != "_id"
            ]
            if indexes:
                await self._records[resource.type].create_indexes(indexes)
            await self._join(resource)
            await self._counters.prepare(resource)

    async def get(self, resource: Resource, number: int) -> Record | None:
        """Return the record with this id."""
        found = await self._lookups.find(resource, "_id", (number,), visible_fields(resource))
        return found[0] if found else None

    async def find(
        self, resource: Resource, field: str, values: Collection[int], attributes: frozenset[str]
    ) -> list[Record]:
        """Return the records in which the field has one of the values, by rising id.

        attributes: the names of those that are to be in the records.
        """
        columns = fields_of(resource, attributes)
        return await self._lookups.find(resource, field, values, columns)

    async def find_first(
        self,
        resource: Resource,
        relationship: Relationship,
        numbers: Sequence[int],
        most: int,
        attributes: frozenset[str],
    ) -> list[Record]:
        """Return the first records, by rising id, of a to-many relationship of each resource.

        attributes: the names of those that are to be in the records.
        """
        target, column = self._graph[relationship.target], relationship.foreign_key
        found = Members(target, column, most, fields_of(target, attributes))
        return await self._lookups.find_first(resource, numbers, found)

    async def listing(
        self, resource: Resource, query: Query, within: Mapping[str, int] | None = None
    ) -> Listing:
        """Return the collection that a query asks for. within: fields that all of it share."""
        await self._join_for(resource, query)
        common = (Condition(name, Operator.EQ, key) for name, key in (within or {}).items())
        return Listing(
            self._records[resource.type],
            resource,
            self._graph,
            [*common, *query.filters],
            query,
            self._seconds,
            self._pages,
            self._range_scans,
        )

    async def insert(self, resource: Resource, change: Change) -> Record:
        """Store a new resource with its links and return its record.

        Raises ApiErrors with a NotFound for each linkage to a resource that does not exist; then
        nothing is stored.
        """

        async def insert() -> Record:
            if not change.linkages:
                return await self._singles.insert(resource, change)
            with answering_unavailable():
                (number,) = await self._counters.reserve(resource, 1)
            return await self._links.insert(resource, number, change)

        return await self._with_new_ids(insert)

    async def update(
        self, resource: Resource, number: int, change: Change, versions: Versions = None
    ) -> Record | None:
        """Change a resource and its links and return its record, None if there is none.

        What was linked to another resource moves. Raises ApiErrors as `insert` does, or
        PreconditionFailed if the record has none of the versions; then nothing is changed.
        """
        if change.linkages:
            return await self._links.update(resource, number, change, versions)
        if versions is None:
            return await self._singles.update(resource, number, change)
        with answering_unavailable():
            writer = Writer(self._database, self._graph)
            return await writer.update(resource, number, change, versions)

    async def delete(
        self, resource: Resource, number: int, versions: Versions = None
    ) -> Record | None:
        """Delete a resource and the links to it and return its record, None if there is none.

        Raises PreconditionFailed if the record has none of the versions.
        """
        return await self._transact(lambda writer: writer.delete(resource, number, versions))

    async def execute(self, operations: Sequence[Operation]) -> Sequence[Record]:
        """Do all operations in their order, or none; return the record that each one wrote.

        Raises ApiErrors or NotFound, which points at the operation that failed.
        """

        async def execute() -> list[Record]:
            ids = await self._reserve(operations)
            numbered = [operation.with_assigned_ids(ids) for operation in operations]

            async def write(writer: Writer) -> list[Record]:
                return [await _perform(operation, writer) for operation in numbered]

            return await self._transact(write)

        return await self._with_new_ids(execute)

    async def _with_new_ids(self, write: Callable[[], Awaitable[_Result]]) -> _Result:
        """Write, and anew if the counters are behind the ids that another tool has stored."""
        with suppress(IdTaken):
            return await write()
        try:
            with answering_unavailable():
                for resource in self._graph.values():
                    await self._counters.prepare(resource)
            return await write()
        except IdTaken as error:
            raise Unavailable from error

    async def _reserve(self, operations: Sequence[Operation]) -> dict[int, int]:
        """Return the ids of the resources that are created, by those they have in the request."""
        ids: dict[int, int] = {}
        for resource in self._graph.values():
            new = [
                operation.target.id
                for operation in operations
                if operation.verb is Verb.CREATE and operation.resource.type == resource.type
            ]
            if new:
                with answering_unavailable():
                    numbers = await self._counters.reserve(resource, len(new))
                ids.update(zip((number for number in new if number), numbers, strict=True))
        return ids

    async def _transact(self, write: Write[_Result]) -> _Result:
        with answering_unavailable():
            return await self._transactions.run(
                lambda session: write(Writer(self._database, self._graph, session))
            )

    async def _join_for(self, resource: Resource, query: Query) -> None:
        """Store the joined fields that the collection is picked or sorted by."""
        named = {(resource.type, column) for one in query.filters for column in columns(one)}
        for key in query.order:
            named.add((key.relationship.target if key.relationship else resource.type, key.column))
        for name in {name for name, column in named if column in self._graph[name].computed}:
            await self._join(self._graph[name])

    async def _join(self, resource: Resource) -> None:
        """Store the joined fields of records that other tools have written without."""
        records = self._records[resource.type]
        for name in resource.computed:
            with answering_unavailable():
                while found := await records.find({name: None}, {"_id": True}).to_list(
                    _JOINED_AT_ONCE
                ):
                    ids = [record["_id"] for record in found]
                    await records.update_many({"_id": {"$in": ids}}, joining(resource))


async def _perform(operation: Operation, writer: Writer) -> Record:
    resource, target, change = operation.resource, operation.target, operation.change
    found: Record | None = None
    if target.id is not None:
        match operation.verb:
            case Verb.CREATE:
                return await writer.insert(resource, target.id, change)
            case Verb.UPDATE:
                found = await writer.update(resource, target.id, change)
            case Verb.DELETE:
                found = await writer.delete(resource, target.id)
    if found is None:
        raise NotFound.resource(resource.type, target.text, target.pointer)
    return found
