"""Look-ups of records by id or key, which requests in flight make together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from motor.motor_asyncio import AsyncIOMotorDatabase

from registry.resource import Record, Resource
from registry.storage.client import answering_unavailable
from registry.storage.records import RECORDS_A_REPLY, Stage, by_id, key_of, visible
from registry.storage.sharing import Shared

_Values: TypeAlias = "Collection[int]"

_REQUESTS_A_TRIP = 256
"""Look-ups that leave together."""

_TRIPS_OF_SEVERAL = 2
"""While the service shows what one has found, the database looks for what another wants."""

_VALUES_TO_SHARE = 1_000
"""A look-up of more than these goes alone, or it would hold up those of few."""

_VALUES_A_QUERY = 100_000
"""A query document is limited to 16 MiB; an id takes up to 16 bytes of it."""


class Lookups:
    """The look-ups of one database. Its methods raise Unavailable if that does not answer."""

    def __init__(self, database: AsyncIOMotorDatabase[dict[str, Any]]) -> None:
        self._database = database
        self._shared: dict[tuple[str, str, bool], Shared[_Values, list[Record]]] = {}

    async def find(self, resource: Resource, field: str, values: _Values) -> list[Record]:
        """Return the records in which the field has one of the values, by rising id.

        The records are those of other requests too: nobody may change them.
        """
        if len(values) > _VALUES_TO_SHARE:
            return by_id(await self._query(resource, field, values))
        several = len(values) > 1  # which take longer than whoever looks for one is to wait
        place = resource.type, field, several
        if place not in self._shared:
            send = partial(self._find_each, resource, field)
            trips = _TRIPS_OF_SEVERAL if several else 1
            self._shared[place] = Shared(send, most=_REQUESTS_A_TRIP, trips=trips)
        return await self._shared[place].ask(values)

    async def find_first(
        self, resource: Resource, target: Resource, column: str, numbers: _Values, most: int
    ) -> list[Record]:
        """Return, by rising id, the first records of the target that hold each of the numbers.

        resource: the type whose ids these are. column: of the target.
        """
        members = {
            "from": target.collection,
            "localField": "_id",
            "foreignField": column,
            "pipeline": [{"$sort": {"_id": 1}}, {"$limit": most}, {"$project": visible(target)}],
            "as": "members",
        }
        found: list[Record] = []
        with answering_unavailable():
            for some in _batches(numbers):
                stages: list[Stage] = [
                    {"$match": {"_id": {"$in": some}}},
                    {"$project": {"_id": True}},
                    {"$lookup": members},
                ]
                async for one in self._database[resource.collection].aggregate(stages):
                    found += one["members"]
        return by_id(found)

    async def _find_each(
        self, resource: Resource, field: str, asked: Sequence[_Values]
    ) -> list[list[Record]]:
        records = await self._query(resource, field, {one for some in asked for one in some})
        if field == "_id":  # of which each is there once
            known = {record["_id"]: record for record in records}
            return [[known[one] for one in sorted(values) if one in known] for values in asked]
        found: dict[int, list[Record]] = defaultdict(list)
        for record in records:
            if (value := key_of(record, field)) is not None:
                found[value].append(record)
        return [
            by_id(chain.from_iterable(found[one] for one in values if one in found))
            for values in asked
        ]

    async def _query(self, resource: Resource, field: str, values: _Values) -> list[Record]:
        found: list[Record] = []
        with answering_unavailable():
            if field == "_id" and len(values) == 1:  # for which the driver has a shorter way
                (number,) = values
                record = await self._database[resource.collection].find_one(
                    {"_id": number}, visible(resource)
                )
                return [record] if record else []
            for some in _batches(values):
                query = {field: {"$in": some}}
                cursor = self._database[resource.collection].find(
                    query, visible(resource), batch_size=RECORDS_A_REPLY
                )
                found += await cursor.to_list(None)
        return found


def _batches(values: _Values) -> Iterator[list[int]]:
    wanted = list(values)
    for start in range(0, len(wanted), _VALUES_A_QUERY):
        yield wanted[start : start + _VALUES_A_QUERY]
