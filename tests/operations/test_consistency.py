"""The check of stored data: what damage can break, found and repaired."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from pymongo import MongoClient

from registry.commands.database import check as check_command
from registry.model.graph import Graph
from registry.operations import consistency
from registry.operations.consistency import check
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.counters import IdCounter, count_records
from registry.storage.mongo.read_commands import SNAPSHOT_UNAVAILABLE
from tests.mongods import mongod_with_fail_points
from tests.support import Api, Database, complete_record, new, set_counters

GRAPH = Graph(RESOURCES)

Break = Callable[[Database], Awaitable[object]]


def set_in(collection: str, id_: Any, **fields: Any) -> Break:
    """Return a function that sets fields of a stored document, whatever its validator says."""
    return lambda database: database[collection].update_one(
        {"_id": id_}, {"$set": fields}, bypass_document_validation=True
    )


def add_period(since: datetime) -> Break:
    """Return a function that stores an assignment of the first computer, in force since then."""

    async def add(database: Database) -> None:
        ends = {"computer": 1, "owner": 2}
        await database.assignments.insert_one({"_id": 2, "since": since, "until": None, **ends})
        for name, id_, number in (("computers", 1, 2), ("persons", 2, 1)):
            await set_in(name, id_, _assignments_count=number)(database)

    return add


BROKEN: Sequence[tuple[Break, str]] = [
    (
        set_in("computers", 2, person=99),
        "computers/2: owner is 99, a person that does not exist",
    ),
    (
        lambda database: database.persons.delete_one({"_id": 1}),
        "computers/1: owner is 1, a person that does not exist",
    ),
    (
        set_in("counters", "person", last=2),
        "counters/person: last is 2 instead of 3",
    ),
    (
        lambda database: database.counters.delete_one({"_id": "computer"}),
        "counters/computer: last is 0 instead of 2, count is 0 instead of 2",
    ),
    (
        set_in("persons", 1, _computers_count=7),
        "persons/1: the number of computers is 7 instead of 1",
    ),
    (
        lambda database: database.persons.update_many({}, {"$unset": {"_computers_count": ""}}),
        "persons/1: the number of computers is 0 instead of 1",
    ),
    (
        set_in("persons", 3, _assignments_count=1),
        "persons/3: the number of assignments is 1 instead of 0",
    ),
    (add_period(datetime(2026, 3, 15, tzinfo=UTC)), "computers/1: assignment 2 overlaps 1"),
    (add_period(datetime(9000, 3, 15, tzinfo=UTC)), "computers/1: assignment 1 overlaps 2"),
]
"""How to break a database of three persons, the first of whom owns the first of two computers, and
what the check then reports."""


@pytest.fixture
async def small(api: Api, database: Database) -> Database:
    """A database with three persons and two computers, of which the first person owns the first."""
    for name in ("Grace", "Ada", "Alan"):
        await api.person(name)
    await api.computer("SN-1", owner="1")
    await api.computer("SN-2")
    return database


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case[1])
async def test_violations_are_reported_and_repaired(
    small: Database, case: tuple[Break, str]
) -> None:
    break_, expected = case
    assert (await check(small, GRAPH)).lines == []
    await break_(small)
    if not expected.startswith("counters"):
        await set_counters(small)
    assert (await check(small, GRAPH, repair=True)).lines == [expected]
    assert (await check(small, GRAPH)).lines == []


async def test_a_repair_of_a_count_keeps_what_is_linked_meanwhile(
    api: Api, small: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_in("persons", 1, _computers_count=7)(small)

    async def linked_after_the_snapshot(*arguments: Any) -> IdCounter:
        await api.set_computers("1", "1", "2")
        return await count_records(*arguments)

    monkeypatch.setattr(consistency, "count_records", linked_after_the_snapshot)
    await check(small, GRAPH, repair=True)
    monkeypatch.undo()
    assert (await check(small, GRAPH)).lines == []


async def test_a_repair_of_a_link_ends_its_period(small: Database) -> None:
    before = await small.computers.find_one({"_id": 1})
    await small.persons.delete_one({"_id": 1})
    await check(small, GRAPH, repair=True)
    record, period = [
        await small[name].find_one({"_id": 1}) for name in ("computers", "assignments")
    ]
    assert before is not None
    assert record is not None
    assert period is not None
    assert (record["person"], record["owner_period"]) == (None, None)
    assert record["version"] == before["version"] + 1
    assert period["until"] < record["owner_changed"] + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"_id": "x", "serial": "S", "version": 1}, "_id"),
        ({"_id": 0, "serial": "S", "version": 1}, "_id"),
        ({"_id": 9, "version": 1}, "serial"),
        ({"_id": 9, "serial": 7, "version": -1, "person": "1"}, "person, serial, version"),
    ],
)
async def test_records_that_do_not_fit_stay_reported(
    small: Database, wrong: dict[str, Any], names: str
) -> None:
    await small.persons.insert_one(complete_record({"_id": "1"}), bypass_document_validation=True)
    await small.computers.insert_one(wrong, bypass_document_validation=True)
    await check(small, GRAPH, repair=True)
    person, line = (await check(small, GRAPH)).lines
    assert person == "persons/1: _id does not fit the type"
    place, _, found = line.removesuffix(" does not fit the type").partition(": ")
    assert place == f"computers/{wrong['_id']}"
    assert sorted(found.split(", ")) == names.split(", ")


async def test_many_violations_are_counted_and_the_first_are_listed(small: Database) -> None:
    await small.computers.insert_many(
        complete_record({"_id": id_, "serial": "SN", "person": 99}) for id_ in range(100, 2_600)
    )
    await set_counters(small)
    report = await check(small, GRAPH, repair=True)
    assert report.total == 2_500
    assert report.records == {"persons": 3, "computers": 2_502, "assignments": 1}
    assert [line.partition(":")[0] for line in report.lines] == [
        *(f"computers/{id_}" for id_ in range(100, 120)),
        "... and 2,480 more of this kind",
    ]
    assert (await check(small, GRAPH)).total == 0


@pytest.mark.slow
async def test_a_database_is_consistent_while_clients_write(api: Api, small: Database) -> None:
    numbers, is_done = count(1), asyncio.Event()

    async def write() -> None:
        while not is_done.is_set():
            number = next(numbers)
            person = await api.person(f"Grace {number}")
            computer = await api.computer(f"SN-{number}", owner=person)
            await api.patch(f"/persons/{person}", new("person", last_name=f"Hopper {number}"))
            deleted = f"/persons/{person}" if number % 2 else f"/computers/{computer}"
            assert (await api.delete(deleted)).status == 204

    async with asyncio.TaskGroup() as tasks:
        for _ in range(8):
            tasks.create_task(write())
        for _ in range(25):
            assert (await check(small, GRAPH)).lines == []
        is_done.set()
    assert next(numbers) > 20


@pytest.mark.slow
async def test_a_check_begins_again_where_its_snapshot_is_not_available(mongodb_uri: str) -> None:
    async with mongod_with_fail_points(mongodb_uri) as client:
        await client.registry.computers.insert_one({"_id": 1, "serial": "SN-1", "version": 1})
        failure = {"failCommands": ["find", "aggregate"], "errorCode": SNAPSHOT_UNAVAILABLE}
        mode = {"times": 3}
        await client.admin.command("configureFailPoint", "failCommand", mode=mode, data=failure)
        report = await check(client.registry, GRAPH)
    assert report.lines == ["counters/computer: last is 0 instead of 1, count is 0 instead of 1"]


@pytest.fixture
def stored(mongodb_uri: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The database of the command, without data."""
    monkeypatch.setenv("MONGODB_URI", mongodb_uri)
    monkeypatch.setenv("REGISTRY_DATABASE", settings.database)
    with MongoClient[Any](mongodb_uri) as client:
        yield client[settings.database]
        client.drop_database(settings.database)


def test_the_command_lists_violations_and_repairs_them(
    stored: Any, mongodb_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_command([])
    place = f"the database {stored.name} at {mongodb_uri}"
    checked = f"Checked 0 persons, 0 computers, 0 assignments of {place}: consistent\n"
    assert capsys.readouterr() == ("", checked)

    stored.computers.insert_many(
        complete_record({"_id": id_, "serial": "S", "person": 99}) for id_ in range(1, 24)
    )
    with pytest.raises(SystemExit) as caught:
        check_command([])
    output, notes = capsys.readouterr()
    assert caught.value.code == 1
    assert len(output.splitlines()) == 22
    assert "\n... and 3 more of this kind\n" in output
    assert notes == f"Checked 0 persons, 23 computers, 0 assignments of {place}: 24 inconsistent\n"

    check_command(["--repair"])
    output, notes = capsys.readouterr()
    assert "counters/computer: last is 0 instead of 23" in output
    last = f"Checked 0 persons, 23 computers, 0 assignments of {place}: consistent"
    assert notes.splitlines()[-1] == last


def test_the_command_refuses_a_database_that_is_partly_restored(
    stored: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.incomplete_restore.insert_one({})
    with pytest.raises(SystemExit, match="1"):
        check_command([])
    assert "has only a part of a backup" in capsys.readouterr().err
