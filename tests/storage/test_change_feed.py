"""The change feed reads transactions as a whole, and converts each event once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.storage.mongo import change_feed
from registry.storage.mongo.change_feed import ChangeFeed, ClusterTime, Commit
from registry.storage.mongo.change_streams import ChangeStream
from tests.support import CommandLog, Database


async def now(database: Database) -> ClusterTime:
    time: ClusterTime = (await database.command("hello"))["operationTime"]
    return time


async def insert_together(database: Database, *inserted: tuple[str, list[Any]]) -> None:
    """Insert documents into collections in one transaction."""
    async with await database.client.start_session() as session, session.start_transaction():
        for collection, documents in inserted:
            await database[collection].insert_many(documents, session=session)


def persons(*ids: int) -> list[Any]:
    return [{"_id": one, "first_name": "A", "last_name": "B"} for one in ids]


async def next_commits(feed: ChangeFeed) -> list[Commit]:
    while not (commits := await feed.read()):
        pass
    return commits


async def test_a_transaction_is_whole_around_many_other_changes(database: Database) -> None:
    for name in ("persons", "others"):
        await database.create_collection(name)
    feed = ChangeFeed(database, Graph(RESOURCES), await now(database))
    try:
        await feed.read()
        others: list[Any] = [{"text": "x" * 500} for _ in range(60_000)]
        await insert_together(
            database, ("persons", persons(1)), ("others", others), ("persons", persons(2))
        )
        (commit,) = await next_commits(feed)
    finally:
        await feed.close()
    assert [one.id for one in commit.changes] == [1, 2]


async def test_each_event_of_a_large_transaction_is_converted_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "_BATCH_SIZE", 10)
    converted = Counter[int]()
    convert = ChangeFeed._changed_record

    def count(self: ChangeFeed, event: Any) -> Any:
        converted[event["documentKey"]["_id"]] += 1
        return convert(self, event)

    monkeypatch.setattr(ChangeFeed, "_changed_record", count)
    await database.create_collection("persons")
    feed = ChangeFeed(database, Graph(RESOURCES), await now(database))
    ids = [*range(1, 201)]
    try:
        await feed.read()
        await insert_together(database, ("persons", persons(*ids)))
        (commit,) = await next_commits(feed)
    finally:
        await feed.close()
    assert [one.id for one in commit.changes] == ids
    assert converted == Counter(ids)


async def test_a_change_stream_that_is_cancelled_while_it_closes_ends_its_session(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = ChangeStream(database, None, [], 1)
    await stream.open(await now(database), 10)
    session = stream._session
    assert session

    async def cancelled(*_: Any, **__: Any) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(type(database), "command", cancelled)
    with pytest.raises(asyncio.CancelledError):
        await stream.close()
    assert session.delegate.has_ended


async def test_a_change_stream_that_was_not_opened_closes_no_cursor(
    database: Database, commands: CommandLog
) -> None:
    stream = ChangeStream(database, None, [{"$unknown": 1}], 1)
    with pytest.raises(OperationFailure):
        await stream.open(await now(database), 10)
    commands.take("all")
    await stream.close()
    assert "killCursors" not in commands.names()
