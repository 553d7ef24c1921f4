"""The change feed has transactions as a whole, whatever else they change."""

from tests.feed import following
from tests.support import Api, Database, complete_record

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
