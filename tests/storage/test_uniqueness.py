"""Unique indexes: created and dropped at start, and what they cost the other writes."""

import asyncio
import logging
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import ValueTaken
from registry.model.graph import Graph
from registry.operations.backups import Backup, back_up, restore
from registry.program import StartError, new_file
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.indexes import prepare_unique_indexes
from tests.conftest import Serve
from tests.storage.writing import Outcome, Registry
from tests.support import (
    Api,
    CommandLog,
    Database,
    Response,
    complete_record,
    new,
    set_counters,
    to_one,
)

EMAIL, SERIAL = "unique_email_ignoring_case", "unique_serial"


@pytest.fixture
def unique(settings: Settings) -> Settings:
    return replace(settings, unique=("computer.serial", "person.email"))


async def unique_indexes(database: Database) -> set[str]:
    found = [await database[name].index_information() for name in ("persons", "computers")]
    return {name for indexes in found for name, index in indexes.items() if index.get("unique")}


async def start_error(serve: Serve, settings: Settings) -> str:
    with pytest.raises(StartError) as raised:
        await serve(settings=settings)
    assert "\n" not in str(raised.value)
    return str(raised.value)


async def create(api: Api, serial: str, **more: Any) -> Response:
    return await api.post("/computers", new("computer", more, serial=serial))


async def rename(api: Api, id_: str, serial: str, **more: Any) -> Response:
    return await api.patch(f"/computers/{id_}", new("computer", more, serial=serial))


def has_conflict(outcome: Outcome, id_: int) -> bool:
    """Whether a write has failed because the computer with this id has the value."""
    if isinstance(outcome, RequestError):
        (error,) = outcome.errors
        assert isinstance(error, ValueTaken)
        assert error.links == {"about": f"/computers/{id_}"}
        return True
    assert isinstance(outcome, list), outcome
    return False


async def stored_serials(database: Database) -> list[str]:
    return [computer["serial"] async for computer in database.computers.find().sort("_id")]


async def test_the_indexes_follow_the_setting(
    serve: Serve,
    settings: Settings,
    unique: Settings,
    database: Database,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await serve()
    assert await unique_indexes(database) == set()
    other, _ = await asyncio.gather(serve(settings=unique), serve(settings=unique))
    assert await unique_indexes(database) == {EMAIL, SERIAL}
    caplog.clear()
    await serve(settings=replace(settings, unique=("person.email",)))
    assert await unique_indexes(database) == {EMAIL}
    (dropped,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert dropped.message == (
        "Dropped the index unique_serial of computers: the values need not be unique any more"
    )
    graph = Graph(RESOURCES)
    await asyncio.gather(*(prepare_unique_indexes(database, graph) for _ in range(4)))
    assert await unique_indexes(database) == set()
    await other.computer("SN-1")  # which still has the setting


@pytest.mark.usefixtures("_new_database")
async def test_a_start_is_refused_with_a_bounded_list_of_all_duplicates(
    serve: Serve, unique: Settings, database: Database
) -> None:
    long = 'a"\n' + "x" * 200
    serials = ["SN-1"] * 7 + ["SN-2", "SN-3", "SN-2", "sn-3", long, long]
    await database.computers.insert_many(
        [
            complete_record({"_id": number, "serial": serial})
            for number, serial in enumerate(serials, 1)
        ]
    )
    emails = [f"{name}{number}@x.org" for number in range(13) for name in ("Ada", "ada")]
    await database.persons.insert_many(
        complete_record({"_id": number, "email": email})
        for number, email in enumerate([*emails, None, None], 1)
    )
    persons, _, computers = (await start_error(serve, unique)).partition("; ")
    assert computers == (
        "computer.serial cannot be unique, as computers have these values more than once: "
        '"SN-1" (ids 1, 2, 3, 4, 5, …), "SN-2" (ids 8, 10), '
        f'"a\\"\\n{"x" * 77}" (ids 12, 13)'
    )
    assert persons.startswith(
        "person.email cannot be unique, as persons have these values more than once: "
        '"Ada0@x.org" (ids 1, 2), "Ada1@x.org" (ids 3, 4), '
    )
    assert persons.endswith(", …")
    assert persons.count("(ids ") == 10
    assert await unique_indexes(database) == set()
    await database.computers.delete_many({"_id": {"$in": [*range(2, 8), 10, 13]}})
    await database.persons.delete_many({"_id": {"$lt": 100, "$mod": [2, 0]}})
    await serve(settings=unique)


async def test_an_index_that_mongodb_refuses_is_reported(
    serve: Serve, unique: Settings, database: Database
) -> None:
    partial = {"serial": {"$type": "string"}}
    await database.computers.create_index("serial", unique=True, partialFilterExpression=partial)
    error = await start_error(serve, unique)
    assert error.startswith("computer.serial cannot be unique, as MongoDB cannot create the index:")
    assert "already exists with a different name" in error


@pytest.mark.parametrize("kind", ["creation", "update", "link"])
async def test_taken_values_do_not_fail_other_writes(
    serve: Serve, unique: Settings, database: Database, commands: CommandLog, kind: str
) -> None:
    await database.persons.insert_one(
        complete_record({"_id": 1, "first_name": "A", "last_name": "B"})
    )
    records = [{"_id": number, "serial": f"SN-{number}", "version": 1} for number in range(1, 41)]
    await database.computers.insert_many(records)
    await set_counters(database)
    registry = Registry(await serve(settings=unique))
    await registry.repository.catch_up()
    names = ["SN-40" if number % 2 else f"new-{number}" for number in range(39)]
    more: dict[str, Any] = {"owner": 1} if kind == "link" else {}
    requests = [
        registry.create("computer", serial=name)
        if kind == "creation"
        else registry.update(("computer", number), serial=name, **more)
        for number, name in enumerate(names, 1)
    ]
    commands.take("all")
    outcomes = await registry.write_all([request] for request in requests)
    assert [has_conflict(outcome, 40) for outcome in outcomes] == [
        name == "SN-40" for name in names
    ]
    assert not commands.take("abortTransaction")
    written = [name for name in names if name != "SN-40"]
    if kind == "creation":
        assert sorted((await stored_serials(database))[40:]) == sorted(written)
    else:
        pairs = enumerate(names, 1)
        unchanged = {number: f"SN-{number}" for number in range(1, 41)}
        expected = unchanged | {number: name for number, name in pairs if name != "SN-40"}
        assert await stored_serials(database) == list(expected.values())


async def test_values_move_from_one_resource_to_another_in_one_group(
    serve: Serve, unique: Settings, database: Database, commands: CommandLog
) -> None:
    registry = Registry(await serve(settings=unique))
    await registry.repository.catch_up()
    for number in range(1, 7):
        await registry.write(registry.create("computer", serial=f"SN-{number}"))
    commands.take("all")
    requests = [[registry.update(("computer", 1), serial="other")]]
    requests += [[registry.update(("computer", n), serial=f"SN-{n - 1}")] for n in range(2, 6)]
    requests += [[registry.delete(("computer", 6))], [registry.create("computer", serial="SN-6")]]
    assert not [
        result for result in await registry.write_all(requests) if isinstance(result, Exception)
    ]
    expected = ["other", "SN-1", "SN-2", "SN-3", "SN-4", "SN-6"]
    assert await stored_serials(database) == expected
    assert not commands.take("abortTransaction")


async def test_a_transaction_in_progress_with_the_same_value_does_not_fail_the_others(
    serve: Serve, unique: Settings, database: Database
) -> None:
    registry = Registry(await serve(settings=unique))
    async with await database.client.start_session() as session:
        session.start_transaction()
        await database.computers.insert_one(
            complete_record({"_id": 900, "serial": "SN-5"}), session=session
        )
        names = [f"SN-{number}" for number in range(20)]
        tasks = {
            name: asyncio.create_task(registry.write(registry.create("computer", serial=name)))
            for name in names
        }
        blocked = tasks.pop("SN-5")
        await asyncio.gather(*tasks.values())
        assert not blocked.done()
        await session.commit_transaction()
    (outcome,) = await asyncio.gather(blocked, return_exceptions=True)
    assert has_conflict(outcome, 900)
    assert sorted(await stored_serials(database)) == sorted(names)


async def test_a_service_without_the_setting_reports_the_conflicts_of_another(
    serve: Serve, unique: Settings
) -> None:
    other, api = await serve(), await serve(settings=unique)
    await api.computer("SN-1")
    second = await other.computer("SN-2")
    owner = {"owner": to_one(await other.person())}
    for response in (
        await create(other, "SN-1"),
        await create(other, "SN-1", **owner),
        await rename(other, second, "SN-1"),
        await rename(other, second, "SN-1", **owner),
    ):
        assert response.errors == [(409, "/data/attributes/serial")]
    ids = [second, *[await other.computer(f"SN-{number}") for number in range(3, 12)]]
    responses = await asyncio.gather(*(rename(other, id_, "SN-1") for id_ in ids))
    assert {response.status for response in responses} == {409}


async def test_a_backup_is_restored_into_a_database_with_unique_indexes(
    serve: Serve, settings: Settings, unique: Settings, database: Database, tmp_path: Path
) -> None:
    await serve(settings=replace(unique, database=f"{settings.database}_2"))
    other = database.client[f"{settings.database}_2"]
    await database.computers.insert_many(
        [complete_record({"_id": number, "serial": "SN-1"}) for number in (1, 2)]
    )
    with new_file(tmp_path / "backup") as file:
        await back_up(database, file)
    with FileIO(tmp_path / "backup") as file:
        await restore(other, Backup(file))
    assert "(ids 1, 2)" in await start_error(serve, replace(unique, database=other.name))
    await database.client.drop_database(other.name)


async def test_values_are_equal_if_the_index_equates_them(
    serve: Serve, unique: Settings, database: Database, commands: CommandLog
) -> None:
    registry = Registry(await serve(settings=unique))
    letters = [chr(number) for number in range(33, 127) if chr(number) not in '@"(),:;<>[]\\']
    letters += [
        "\u00e9",
        "e\u0301",
        "\u00c9",
        "\uff46",
        "\u00df",
        "ss",
        "\u0130",
        "i\u0307",
        "\u017f",
    ]
    letters += [
        "\ufb01",
        "fi",
        "\u03c3",
        "\u03c2",
        "\u03a3",
        "\u00b2",
        "\u0661",
        "\u1c90",
        "\u10d0",
    ]
    emails = [f"a{letter}b@x.org" for letter in letters]
    commands.take("all")
    outcomes = await registry.write_group(
        [registry.create("person", first_name="A", last_name="B", email=value)] for value in emails
    )
    assert not commands.take("abortTransaction")
    stored = {person["email"] async for person in database.persons.find()}
    options = {"locale": "en", "strength": 2}
    for email, outcome in zip(emails, outcomes, strict=True):
        assert isinstance(outcome, list) == (email in stored)
        assert await database.persons.count_documents({"email": email}, collation=options) == 1
    assert {"a\uff46b@x.org", "ae\u0301b@x.org", "a\u00c9b@x.org"}.isdisjoint(stored)
    assert {"a\u00dfb@x.org", "assb@x.org"} <= stored
