"""The change feed reads transactions as a whole, and converts each event once."""

from __future__ import annotations

from typing import Any

from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.storage.mongo.change_feed import ChangeFeed, ClusterTime, Commit
from tests.support import Database


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
