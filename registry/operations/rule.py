"""What the rules of stored data share: what a rule is, and how it reads a snapshot."""

import reprlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import bson
from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorCollection
from pymongo import ASCENDING

from registry.model.record import Record
from registry.model.resource_type import ResourceType
from registry.storage import Database

_BATCH_SIZE = 1_000
"""Records that a scan holds in memory."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that is stored and wrong.

    place, id: the collection and the id of a record; the id is None for anything else. reason: what
    is wrong, in one line. value: what is stored, if `Rule.repair` needs it.
    """

    place: str
    id: Any
    reason: str
    value: Any = None

    def __str__(self) -> str:
        place = self.place if self.id is None else f"{self.place}/{shown(self.id)}"
        return f"{place}: {self.reason}"


class Rule:
    """One thing that the records of a type have to satisfy. The methods raise PyMongoError."""

    def __init__(self, database: Database, resource: ResourceType) -> None:
        self._database = database
        self._resource = resource
        self._records = database[resource.collection]

    def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield all violations in the snapshot of a session, with constant memory."""
        raise NotImplementedError

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Store what is right, where other data say it; otherwise an operator has to."""


async def scan(
    collection: AsyncIOMotorCollection[Record],
    query: Record,
    order: Sequence[str],
    session: AsyncIOMotorClientSession,
    fields: Iterable[str] = (),
) -> AsyncIterator[list[Record]]:
    """Yield batches of the records that satisfy a query, in the order of some fields.

    fields: those to return beside these. Raises PyMongoError.
    """
    # A cursor that decodes each record on its own takes several times as long.
    cursor = collection.find_raw_batches(
        query,
        [*order, *fields],
        sort=[(field, ASCENDING) for field in order],
        batch_size=_BATCH_SIZE,
        allow_disk_use=True,  # while the index is not yet built
        session=session,
    )
    async for batch in cursor:
        yield bson.decode_all(batch, collection.codec_options)


def shown(value: Any) -> str:
    """Return a stored value, which external writers may have made long, as a part of a line."""
    return reprlib.repr(value)
