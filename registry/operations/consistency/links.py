"""The rule that links lead to resources that exist."""

from collections.abc import AsyncIterator, Sequence

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.graph import Graph
from registry.model.resource_type import Link, ResourceType
from registry.model.stored_fields import ID
from registry.operations.consistency.scans import AscendingIds, scan
from registry.operations.consistency.violations import Violation, shown
from registry.storage import Database, key_of, next_version, only


class TargetsExist:
    """The targets of all links of one kind exist.

    A link without a target is removed, as the deletion of the target would have done.
    """

    def __init__(
        self, database: Database, graph: Graph, resource: ResourceType, link: Link
    ) -> None:
        self._collection = resource.collection
        self._records = database[resource.collection]
        self._targets = database[graph[link.target].collection]
        self._link = link

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the records whose foreign key is not the id of a target, by ascending key."""
        field = self._link.foreign_key
        targets = AscendingIds(self._targets, session)
        linked = scan(self._records, {field: {"$ne": None}}, (field,), (field, ID), session)
        async for records in linked:
            for record in records:
                key = key_of(record, field)
                if key is None or not await targets.have(key):
                    yield self._violation(record[ID], record[field])

    def _violation(self, id_: object, value: object) -> Violation:
        reason = f"{self._link.name} is {shown(value)}, a {self._link.target} that does not exist"
        return Violation(self._collection, id_, reason, value)

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Remove the links, unless they have been changed or their targets created since."""
        field = self._link.foreign_key
        values = [one.value for one in violations]
        created = self._targets.find({ID: {"$in": values}}, only(()))
        existing = [record[ID] async for record in created]
        query = {
            ID: {"$in": [one.id for one in violations]},
            field: {"$in": values, "$nin": existing},
        }
        update = {field: None, **next_version({})}
        await self._records.update_many(query, [{"$set": update}])
