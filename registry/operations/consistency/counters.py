"""The rule that ids are never reused: the counter of each type is at least its greatest id."""

from collections.abc import AsyncIterator, Sequence

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.resource_type import ResourceType
from registry.operations.consistency.violations import Violation, shown
from registry.storage import Database, greatest_id


class CounterIsAhead:
    """The counter of a type is an integer that is not less than the greatest id."""

    def __init__(self, database: Database, resource: ResourceType) -> None:
        self._counters = database.counters
        self._records = database[resource.collection]
        self._resource = resource

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the violation if the counter is missing, not an integer, or less."""
        name = self._resource.type
        counter = await self._counters.find_one({"_id": name}, session=session) or {}
        greatest = await greatest_id(self._records, session)
        last = counter.get("seq")
        if (last is None and not greatest) or (
            isinstance(last, int) and not isinstance(last, bool) and last >= greatest
        ):
            return
        reason = f"{shown(last)} is not an integer from {greatest} up, the greatest id"
        yield Violation(f"counters/{name}", None, reason)

    async def repair(self, _: Sequence[Violation]) -> None:
        """Raise the counter to the greatest id, in one step with what services add to it."""
        last = {"$convert": {"input": "$seq", "to": "long", "onError": 0, "onNull": 0}}
        update = {"seq": {"$max": [last, await greatest_id(self._records)]}}
        name = self._resource.type
        await self._counters.update_one({"_id": name}, [{"$set": update}], upsert=True)
