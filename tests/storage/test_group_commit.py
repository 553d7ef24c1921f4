"""Concurrent writes share transactions, and one that fails does not affect the others."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from bson.timestamp import Timestamp

from registry.jsonapi.changes import Verb, Write
from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import InvalidField, NotFound, Unavailable
from registry.storage.errors import RecordRefused
from registry.storage.mongo import transactions
from registry.storage.writes import unit_of_work
from registry.storage.writes.unit_of_work import UnitOfWork
from registry.storage.writes.write_requests import WriteRequest, WriteResult
from tests.conftest import Serve
from tests.storage.writing import (
    MISSING,
    Outcome,
    Registry,
    insert_fleet,
    locked,
    records,
)
from tests.support import CommandLog, Database, complete_record
from tests.waiting import eventually

COUNT = 42
"""Persons and computers."""


@pytest.fixture
async def registry(serve: Serve, database: Database) -> Registry:
    await insert_fleet(database, COUNT, COUNT)
    registry = Registry(await serve())
    await registry.write(registry.create("computer", serial="x"))
    await registry.write(registry.create("person", first_name="A", last_name="B"))
    return registry


class Gate:
    """Holds groups that have applied their requests before they store the result, while closed.

    The group that `write_group` begins with passes. held: how many groups are held.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held = 0
        self._opened = threading.Event()
        self.open()
        store = UnitOfWork._store

        def hold(unit: UnitOfWork, outcomes: Sequence[Any]) -> None:
            if any(isinstance(outcome, list) for outcome in outcomes):
                self.held += 1
                self._opened.wait()
                self.held -= 1
            store(unit, outcomes)

        monkeypatch.setattr(UnitOfWork, "_store", hold)

    def close(self) -> None:
        self._opened.clear()

    def open(self) -> None:
        self._opened.set()

    async def holds(self, count: int) -> bool:
        """Return whether it comes to hold so many groups."""

        return await eventually(lambda: self.held == count)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, registry: Registry) -> Iterator[Gate]:
    assert registry, "the gate is open before the service ends"
    gate = Gate(monkeypatch)
    yield gate
    gate.open()


def result_of(outcome: Outcome) -> WriteResult:
    assert isinstance(outcome, list), outcome
    (result,) = outcome
    return result


def serials(registry: Registry, count: int = 20) -> list[list[Write]]:
    """Return updates of four computers, each of several versions."""
    return [[registry.update(("computer", 1 + n % 4), serial=f"S{n}")] for n in range(count)]


async def is_renamed(database: Database) -> bool:
    return "New" in await database.persons.distinct("last_name")


async def assert_written(database: Database, outcomes: Sequence[Any]) -> None:
    """Check that `serials` were written in order, each once."""
    results = list(map(result_of, outcomes))
    for first in range(4):
        own = [result.record for result in results if result.record["_id"] == 1 + first]
        assert [record["version"] for record in own] == list(range(2, 2 + len(own)))
        assert [int(record["serial"][1:]) for record in own] == sorted(
            int(record["serial"][1:]) for record in own
        )
        assert (await records(database))["computer", 1 + first]["serial"] == own[-1]["serial"]


KINDS: list[Callable[[Registry, int], list[Write]]] = [
    lambda registry, n: [registry.create("computer", serial=f"S{n}")],
    lambda registry, n: [registry.create("computer", serial="S", owner=n)],
    lambda registry, n: [registry.update(("person", n), last_name=f"L{n}")],
    lambda registry, n: [registry.update(("computer", n), owner=n)],
    lambda registry, n: [registry.update(("person", n), computers=[n])],
    lambda registry, n: [registry.delete(("person", n))],
    lambda registry, n: [
        registry.create("person", -1, first_name="A", last_name="B"),
        registry.update(("computer", n), owner=-1, serial=f"S{n}"),
        registry.update(("person", n), first_name="Grace"),
        registry.update(("person", -1), first_name="Grace"),
    ],
]


@pytest.mark.parametrize("keyed", [False, True], ids=["", "keyed"])
async def test_a_group_takes_as_many_commands_as_two_requests_of_each_kind(
    registry: Registry, commands: CommandLog, *, keyed: bool
) -> None:
    sent = []
    numbers = iter(range(1, COUNT + 1))
    for count in (2 * len(KINDS), 4 * len(KINDS)):
        requests = [KINDS[n % len(KINDS)](registry, next(numbers)) for n in range(count)]
        commands.take("all")
        keys = [f"{count}-{n}" for n in range(count)] if keyed else ()
        outcomes = await registry.write_group(requests, keys)
        assert all(isinstance(outcome, list) for outcome in outcomes), outcomes
        sent.append(sorted(commands.names()))
    assert sent[0] == sent[1]
    assert sent[0].count("commitTransaction") == 2, "one of them for the group before"


@pytest.mark.parametrize(
    ("requests", "resources", "groups"), [(128, 1, 1), (129, 1, 2), (10, 100, 1), (11, 100, 2)]
)
async def test_the_size_of_a_group_is_limited(
    registry: Registry, commands: CommandLog, requests: int, resources: int, groups: int
) -> None:
    owners = [list(range(1_000 * n, 1_000 * n + resources - 1)) for n in range(requests)]
    commands.take("all")
    await registry.write_group(
        [registry.update(("person", 1 + n % COUNT), computers=ids, verb=Verb.REMOVE)]
        for n, ids in enumerate(owners)
    )
    assert len(commands.take("commitTransaction")) == 1 + groups


Bad = Callable[[Registry], list[Write]]


DETECTED_BY_THE_SERVICE: dict[str, tuple[Bad, type[Exception]]] = {
    "missing target of a new resource": (
        lambda registry: [registry.create("computer", serial="bad", owner=MISSING)],
        NotFound,
    ),
    "read-only value": (
        lambda registry: [
            registry.update(("computer", 1), serial="bad"),
            registry.update(("person", 5), read_only={"full_name": "bad"}),
        ],
        InvalidField,
    ),
    "last operation": (
        lambda registry: [
            registry.update(("computer", 1), serial="bad", owner=5),
            registry.update(("person", 5), computers=[2]),
            registry.create("computer", -1, serial="bad", owner=5),
            registry.delete(("person", 6)),
            registry.delete(("person", MISSING)),
        ],
        NotFound,
    ),
}
DETECTED_BY_THE_DATABASE: dict[str, tuple[Bad, type[Exception]]] = {
    "refused by a validator": (
        lambda registry: [
            registry.update(("computer", 1), serial="bad"),
            registry.update(("person", 5), last_name="rejected"),
        ],
        RecordRefused,
    ),
    "oversized record": (
        lambda registry: [
            registry.update(("computer", 1), serial="bad"),
            registry.update(("person", LARGE), last_name="L" * 255),
        ],
        Unavailable,
    ),
}
LARGE = 1_000
"""The id of a person whose record is almost as large as possible."""


async def assert_only_the_middle_fails(
    registry: Registry, database: Database, bad: list[Write], error: type[Exception]
) -> None:
    """Check the others of a full group."""
    persons = (await records(database)).items()
    before = {place: value for place, value in persons if place[0] == "person"}
    requests = serials(registry)
    requests.insert(len(requests) // 2, bad)
    outcomes = await registry.write_group(requests)
    failed = outcomes.pop(len(outcomes) // 2)
    assert isinstance(failed, RequestError)
    assert [type(reported) for reported in failed.errors] == [error]
    await assert_written(database, outcomes)
    after = await records(database)
    assert {place: value for place, value in after.items() if place[0] == "person"} == before
    assert not {"bad", 5} & {
        record.get("serial") or record.get("person") for record in after.values()
    }


@pytest.mark.parametrize("kind", DETECTED_BY_THE_SERVICE)
async def test_a_request_that_fails_does_not_delay_its_group(
    registry: Registry, database: Database, commands: CommandLog, kind: str
) -> None:
    make, error = DETECTED_BY_THE_SERVICE[kind]
    commands.take("all")
    await assert_only_the_middle_fails(registry, database, make(registry), error)
    sent = commands.names()
    assert (sent.count("commitTransaction"), sent.count("abortTransaction")) == (2, 0)


@pytest.mark.parametrize("kind", DETECTED_BY_THE_DATABASE)
async def test_a_request_that_the_database_rejects_fails_alone(
    registry: Registry, database: Database, kind: str
) -> None:
    filler = b"x" * (16 * 2**20 - 150)
    await database.persons.insert_one(
        complete_record({"_id": LARGE, "first_name": "A", "last_name": "B", "filler": filler})
    )
    validator = {"last_name": {"$ne": "rejected"}}
    await database.command("collMod", "persons", validator=validator)
    make, error = DETECTED_BY_THE_DATABASE[kind]
    await assert_only_the_middle_fails(registry, database, make(registry), error)


async def test_a_locked_record_delays_only_its_own_request(
    registry: Registry, database: Database
) -> None:
    async with locked(database, ("person", 5)):
        other = asyncio.create_task(registry.write_group([]))
        await asyncio.sleep(0)
        requests = serials(registry)
        requests.insert(10, [registry.update(("person", 5), last_name="New")])
        tasks = [asyncio.create_task(registry.write(*request)) for request in requests]
        blocked = tasks.pop(10)
        await assert_written(database, await asyncio.gather(*tasks))
        assert not blocked.done()
    await asyncio.gather(other, blocked)
    assert (await records(database))["person", 5]["version"] == 2


@pytest.mark.slow
async def test_a_record_that_stays_locked_is_not_written_after_its_error(
    registry: Registry, database: Database
) -> None:
    before = await records(database)
    async with locked(database, ("person", 5)):
        (outcome,) = await registry.write_all([[registry.update(("person", 5), last_name="N")]])
    assert isinstance(outcome, Unavailable)
    await registry.write(registry.update(("person", 5), email="new@example.com"))
    after = await records(database)
    new = {"email": "new@example.com", "version": 2}
    changed = before["person", 5] | new
    del after["person", 5]["updated_at"], after["person", 5]["updated_by"]
    assert after == before | {("person", 5): changed}


async def test_closing_waits_for_requests_that_wait_for_others(
    registry: Registry, gate: Gate
) -> None:
    commit = registry.repository._group_commit
    gate.close()
    many = [registry.update(("computer", 1), serial=f"S{n}") for n in range(101)]
    alone = asyncio.create_task(registry.write(*many))
    assert await gate.holds(1)
    waiting = asyncio.create_task(registry.write(registry.update(("computer", 1), serial="last")))
    await asyncio.sleep(0)
    closing = asyncio.create_task(commit.close())
    gate.open()
    await closing
    (result,) = await waiting
    assert (await alone)[-1].record["version"] == result.record["version"] - 1


@pytest.mark.parametrize("identifiers", [1, 101])
async def test_a_write_that_has_begun_is_completed_when_its_client_leaves(
    registry: Registry, database: Database, gate: Gate, identifiers: int
) -> None:
    gate.close()
    removed = range(1_000, 1_000 + identifiers)
    change = registry.update(("person", 5), last_name="New", computers=removed, verb=Verb.REMOVE)
    begun = asyncio.create_task(registry.write(change))
    assert await gate.holds(1)
    change = registry.update(("person", 6), first_name="Dropped")
    waiting = asyncio.create_task(registry.write(change))
    await asyncio.sleep(0)
    begun.cancel()
    waiting.cancel()
    await asyncio.wait([begun, waiting])
    bulkheads = registry.repository.bulkheads
    bulkhead = bulkheads.small_requests if identifiers == 1 else bulkheads.heavy_requests
    assert not bulkhead.is_idle, "they count until they have ended"
    gate.open()
    assert await eventually(partial(is_renamed, database))
    assert await eventually(lambda: bulkhead.is_idle)
    assert "Dropped" not in await database.persons.distinct("first_name")


@pytest.mark.slow
async def test_the_requests_of_a_group_that_takes_too_long_run_alone(
    registry: Registry, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, seconds = UnitOfWork._store, transactions.SHARED_SECONDS

    def store_late(unit: UnitOfWork, outcomes: Sequence[Any]) -> None:
        time.sleep(seconds if len(outcomes) > 1 else 0)
        store(unit, outcomes)

    monkeypatch.setattr(UnitOfWork, "_store", store_late)
    await assert_written(database, await registry.write_group(serials(registry)))


async def test_requests_that_arrive_while_a_group_is_in_flight_are_the_next_group(
    registry: Registry, gate: Gate, commands: CommandLog
) -> None:
    """Those that leave while they wait are not executed."""
    gate.close()
    commands.take("all")
    updates = [registry.update(("person", 1), last_name=f"L{n}") for n in range(9)]
    first = asyncio.create_task(registry.write(updates[0]))
    assert await gate.holds(1)
    others = [asyncio.create_task(registry.write(update)) for update in updates[1:]]
    await asyncio.sleep(0.01)
    assert gate.held == 1
    for task in others[-2:]:
        task.cancel()
    gate.open()
    results = [(await task)[0].record for task in (first, *others[:-2])]
    assert [(result["last_name"], result["version"]) for result in results] == [
        (f"L{n}", n + 2) for n in range(7)
    ]
    assert commands.names().count("commitTransaction") == 2


async def commit_time(registry: Registry, *writes: Write, client: str | None = None) -> Timestamp:
    """Write, and return when it was committed."""
    (result, *_) = await registry.write(*writes, client=client)
    assert result.time
    return result.time


def large(registry: Registry) -> list[Write]:
    """Return the writes of a request that runs alone."""
    return [registry.update(("computer", 1), serial=f"S{n}") for n in range(101)]


async def assert_others_write_between(registry: Registry, requests: list[list[Write]]) -> None:
    """Check that small requests are written between each two of these."""
    written = asyncio.gather(*(commit_time(registry, *writes) for writes in requests))
    others = []
    while not written.done():
        others.append(await commit_time(registry, registry.update(("person", 9), last_name="New")))
    for first, second in pairwise(sorted(await written)):
        assert any(first < other < second for other in others)


async def test_others_write_between_each_two_large_requests(registry: Registry) -> None:
    await assert_others_write_between(registry, [large(registry)] * 4)


async def test_others_write_between_each_two_requests_that_unlink_many(
    registry: Registry, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_of_work, "_MAX_MEMBERS", 5)
    owners = range(1, 5)
    for owner in owners:
        ids = {"$gt": 10 * (owner - 1), "$lte": 10 * owner}
        await database.computers.update_many({"_id": ids}, {"$set": {"person": owner}})
    await assert_others_write_between(
        registry, [[registry.update(("person", owner), computers=[])] for owner in owners]
    )


async def test_a_small_request_that_runs_alone_waits_for_no_group_but_one(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for all that have as much time as the large one before it took."""
    store, run, begun = UnitOfWork._store, UnitOfWork.run, list[bool]()

    def store_late(unit: UnitOfWork, outcomes: Sequence[Any]) -> None:
        time.sleep(1.0 if unit._is_large else 0)
        store(unit, outcomes)

    async def noted(unit: UnitOfWork, requests: Sequence[WriteRequest]) -> Any:
        begun.append(requests[0].is_alone)
        return await run(unit, requests)

    async def write_on(number: int) -> None:
        while True:
            await registry.write(registry.update(("person", number), last_name="New"))

    monkeypatch.setattr(UnitOfWork, "_store", store_late)
    monkeypatch.setattr(UnitOfWork, "run", noted)
    others = [asyncio.create_task(write_on(number)) for number in range(1, 9)]
    await registry.write(*large(registry))
    begun.clear()
    creation = registry.create("person", first_name="A", last_name="B")
    await registry.repository.write([creation], rolls_back=True)
    groups_before = begun.index(True)
    for other in others:
        other.cancel()
    await asyncio.wait(others)
    assert groups_before <= 1


async def test_large_requests_of_one_client_let_that_of_another_overtake_them(
    registry: Registry,
) -> None:
    clients = [*["a"] * 5, "b"]
    *first, last = await asyncio.gather(
        *(commit_time(registry, *large(registry), client=client) for client in clients)
    )
    assert sum(time < last for time in first) <= 1


async def test_changes_of_one_record_by_several_authors_are_stored_one_by_one(
    registry: Registry, database: Database
) -> None:
    names = ["first_name", "last_name", "email", "last_name"]
    authors = ["a", "b", "b", None]
    values: list[dict[str, Any]] = [{name: f"{number}"} for number, name in enumerate(names)]
    requests = [[registry.update(("person", 1), **each)] for each in values]
    changes: list[Any] = []
    async with database.persons.watch([{"$match": {"operationType": "update"}}]) as stream:
        for outcome in await registry.write_group(requests, authors=authors):
            result_of(outcome)
        while not changes or changes[-1].get("last_name") != "3":
            changes.append((await stream.next())["updateDescription"]["updatedFields"])
    changed = [({*names} & change.keys(), change["updated_by"]) for change in changes]
    assert changed == [({"first_name"}, "a"), ({"last_name", "email"}, "b"), ({"last_name"}, None)]


async def test_a_request_that_is_found_to_be_large_runs_alone_though_its_group_conflicts(
    registry: Registry, database: Database, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_of_work, "_MAX_SHARED", 1)
    await database.computers.update_many({"_id": {"$lt": 4}}, {"$set": {"person": 1}})
    run, groups = UnitOfWork.run, list[tuple[int, bool]]()

    async def noted(unit: UnitOfWork, requests: Sequence[WriteRequest]) -> Any:
        groups.append((len(requests), requests[0].is_alone))
        return await run(unit, requests)

    monkeypatch.setattr(UnitOfWork, "run", noted)
    creation = registry.create("person", first_name="A", last_name="B")
    before = asyncio.create_task(registry.write(registry.update(("person", 2), last_name="New")))
    await asyncio.sleep(0)
    writes = [creation, registry.delete(("person", 1)), creation]
    first, *others = [asyncio.create_task(registry.write(write)) for write in writes]
    await before
    gate.close()
    assert await gate.holds(1)
    await database.counters.update_one({"_id": "person"}, {"$inc": {"last": 1}})
    first.cancel()
    gate.open()
    await asyncio.gather(*others)
    assert groups[:2] == [(1, False), (3, False)]
    assert sorted(groups[2:]) == [(1, False), (1, True)], "the deletion has no others beside it"
