"""The commands that create and update records of one type, each with a time limit on the server.

The driver does not retry them: the `write_id` of the records shows whether a lost command was
executed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pymongo.errors import OperationFailure

from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.client import Database
from registry.storage.command_durations import observed
from registry.storage.reads.commands import ReadCommands
from registry.storage.records import one_of

MILLISECONDS = 5_000
"""The time limit of a command, shorter than the wait of the client: once the client gives up, the
server has ended the command."""

_TIMEOUTS = {50, 64}
"""Error codes of a write that the majority has not acknowledged within a time limit."""


WriteError: TypeAlias = Mapping[str, Any]
"""An element of `writeErrors`, as MongoDB returns it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to a write.

    count: records inserted or modified. errors: the write error of each rejected record or
    statement of the command, by index. is_acknowledged: whether the majority has acknowledged it in
    time.
    """

    count: int
    errors: Mapping[int, WriteError]
    is_acknowledged: bool


class WriteCommands:
    """The commands for one type. The methods raise PyMongoError."""

    def __init__(self, database: Database, reads: ReadCommands, resource: Resource) -> None:
        self._database = database
        self._reads = reads
        self._collection = resource.collection
        self._write_concern = database.write_concern.document

    async def find(self, ids: Sequence[int], projection: Mapping[str, Any]) -> list[Record]:
        """Return the records with these ids, as the majority has acknowledged them."""
        if not ids:
            return []
        found = await self._reads.find(self._collection, {"_id": one_of(ids)}, projection)
        return found.records

    async def insert(self, records: Sequence[Record], milliseconds: int = MILLISECONDS) -> Reply:
        """Insert records, all but the rejected ones.

        milliseconds: the time limit of the command. Raises ExecutionTimeout after it; some records
        may have been inserted by then.
        """
        return await self._write(
            {"insert": self._collection, "documents": records, "ordered": False}, "n", milliseconds
        )

    async def update(self, statements: Sequence[Mapping[str, Any]], milliseconds: int) -> Reply:
        """Update records by all statements but the rejected ones.

        milliseconds: the time limit of the command. Raises ExecutionTimeout after it; some records
        may have been updated by then.
        """
        return await self._write(
            {"update": self._collection, "updates": statements, "ordered": False},
            "nModified",
            milliseconds,
        )

    async def _write(self, command: dict[str, Any], counter: str, milliseconds: int) -> Reply:
        limits = {"maxTimeMS": milliseconds, "writeConcern": self._write_concern}
        options = self._database.codec_options
        sent = self._database.command({**command, **limits}, codec_options=options)
        reply = await observed(next(iter(command)), sent)
        error = reply.get("writeConcernError")
        if error and error["code"] not in _TIMEOUTS:
            raise OperationFailure(error["errmsg"], error["code"], error)
        errors = {each["index"]: each for each in reply.get("writeErrors", ())}
        return Reply(reply[counter], errors, not error)
