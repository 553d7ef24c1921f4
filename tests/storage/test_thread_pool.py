"""Slow queries leave threads and connections for other commands."""

from __future__ import annotations

import asyncio
from typing import Any

from motor.motor_asyncio import AsyncIOMotorCursor
from pymongo import CursorType, MongoClient

from registry.capacity import THREADS, Capacity
from registry.jsonapi.changes import NEW, Change, Verb, Write
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongo.mongo_client import connect
from registry.storage.repository import Repository
from tests.support import Database

GRAPH = Graph(RESOURCES)
SLOW_QUERIES = THREADS - 10
"""More than motor's default number of threads on a machine with up to 17 cores."""


async def read_two(cursor: AsyncIOMotorCursor[dict[str, Any]]) -> None:
    await cursor.next()
    await cursor.next()


def count_waiting(uri: str, database: str) -> int:
    """Return how many queries are waiting on the server, over a separate connection."""
    with MongoClient[dict[str, Any]](uri) as client:
        stages: list[dict[str, Any]] = [
            {"$currentOp": {}},
            {"$match": {"ns": f"{database}.events", "op": "getmore"}},
        ]
        return len(list(client.admin.aggregate(stages)))


async def test_slow_queries_do_not_block_a_write(
    mongodb_uri: str, settings: Settings, database: Database
) -> None:
    await database.create_collection("events", capped=True, size=4096)
    await database.events.insert_one({"_id": 1})
    async with connect(settings, GRAPH) as own:
        cursors = [
            own.events.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(60_000)
            for _ in range(SLOW_QUERIES)
        ]
        slow = [asyncio.create_task(read_two(cursor)) for cursor in cursors]
        async with asyncio.timeout(60):
            while (  # noqa: ASYNC110 - the server has no event for it
                await asyncio.to_thread(count_waiting, mongodb_uri, settings.database)
                < SLOW_QUERIES
            ):
                await asyncio.sleep(0.05)
            repository = Repository(own, GRAPH, Capacity.of(settings))
            names = {"first_name": "Ada", "last_name": "Lovelace"}
            person = GRAPH["person"]
            (written,) = await repository.write([Write(Verb.ADD, person, NEW, Change(names, ()))])
            assert not any(task.done() for task in slow)
            stored = await repository.snapshot().get(person, written.record["_id"])
            assert stored["first_name"] == "Ada"
            await own.events.insert_one({"_id": 2})
            await asyncio.gather(*slow)
