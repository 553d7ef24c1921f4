"""Violations of the consistency of stored data, and the rules that they violate."""

import reprlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from motor.motor_asyncio import AsyncIOMotorClientSession


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


def shown(value: Any) -> str:
    """Return a stored value, which external writers may have made long, as a part of a line."""
    return reprlib.repr(value)


class Rule(Protocol):
    """One thing that stored data have to satisfy. The methods raise PyMongoError."""

    def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield all violations in the snapshot of a session, with constant memory."""

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Store what is right, as far as other data say it.

        The service may be writing: what it has written since the snapshot stays as it is.
        """
