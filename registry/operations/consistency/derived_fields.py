"""The rule that the fields of a record that follow from others, or from its history, are right."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.record import VERSION
from registry.model.resource_type import ResourceType
from registry.model.stored_fields import ID
from registry.operations.consistency.violations import Violation
from registry.storage import CURRENT_VERSION, Database, computed_texts, recompute


class DerivedFieldsAreRight:
    """Computed attributes are stored as their parts say; versions are integers from 0 up.

    A record without a version, by an external writer, has the version 0.
    """

    def __init__(self, database: Database, resource: ResourceType) -> None:
        self._resource = resource
        self._records = database[resource.collection]

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield a violation for each record with such fields; MongoDB compares them."""
        right = {**computed_texts(self._resource), VERSION: CURRENT_VERSION}
        given: dict[str, Any] = {name: f"${name}" for name in right}
        given[VERSION] = {"$ifNull": [f"${VERSION}", 0]}
        wrong = {name: {"$ne": [given[name], right[name]]} for name in right}
        stages = [{"$match": {"$expr": {"$or": list(wrong.values())}}}, {"$project": wrong}]
        async for record in self._records.aggregate(stages, session=session):
            names = [name for name in right if record[name]]
            reason = "; ".join(map(self._reason, names))
            yield Violation(self._resource.collection, record[ID], reason, names)

    def _reason(self, name: str) -> str:
        if name == VERSION:
            return f"{VERSION} is not an integer from 0 up"
        return f"{name} does not follow from {', '.join(self._resource.computed[name].parts)}"

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Compute the fields from the records as they are now; this changes no response."""
        computed = [one.id for one in violations if self._resource.computed.keys() & one.value]
        if computed:
            await self._records.update_many({ID: {"$in": computed}}, recompute(self._resource))
        versions = [one.id for one in violations if VERSION in one.value]
        update = {"$set": {VERSION: CURRENT_VERSION}}
        await self._records.update_many({ID: {"$in": versions}}, [update])
