"""The change feed has transactions as a whole, and continues whatever else happens."""

from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.storage import ChangeFeed
from tests.feed import following
from tests.support import Api, Database, complete_record
from tests.waiting import eventually

NAMES = {"first_name": "A", "last_name": "B"}


async def test_a_transaction_is_whole_around_many_other_changes(
    api: Api, database: Database
) -> None:
    await database.create_collection("others")
    async with following(api) as feed:
        async with await database.client.start_session() as session, session.start_transaction():
            await database.persons.insert_one(complete_record({"_id": 1, **NAMES}), session=session)
            others = [{"text": "x" * 500} for _ in range(60_000)]
            await database.others.insert_many(others, session=session)
            await database.persons.insert_one(complete_record({"_id": 2, **NAMES}), session=session)
        first, second = [await feed.next() for _ in range(2)]
    assert (first.data["data"]["id"], first.id) == ("1", "")
    assert second.data["data"]["id"] == "2"
    assert second.id


async def test_the_feed_continues_after_the_database_was_dropped(database: Database) -> None:
    await database.persons.insert_one(complete_record({"_id": 1, **NAMES}))
    start = (await database.command("hello"))["operationTime"]
    feed, ids = ChangeFeed(database, Graph(RESOURCES), start), list[int]()

    async def has_read(id_: int) -> bool:
        ids.extend(change.id for commit in await feed.read() for change in commit.changes)
        return id_ in ids

    try:
        await database.persons.insert_one(complete_record({"_id": 2, **NAMES}))
        await database.client.drop_database(database.name)
        await database.persons.insert_one(complete_record({"_id": 3, **NAMES}))
        assert await eventually(lambda: has_read(3), seconds=20)
        assert ids == [2, 3]
    finally:
        await feed.aclose()
