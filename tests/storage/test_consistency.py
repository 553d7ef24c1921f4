"""The check of stored data: what external writers and damage can break, found and repaired."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from pymongo import MongoClient

from registry.commands.database import check as check_command
from registry.model.graph import Graph
from registry.model.implicit_attributes import LASTING
from registry.operations.consistency import Report, check
from registry.operations.rules import TargetsExist, Violation
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongo.read_commands import SNAPSHOT_UNAVAILABLE
from tests.mongods import mongod_with_fail_points
from tests.support import Api, Database, new, set_counters

GRAPH = Graph(RESOURCES)

Break = Callable[[Database], Awaitable[object]]


def set_in(collection: str, id_: Any, **fields: Any) -> Break:
    """Return a function that sets fields of a stored document, as an external writer would."""
    return lambda database: database[collection].update_one(
        {"_id": id_}, {"$set": fields}, bypass_document_validation=True
    )


def unset_in(collection: str, id_: Any, field: str) -> Break:
    return lambda database: database[collection].update_one({"_id": id_}, {"$unset": {field: ""}})


def delete_from(collection: str, id_: int) -> Break:
    async def delete(database: Database) -> None:
        await database[collection].delete_one({"_id": id_})
        await set_counters(database)

    return delete


def add_period(copied: int | None = None, **fields: int) -> Break:
    """Return a function that stores an assignment in force. copied: one that begins with it."""

    async def add(database: Database) -> None:
        same = await database.assignments.find_one({"_id": copied}) or {}
        since = same.get("since", datetime(2026, 3, 15, tzinfo=UTC))
        period = {"_id": 2, "since": since, "until": LASTING}
        await database.assignments.insert_one(period | fields)
        await set_counters(database)

    return add


BROKEN: Sequence[tuple[Break, *tuple[str, ...]]] = [
    (
        set_in("computers", 2, person=99),
        "computers/2: owner is 99, a person that does not exist",
        "computers/2: owner has no assignment",
    ),
    (
        delete_from("persons", 1),
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
        set_in("persons", 2, full_name="Somebody Else"),
        "persons/2: full_name does not follow from first_name, last_name",
    ),
    (set_in("computers", 2, person=1), "computers/2: owner has no assignment"),
    (set_in("computers", 1, person=None), "computers/1: assignment 1 is in force without a link"),
    (
        set_in("computers", 1, person=2),
        "computers/1: assignment 1 is in force without a link; owner has no assignment",
    ),
    (
        delete_from("assignments", 1),
        "computers/1: owner has no assignment",
    ),
    (
        delete_from("computers", 1),
        "computers/1: assignment 1 is in force without a link",
    ),
    (add_period(computer=2), "computers/2: assignment 2 is in force without a link"),
    (add_period(computer=1, owner=1), "computers/1: assignment 2 overlaps 1"),
    (add_period(computer=1, owner=1, copied=1), "computers/1: assignment 1 overlaps 2"),
    (set_in("computers", 1, owner_period=9), "computers/1: owner_period is 9 instead of 1"),
]
"""How to break a database of three persons, the first of whom owns the first of two computers, and
what the check then reports."""

ACCEPTED: Mapping[str, Break] = {
    "nothing": set_in("persons", 99),
    "a link that is missing": unset_in("computers", 2, "person"),
    "a version that is missing": unset_in("persons", 1, "version"),
    "a computed attribute that is missing": unset_in("persons", 2, "full_name"),
    "a computed attribute that is null": set_in("persons", 2, full_name=None),
    "authorship that is null": set_in("persons", 3, created_at=None, email=None),
}


@pytest.fixture
async def small(api: Api, database: Database) -> Database:
    """A database with three persons and two computers, of which the first person owns the first."""
    for name in ("Grace", "Ada", "Alan"):
        await api.person(name)
    await api.computer("SN-1", owner="1")
    await api.computer("SN-2")
    return database


def lines(report: Report) -> list[str]:
    return [str(violation) for rule in report.rules for violation in rule.listed]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case[1])
async def test_violations_are_reported_and_repaired(small: Database, case: Any) -> None:
    break_, *expected = case
    await break_(small)
    report = await check(small, GRAPH)
    assert (report.total, lines(report)) == (len(expected), expected)
    assert lines(await check(small, GRAPH, repair=True)) == expected
    assert lines(await check(small, GRAPH)) == []


@pytest.mark.parametrize("case", ACCEPTED)
async def test_data_that_services_accept_are_consistent(small: Database, case: str) -> None:
    await ACCEPTED[case](small)
    assert lines(await check(small, GRAPH)) == []


@pytest.mark.parametrize(
    ("wrong", "lines_after"),
    [
        ({"_id": "x", "serial": "S"}, ["_id is of the type str instead of int or long"]),
        ({"_id": 0, "serial": "S"}, ["_id is 0"]),
        ({"_id": 9}, ["serial is missing instead of string"]),
        (
            {"_id": 9, "serial": 7, "version": -1, "person": 1.0},
            [
                "serial is of the type int instead of string; person is of the type float "
                "instead of int or long or null; version is -1"
            ],
        ),
    ],
)
async def test_violations_that_only_an_operator_can_repair_stay_reported(
    small: Database, wrong: dict[str, Any], lines_after: list[str]
) -> None:
    await small.counters.update_one({"_id": "computer"}, {"$set": {"last": 9}})
    await small.computers.insert_one(wrong, bypass_document_validation=True)
    await check(small, GRAPH, repair=True)
    place = f"computers/{wrong['_id']!r}"
    assert lines(await check(small, GRAPH)) == [f"{place}: {line}" for line in lines_after]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"first_name": ""}, "first_name is not valid: Length must be between 1 and 255."),
        ({"email": "a"}, "email is not valid: Not a valid e-mail address. "),
    ],
)
async def test_a_value_that_no_request_may_set_is_reported(
    small: Database, fields: dict[str, Any], line: str
) -> None:
    await small.persons.update_one({"_id": 2}, {"$set": fields, "$unset": {"full_name": ""}})
    (found,) = lines(await check(small, GRAPH, repair=True))
    assert found.startswith(f"persons/2: {line}")
    assert lines(await check(small, GRAPH)) == [found]


async def test_many_violations_are_counted_and_the_first_are_listed(small: Database) -> None:
    await small.computers.insert_many(
        {"_id": id_, "serial": "SN", "person": 99} for id_ in range(100, 2_600)
    )
    await set_counters(small)
    report = await check(small, GRAPH, repair=True)
    assert report.total == 2 * 2_500, "each link leads nowhere, and has no assignment"
    assert report.records == {"persons": 3, "computers": 2_502, "assignments": 1}
    assert [line.partition(":")[0] for line in lines(report)] == [
        *(f"computers/{id_}" for _ in range(2) for id_ in range(100, 120))
    ]
    assert (await check(small, GRAPH)).total == 0


async def test_a_repair_keeps_what_was_written_since_the_check(small: Database) -> None:
    (link,) = GRAPH["computer"].links
    links = TargetsExist(small, GRAPH["computer"], link, GRAPH)
    await links.repair([Violation("computers", 1, "", 99)])  # the link leads to person 1 by now
    await small.computers.update_one({"_id": 2}, {"$set": {"person": 3}})
    await links.repair([Violation("computers", 2, "", 3)])  # person 3 exists by now
    stored = await small.computers.find().sort("_id").to_list(None)
    assert [one["person"] for one in stored] == [1, 3]


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
            assert lines(await check(small, GRAPH)) == []
        is_done.set()
    assert next(numbers) > 20


@pytest.mark.slow
async def test_an_index_that_lacks_records_is_reported(mongodb_uri: str) -> None:
    async with mongod_with_fail_points(mongodb_uri) as client:
        database = client.registry
        await database.computers.create_index([("serial", 1), ("_id", 1)])
        counter = {"last": 2, "count": 1, "deleted": {"0": 1}}  # counted along the index
        await database.counters.insert_one({"_id": "computer", **counter})
        await database.computers.insert_one({"_id": 1, "serial": "SN-1", "version": 1})
        await client.admin.command("configureFailPoint", "skipIndexNewRecords", mode="alwaysOn")
        await database.computers.insert_one({"_id": 2, "serial": "SN-2", "version": 1})
        report = await check(database, GRAPH)
    assert lines(report) == [
        "computers: the index _id_ has 1 of 2 records: restore a backup",
        "computers: the index serial_1__id_1 has 1 of 2 records: drop it and start the service",
    ]


@pytest.mark.slow
async def test_a_check_begins_again_where_its_snapshot_is_not_available(mongodb_uri: str) -> None:
    async with mongod_with_fail_points(mongodb_uri) as client:
        await client.registry.computers.insert_one({"_id": 1, "serial": "SN-1", "version": 1})
        failure = {"failCommands": ["find", "aggregate"], "errorCode": SNAPSHOT_UNAVAILABLE}
        mode = {"times": 3}
        await client.admin.command("configureFailPoint", "failCommand", mode=mode, data=failure)
        report = await check(client.registry, GRAPH)
    assert lines(report) == ["counters/computer: last is 0 instead of 1, count is 0 instead of 1"]


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

    stored.computers.insert_many({"_id": id_, "serial": "S", "person": 99} for id_ in range(1, 24))
    with pytest.raises(SystemExit) as caught:
        check_command([])
    output, notes = capsys.readouterr()
    assert caught.value.code == 1
    assert len(output.splitlines()) == 22
    assert "\n... and 3 more of this kind\n" in output
    assert notes == f"Checked 0 persons, 23 computers, 0 assignments of {place}: 24 inconsistent\n"

    check_command(["--repair"])
    output, notes = capsys.readouterr()
    assert "counters/computer: last is 0 instead of 23, count is 0 instead of 23\n" in output
    last = f"Checked 0 persons, 23 computers, 0 assignments of {place}: consistent"
    assert notes.splitlines()[-1] == last


def test_the_command_refuses_a_database_that_is_partly_restored(
    stored: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.incomplete_restore.insert_one({})
    with pytest.raises(SystemExit, match="1"):
        check_command([])
    assert "has only a part of a backup" in capsys.readouterr().err
