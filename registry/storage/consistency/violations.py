"""Violations of the consistency of stored data, and the rules that they violate."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from motor.motor_asyncio import AsyncIOMotorClientSession


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that is stored and wrong.

    place: what has it, such as `computers/7`. reason: what is wrong, in one line. id, value: what
    `Rule.repair` needs: the stored id, and the value that is wrong.
    """

    place: str
    reason: str
    id: Any
    value: Any = None

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


class Rule(Protocol):
    """One thing that stored data have to satisfy. The methods raise PyMongoError."""

    def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield all violations in the snapshot of a session, with constant memory."""

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Store what is right, as far as other data say it.

        The service may be writing: what it has written since the snapshot stays as it is.
        """
