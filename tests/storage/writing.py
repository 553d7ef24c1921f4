"""Concurrent writes without HTTP, so that it is known which of them share a group."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import zip_longest
from typing import Any, TypeAlias

from registry.http.app_keys import GRAPH
from registry.jsonapi.changes import (
    NEW,
    NO_CHANGE,
    Change,
    Identifier,
    Linkage,
    Verb,
    Versions,
    Write,
)
from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import NotFound
from registry.model.record import Record
from registry.storage.writes.write_requests import IdempotencyKey, WriteResult
from tests.support import Api, Database, complete_record, set_counters

MISSING = 99
"""An id that no resource has."""

Outcome: TypeAlias = "list[WriteResult] | BaseException"
"""What becomes of a request."""

Place: TypeAlias = tuple[str, int]
"""The type and the id of a resource."""


class Registry:
    """The repository of a service, and what it is asked to write."""

    def __init__(self, api: Api) -> None:
        self.repository = api.repository
        self._graph = api.app[GRAPH]

    def create(self, type_name: str, id_: int | None = None, **more: Any) -> Write:
        """Return the write of a new resource. id_: a placeholder, negative."""
        target = NEW if id_ is None else _identifier(id_)
        return Write(Verb.ADD, self._graph[type_name], target, self._change(type_name, more))

    def update(self, place: Place, versions: Versions = None, **more: Any) -> Write:
        """Return the write of attributes, `computers` or `owner`."""
        type_name, id_ = place
        change = self._change(type_name, more)
        return Write(Verb.UPDATE, self._graph[type_name], _identifier(id_), change, versions)

    def delete(self, place: Place) -> Write:
        type_name, id_ = place
        return Write(Verb.REMOVE, self._graph[type_name], _identifier(id_), NO_CHANGE)

    def _change(self, type_name: str, more: dict[str, Any]) -> Change:
        """Return a change of attributes and links. more: also `verb` and `read_only`."""
        relationships = self._graph[type_name].relationships
        verb = more.pop("verb", Verb.UPDATE)
        read_only = more.pop("read_only", {})
        linkages = [
            Linkage(relationships[name], tuple(map(_identifier, _ids(more.pop(name)))), verb)
            for name in relationships
            if name in more
        ]
        return Change(more, tuple(linkages), read_only=read_only)

    async def write(
        self,
        *writes: Write,
        key: str | None = None,
        author: str | None = None,
        client: str | None = None,
    ) -> list[WriteResult]:
        """Apply the writes of one request."""
        idempotency_key = None if key is None else key_of(key, writes)
        return await self.repository.write(writes, idempotency_key, author=author, client=client)

    async def write_all(
        self,
        requests: Iterable[Sequence[Write]],
        keys: Iterable[str] = (),
        authors: Iterable[str | None] = (),
    ) -> list[Outcome]:
        """Apply requests concurrently, which arrive in this order.

        keys, authors: of the first of them.
        """
        return await asyncio.gather(
            *(
                self.write(*writes, key=key, author=author)
                for writes, key, author in zip_longest(requests, keys, authors)
            ),
            return_exceptions=True,
        )

    async def write_group(
        self,
        requests: Iterable[Sequence[Write]],
        keys: Iterable[str] = (),
        authors: Iterable[str | None] = (),
    ) -> list[Outcome]:
        """Apply requests in one group, if there is one at a time: another group is in flight."""
        if (lane := self.repository._group_commit._lane) is not None:
            await asyncio.wait([lane])  # it may wait for requests
        other = asyncio.create_task(self.write(self.delete(("person", MISSING))))
        await asyncio.sleep(0)
        outcomes = await self.write_all(requests, keys, authors)
        await asyncio.wait([other])
        missing = other.exception()
        assert isinstance(missing, RequestError)
        assert [type(error) for error in missing.errors] == [NotFound]
        return outcomes


def key_of(name: str, request: object) -> IdempotencyKey:
    """Return the idempotency key of a request."""
    return IdempotencyKey(name.encode(), repr(request).encode())


async def insert_fleet(
    database: Database, persons: int, computers: int, owner: int | None = None
) -> None:
    """Insert persons and computers, all with this owner, with ids from 1."""
    person = {"first_name": "Ada", "last_name": "Lovelace", "email": None, "version": 1}
    computer = {"serial": "x", "person": owner, "version": 1}
    await database.persons.insert_many(
        complete_record({"_id": number, **person}) for number in range(1, persons + 1)
    )
    await database.computers.insert_many(
        complete_record({"_id": number, **computer}) for number in range(1, computers + 1)
    )
    if owner is not None:
        counted = {"$set": {"_computers_count": computers}}
        await database.persons.update_one({"_id": owner}, counted)
    await set_counters(database)


async def records(database: Database) -> dict[Place, Record]:
    """Return the stored records that have numbers as ids."""
    return {
        (type_name, record["_id"]): record
        for type_name in ("person", "computer")
        async for record in database[f"{type_name}s"].find({"_id": {"$type": "number"}})
    }


@asynccontextmanager
async def locked(database: Database, *places: Place) -> AsyncIterator[None]:
    """Lock records in a transaction of another client, which is then aborted."""
    async with await database.client.start_session() as session:
        session.start_transaction()
        for type_name, id_ in places:
            await database[f"{type_name}s"].update_one(
                {"_id": id_}, {"$set": {"locked": True}}, session=session
            )
        yield
        await session.abort_transaction()


def _identifier(id_: int) -> Identifier:
    return Identifier(id_, str(id_), f"/{id_}")


def _ids(value: int | Iterable[int] | None) -> Iterable[int]:
    if isinstance(value, int):
        return (value,)
    return value or ()
