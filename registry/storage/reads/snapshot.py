"""Snapshots: reads that all show the database at one point in time."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from operator import itemgetter

from bson.timestamp import Timestamp
from pymongo import ASCENDING

from registry.jsonapi.error_types import NotFound
from registry.model.record import ID, Record
from registry.model.resource_type import Relationship, ResourceType
from registry.offloading import offload
from registry.storage.errors import translated_errors
from registry.storage.mongo.read_commands import (
    Command,
    Session,
    aggregate_command,
    find_command,
)
from registry.storage.reads.shared_reads import Reads, TooManyMembers
from registry.storage.records import Stage, fields_of, projection, visible_fields


class Snapshot:
    """The resources at one point in time, for one document.

    time: that of the write to show, if there is one. Otherwise the first read determines it, so no
    other may begin before that has returned; the snapshot has every write acknowledged before. The
    methods raise Unavailable, also when the snapshot is older than MongoDB keeps them (five minutes
    by default). Records are shared with other requests: callers must not modify them, and they may
    have more fields. reads: what all snapshots share.
    """

    __slots__ = ("_session", "reads", "time")

    def __init__(self, reads: Reads, time: Timestamp | None = None) -> None:
        self.reads = reads
        self.time = time
        self._session: Session | None = None

    async def get(self, resource_type: ResourceType, id_: int) -> Record:
        """Return the record with this id. Raises NotFound or Overloaded."""
        fields = visible_fields(resource_type)
        async with self.reads.bulkheads.small_requests:
            records = await self._look_up(resource_type, ID, (id_,), fields)
        if not records:
            raise NotFound.resource(resource_type.type, str(id_))
        return records[0]

    async def read_by_ids(
        self, resource_type: ResourceType, ids: Collection[int], attributes: frozenset[str]
    ) -> list[Record]:
        """Return the records with these ids, by ascending id.

        ids: from one to MAX_IDS; those of resources that do not exist are ignored. attributes:
        names of those to return.
        """
        fields = fields_of(resource_type, attributes)
        return await _in_order(await self._look_up(resource_type, ID, ids, fields))

    async def read_members(
        self,
        resource_type: ResourceType,
        relationship: Relationship,
        ids: Sequence[int],
        attributes: frozenset[str],
        limit: int | None = None,
    ) -> list[Record]:
        """Return the members of a to-many relationship of each resource, by ascending id.

        ids: of the resources, from one to MAX_IDS. attributes: names of those to return. limit:
        return the first members of each resource. Raises TooManyMembers if one query may not return
        as many.
        """
        target, foreign_key = self.reads.graph[relationship.target], relationship.foreign_key
        fields, most = fields_of(target, attributes), self.reads.capacity.members
        if limit is None:
            return await _in_order(await self._look_up(target, foreign_key, ids, fields))
        lookup: Stage = {
            "from": target.collection,
            "localField": ID,
            "foreignField": foreign_key,
            "pipeline": [
                {"$sort": {ID: 1}},
                {"$limit": limit},
                {"$project": projection(fields)},
            ],
            "as": "members",
        }
        stages: list[Stage] = [
            {"$match": {ID: {"$in": ids}}},
            {"$sort": {ID: 1}},
            {"$project": projection(())},
            {"$lookup": lookup},
            {"$unwind": "$members"},
            {"$replaceRoot": {"newRoot": "$members"}},
            {"$limit": most + 1},
        ]
        members = await self._aggregate(resource_type, stages)
        if len(members) > most:
            raise TooManyMembers(members[-1][foreign_key])
        return await _in_order(members)

    async def member_ids(self, relationship: Relationship, id_: int) -> AsyncGenerator[list[int]]:
        """Yield the ids of all members of one resource, ascending, in chunks.

        For responses that have begun: waits for slots of heavy requests as long as it takes.
        """
        target, foreign_key = self.reads.graph[relationship.target], relationship.foreign_key
        sort, size = {foreign_key: ASCENDING, ID: ASCENDING}, self.reads.capacity.members
        command = find_command(
            target.collection, {foreign_key: id_}, projection(()), sort=sort, batchSize=size
        )
        with translated_errors():
            batches = await self.stream(command, size, is_limited=False)
            slots = self.reads.bulkheads.heavy_requests
            async with aclosing(slots.read_each(batches, is_refusable=False)) as chunks:
                async for records in chunks:
                    yield [record[ID] for record in records]

    async def _look_up(
        self,
        resource_type: ResourceType,
        field: str,
        values: Collection[int],
        fields: tuple[str, ...],
    ) -> list[Record]:
        reads = self.reads
        records, self.time = await reads.look_up(resource_type, field, values, fields, self.time)
        return records

    async def _aggregate(self, resource_type: ResourceType, stages: list[Stage]) -> list[Record]:
        command = aggregate_command(resource_type.collection, stages)
        records, self.time = await self.reads.run(command, self.time)
        return records

    @asynccontextmanager
    async def cancellable(self) -> AsyncIterator[None]:
        """Let MongoDB end the commands in this context if the caller is cancelled."""
        async with self.reads.commands.cancellable_session() as session:
            self._session = session
            try:
                yield
            finally:
                self._session = None

    async def run(self, command: Command) -> list[Record]:
        """Return what a command finds within the time limit of a query. Raises PyMongoError."""
        command["maxTimeMS"] = self.reads.milliseconds
        records, self.time = await self.reads.commands.run(command, self.time, self._session)
        return records

    async def stream(
        self, command: Command, batch_size: int, *, is_limited: bool
    ) -> AsyncGenerator[list[Record]]:
        """Return batches of what a command finds. Raises as `run` does.

        is_limited: whether the time limit of a query applies; it would truncate long streams.
        """
        if is_limited:
            command["maxTimeMS"] = self.reads.milliseconds
        self.time = self.time or await self.reads.commands.now()
        return self.reads.commands.stream(command, self.time, batch_size, self._session)


async def _in_order(records: Sequence[Record]) -> list[Record]:
    """Return the records by ascending id."""
    return await offload(partial(sorted, records, key=itemgetter(ID)), size=len(records))
