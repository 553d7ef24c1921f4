"""Snapshots: reads that all show the database at one point in time."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import itemgetter

from bson.timestamp import Timestamp

from registry.jsonapi.error_types import NotFound
from registry.model.implicit_attributes import LASTING, UNTIL
from registry.model.record import ID, Record
from registry.model.resource_type import Relationship, ResourceType
from registry.offloading import in_chunks, offload
from registry.storage.mongo.read_commands import Command, Session, aggregate_command
from registry.storage.reads.shared_reads import Reads, split
from registry.storage.records import Stage, fields_of, projection, require_valid, visible_fields


class Snapshot:
    """The resources at one point in time, for one document.

    time: that of the write to show, if there is one. Otherwise the first read determines it, so no
    other may begin before that has returned; the snapshot has every write acknowledged before. The
    methods raise Unavailable, also when the snapshot is older than MongoDB keeps them (five minutes
    by default), or InvalidRecord for a record that is not valid among those that they would return.
    Records are shared with other requests: callers must not modify them, and they may have more
    fields. reads: what all snapshots share.
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
            records, self.time = await self.reads.look_up(
                resource_type, ID, (id_,), fields, self.time
            )
        if not records:
            raise NotFound.resource(resource_type.type, str(id_))
        require_valid(resource_type, records, fields)
        if resource_type.copies:
            records = await self.with_copies(resource_type, records, resource_type.attribute_names)
        return records[0]

    async def read_by_ids(
        self,
        resource_type: ResourceType,
        ids: Collection[int],
        attributes: frozenset[str],
        field: str = ID,
    ) -> list[Record]:
        """Return the records in which a field has one of these ids, by ascending id.

        attributes: names of those to return. field: the id itself, or a foreign key. The ids of
        resources that do not exist are ignored.
        """
        if not ids:
            return []
        fields = fields_of(resource_type, attributes)
        records, self.time = await self.reads.look_up(resource_type, field, ids, fields, self.time)
        records = await _in_order(resource_type, records, fields)
        return await self.with_copies(resource_type, records, attributes)

    async def read_members(
        self,
        resource_type: ResourceType,
        relationship: Relationship,
        ids: Sequence[int],
        attributes: frozenset[str],
        limit: int | None = None,
    ) -> list[Record]:
        """Return the members of a to-many relationship of each resource, by ascending id.

        attributes: names of those to return. limit: return the first members of each resource.
        """
        target, foreign_key = self.reads.graph[relationship.target], relationship.foreign_key
        if limit is None:
            return await self.read_by_ids(target, ids, attributes, foreign_key)
        fields = fields_of(target, attributes)
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
        stages: list[Stage] = [{"$project": projection(())}, {"$lookup": lookup}]
        commands = [
            aggregate_command(resource_type.collection, [{"$match": {ID: {"$in": some}}}, *stages])
            for some in split(ids)
        ]
        owners, self.time = await self.reads.read_unshared(commands, self.time)
        members = [member for owner in owners for member in owner["members"]]
        records = await _in_order(target, members, fields)
        return await self.with_copies(target, records, attributes)

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

    async def with_copies(
        self, resource_type: ResourceType, records: list[Record], names: frozenset[str]
    ) -> list[Record]:
        """Return records with what they copy from related ones, as it is now.

        Periods that have ended have it stored. names: of the attributes to show.
        """
        copies = [one for name, one in resource_type.copies.items() if name in names]
        lasting = [record for record in records if record[UNTIL] == LASTING] if copies else ()
        if not lasting:
            return records
        copied: dict[int, Record] = {record[ID]: dict(record) for record in lasting}
        for end in {one.end for one in copies}:
            relationship = resource_type.relationships[end]
            target, key = self.reads.graph[relationship.target], relationship.foreign_key
            here = [one for one in copies if one.end == end]
            ids = {id_ for record in lasting if (id_ := record.get(key)) is not None}
            found = await self.read_by_ids(target, ids, frozenset(one.source for one in here))
            by_id = {record[ID]: record for record in found}
            for record in lasting:
                if there := by_id.get(record.get(key)):
                    values = {one.parts[0]: target.json_value(one.source, there) for one in here}
                    copied[record[ID]].update(values)
        return [copied.get(record[ID], record) for record in records]


async def _in_order(
    resource_type: ResourceType, records: Sequence[Record], fields: tuple[str, ...]
) -> list[Record]:
    """Return the records by ascending id. Raises InvalidRecord if one is not valid."""
    async for some in in_chunks(records):
        require_valid(resource_type, some, fields)
    return await offload(partial(sorted, records, key=itemgetter(ID)), size=len(records))
