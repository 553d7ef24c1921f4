"""What requests cost MongoDB, as its profiler records it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support import Database


class Profile(list[dict[str, Any]]):
    """The commands that read the collections of resources, in their order; no change streams."""

    @property
    def examined(self) -> int:
        """The number of index keys or of documents that were examined, whichever is greater."""
        return max(self.total("keysExamined"), self.total("docsExamined"))

    @property
    def returned(self) -> list[int]:
        """How many records each command has returned."""
        return [command["nreturned"] for command in self]

    @property
    def scans_collection(self) -> bool:
        return any("COLLSCAN" in command.get("planSummary", "") for command in self)

    def total(self, field: str) -> int:
        return sum(command.get(field, 0) for command in self)


@asynccontextmanager
async def profiled(database: Database, *collections: str) -> AsyncIterator[Profile]:
    """Yield the profile of what happens in the context, filled at its end."""
    profile = Profile()
    await database.command("profile", 2)
    yield profile
    await database.command("profile", 0)
    reads = {"ns": {"$in": [f"{database.name}.{collection}" for collection in collections]}}
    commands = await database.system.profile.find(reads).sort("ts", 1).to_list(None)
    # The service polls change streams whenever it is time to.
    profile += [command for command in commands if "$changeStream" not in str(command)]
    await database.system.profile.drop()
