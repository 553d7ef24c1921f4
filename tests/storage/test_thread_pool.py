"""Slow queries leave threads and connections for other commands."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson.timestamp import Timestamp
from motor.motor_asyncio import AsyncIOMotorCursor
from pymongo import CursorType, MongoClient

from registry.jsonapi.query import Query
from registry.jsonapi.request_documents import Change
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.client import connect
from registry.storage.reads import collection_queries
from registry.storage.reads.collection_queries import CollectionQuery, ReadContext
from registry.storage.reads.commands import Command, Commands, Found, PointInTime
from registry.storage.repository import Repository
from registry.storage.thread_pool import THREADS
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
            repository = Repository(own, GRAPH, settings.query_seconds)
            names = {"first_name": "Ada", "last_name": "Lovelace"}
            written = await repository.insert(GRAPH["person"], Change(names, ()))
            assert not any(task.done() for task in slow)
            person = GRAPH["person"]
            stored = await repository.snapshot().get(person, written.record["_id"])
            assert stored["first_name"] == "Ada"
            await own.events.insert_one({"_id": 2})
            await asyncio.gather(*slow)


class HeldCommands(Commands):
    """Commands whose replies arrive when the test says so."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.arrived: list[asyncio.Event] = []

    async def run(self, _: Command, time: Timestamp | None = None) -> Found:
        self.arrived.append(asyncio.Event())
        await self.arrived[-1].wait()
        return Found([], time or Timestamp(1, 1))


async def test_collection_queries_in_flight_are_limited(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_queries, "_MAX_QUERIES", 2)
    commands = HeldCommands(database)
    context = ReadContext(commands, GRAPH, 5.0)
    queries = [CollectionQuery(context, GRAPH["person"], [], Query(), PointInTime())] * 5
    tasks = [asyncio.create_task(query.count()) for query in queries]
    await asyncio.sleep(0)
    assert len(commands.arrived) == 2
    commands.arrived[0].set()
    await tasks[0]
    await asyncio.sleep(0)
    assert len(commands.arrived) == 3
    while not all(task.done() for task in tasks):
        for arrived in commands.arrived:
            arrived.set()
        await asyncio.sleep(0)
    assert [task.result() for task in tasks] == [0] * 5


def test_the_collection_queries_leave_half_of_the_threads() -> None:
    assert collection_queries._MAX_QUERIES * 2 <= THREADS
