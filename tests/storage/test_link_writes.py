"""Concurrent link writes share transactions, as if executed one after another."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from registry.http.app_keys import GRAPH, REPOSITORY
from registry.jsonapi.changes import Change, Identifier, Linkage, Mode
from registry.model.record import Record
from registry.storage import transactions
from registry.storage.errors import RecordNotFound, Unavailable, VersionConflict
from registry.storage.records import Versions, Written
from tests.support import Api, CommandLog, Database, Response

PERSONS = 5
COMPUTERS = 9
MISSING = 99


@dataclass(frozen=True)
class LinkUpdate:
    """An update of links: the members of a person, or the owner of a computer."""

    type: str
    number: int
    ids: tuple[int, ...]
    mode: Mode = Mode.REPLACE
    serial: str | None = None
    versions: Versions = None

    @property
    def to_many(self) -> bool:
        return self.type == "person"


class Registry:
    """The repository of the service."""

    def __init__(self, api: Api) -> None:
        app = api.client.app
        assert app is not None
        self._repository, self._graph = app[REPOSITORY], app[GRAPH]

    async def update(self, update: LinkUpdate) -> Record:
        return (await self.write(update)).record

    def write(self, update: LinkUpdate, *, read_back: bool = False) -> Awaitable[Written]:
        """Return the record with the time of the write."""
        resource = self._graph[update.type]
        relationship = resource.relationships["computers" if update.to_many else "owner"]
        ids = tuple(Identifier(one, str(one), f"/{one}") for one in update.ids)
        attributes = {} if update.serial is None else {"serial": update.serial}
        change = Change(attributes, (Linkage(relationship, ids, update.mode),))
        return self._repository.update(
            resource, update.number, change, update.versions, read_back=read_back
        )

    async def update_all(self, updates: Sequence[LinkUpdate]) -> list[Record | BaseException]:
        """Update concurrently, in this order."""
        return await asyncio.gather(*map(self.update, updates), return_exceptions=True)


class Model:
    """The links after sequential updates."""

    def __init__(self) -> None:
        self.owners: dict[int, int | None] = dict.fromkeys(range(1, COMPUTERS + 1))
        self.serials = dict.fromkeys(range(1, COMPUTERS + 1), "x")

    def state(self) -> tuple[dict[int, int | None], dict[int, str]]:
        """Return all links and serial numbers, which later updates do not modify."""
        return dict(self.owners), dict(self.serials)

    def apply(self, update: LinkUpdate) -> bool | None:
        """Return whether the update is possible, None if there is no such resource."""
        existing = range(1, (PERSONS if update.to_many else COMPUTERS) + 1)
        targets = range(1, (COMPUTERS if update.to_many else PERSONS) + 1)
        if update.number not in existing:
            return None
        if update.mode is not Mode.REMOVE and not set(update.ids) <= set(targets):
            return False
        if not update.to_many:
            self.owners[update.number] = next(iter(update.ids), None)
            self.serials[update.number] = update.serial or self.serials[update.number]
            return True
        for computer, owner in self.owners.items():
            is_named = computer in update.ids
            if is_named and update.mode is not Mode.REMOVE:
                self.owners[computer] = update.number
            elif owner == update.number and (is_named or update.mode is Mode.REPLACE):
                self.owners[computer] = None
        return True


@pytest.fixture
async def registry(api: Api, database: Database) -> Registry:
    person = {"first_name": "Ada", "last_name": "Lovelace", "email": None, "version": 1}
    await database.persons.insert_many(
        {"_id": number, **person} for number in range(1, PERSONS + 1)
    )
    await database.computers.insert_many(
        {"_id": number, "serial": "x", "person": None, "version": 1}
        for number in range(1, COMPUTERS + 1)
    )
    return Registry(api)


async def records(database: Database) -> dict[tuple[str, int], Record]:
    """Return the stored records, by collection and id."""
    return {
        (name, record["_id"]): record
        for name in ("persons", "computers")
        for record in await database[name].find({"_id": {"$type": "number"}}).to_list(None)
    }


def replacing(person: int, *computers: int, **more: Any) -> LinkUpdate:
    return LinkUpdate("person", person, computers, **more)


@pytest.mark.covers("r.batching")
@pytest.mark.parametrize(
    ("command", "sent"),
    [
        ("find", ["computers", "persons"]),
        ("update", ["computers", "persons"]),
        ("commitTransaction", ["1"]),
        ("aggregate", []),
    ],
)
@pytest.mark.parametrize("requests", [1, PERSONS])
async def test_concurrent_link_updates_take_as_many_commands_as_one(
    registry: Registry, commands: CommandLog, command: str, sent: list[str], requests: int
) -> None:
    commands.take("all")
    updates = [replacing(number, number, number + 1) for number in range(1, requests + 1)]
    assert all(isinstance(one, dict) for one in await registry.update_all(updates))
    assert sorted(commands.take(command)) == sent


@pytest.mark.covers("r.batching")
async def test_concurrent_creations_with_links_share_transactions(
    api: Api, commands: CommandLog
) -> None:
    owners = [await api.person() for _ in range(3)]
    commands.take("all")
    ids = await asyncio.gather(*(api.computer(owner=owner) for owner in owners * 5))
    # 15 if nothing was batched; how full batches are depends on the speed of the machine.
    assert len(commands.take("commitTransaction")) < 8
    for number, owner in zip(ids, owners * 5, strict=True):
        assert (await api.get(f"/computers/{number}/owner")).id == owner


async def test_a_resource_with_a_dangling_link_is_not_created(
    registry: Registry, api: Api, database: Database
) -> None:
    before = await records(database)

    def create(owner: int) -> Awaitable[Response]:
        relationships = {"owner": {"data": {"type": "person", "id": owner}}}
        data = {"type": "computer", "attributes": {"serial": "x"}, "relationships": relationships}
        return api.post("/computers", data)

    rejected, _ = await asyncio.gather(create(MISSING), registry.update(replacing(1, 1)))
    assert (rejected.status, rejected.errors) == (
        404,
        [(404, "/data/relationships/owner/data/id")],
    )
    assert (await records(database)).keys() == before.keys()


async def test_a_rejected_update_changes_nothing_and_does_not_affect_the_others(
    registry: Registry, database: Database, commands: CommandLog
) -> None:
    commands.take("all")
    first, dangling, absent, stale, last = await registry.update_all(
        [
            replacing(1, 1, 2),
            replacing(2, 1, MISSING, MISSING + 1),
            replacing(MISSING, 1, 3),
            replacing(3, 1, 4, versions=frozenset({7})),
            LinkUpdate("computer", 5, (4,)),
        ]
    )
    assert commands.take("commitTransaction") == ["1"]
    assert isinstance(first, dict)
    assert isinstance(last, dict)
    assert (first["version"], last["person"]) == (2, 4)
    assert isinstance(dangling, RecordNotFound)
    assert dangling.type == "computer"
    assert dangling.missing == [("99", "/99"), ("100", "/100")]
    assert isinstance(absent, RecordNotFound)
    assert (absent.type, absent.missing) == ("person", [("99", None)])
    assert isinstance(stale, VersionConflict)
    stored = await records(database)
    incremented = {place for place, record in stored.items() if record["version"] != 1}
    assert incremented == {("persons", 1), ("persons", 4)} | {("computers", n) for n in (1, 2, 5)}
    assert [stored["computers", number]["person"] for number in range(1, 6)] == [
        1,
        1,
        None,
        None,
        4,
    ]


async def test_each_update_of_a_batch_sees_the_ones_before(
    registry: Registry, database: Database
) -> None:
    """Each update concerns links that another one has changed, in the same transaction."""
    first, _, second, third, stale = await registry.update_all(
        [
            replacing(1, 1, 2, 3),
            replacing(2, 3, 4),
            replacing(1, 1),
            LinkUpdate("person", 2, (4,), Mode.REMOVE, versions=frozenset({2})),
            LinkUpdate("person", 2, (3,), Mode.REMOVE, versions=frozenset({2})),
        ]
    )
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert isinstance(third, dict)
    assert isinstance(stale, VersionConflict)
    # Linked, lost the third computer, and updated again.
    assert (first["version"], second["version"], third["version"]) == (2, 4, 3)
    stored = await records(database)
    assert [stored["computers", number]["person"] for number in range(1, 5)] == [1, None, 2, None]
    assert [stored["computers", number]["version"] for number in range(1, 5)] == [2, 3, 3, 3]


async def test_versions_change_of_moved_members_and_both_owners_only(
    registry: Registry, database: Database
) -> None:
    await registry.update(replacing(1, 1, 2))
    before = await records(database)
    await registry.update(replacing(2, 2))
    after = await records(database)
    incremented = {
        place: after[place]["version"] - before[place]["version"]
        for place in after
        if after[place] != before[place]
    }
    assert incremented == {("persons", 1): 1, ("persons", 2): 1, ("computers", 2): 1}


async def test_an_update_that_changes_nothing_writes_nothing(
    registry: Registry, database: Database, commands: CommandLog
) -> None:
    await registry.update(replacing(1, 1, 2))
    before = await records(database)
    commands.take("all")
    for update in (
        replacing(1, 2, 1, 2),
        replacing(1, 1, mode=Mode.ADD),
        replacing(1, 3, MISSING, mode=Mode.REMOVE),
        LinkUpdate("computer", 1, (1,), serial="x"),
        LinkUpdate("computer", 3, ()),
    ):
        place = f"{update.type}s", update.number
        assert (await registry.update(update))["version"] == before[place]["version"]
    assert set(commands.names()) == {"find", "commitTransaction"}
    assert await records(database) == before


async def test_an_unchanged_owner_keeps_its_version(registry: Registry, database: Database) -> None:
    await registry.update(LinkUpdate("computer", 1, (1,)))
    before = await records(database)
    record = await registry.update(LinkUpdate("computer", 1, (1,), serial="SN-1"))
    assert record["serial"] == "SN-1"
    after = await records(database)
    assert [place for place in after if after[place] != before[place]] == [("computers", 1)]


def random_update(choose: random.Random) -> LinkUpdate:
    number = choose.choice([*range(1, PERSONS + 1)] * 5 + [MISSING])
    computers = choose.sample([*range(1, COMPUTERS + 1)] * 5 + [MISSING], choose.randint(0, 4))
    if choose.random() < 0.6:
        return LinkUpdate("person", number, tuple(computers), choose.choice(list(Mode)))
    owner = (number,) if choose.random() < 0.8 else ()
    serial = choose.choice([None, f"SN-{choose.random()}"])
    return LinkUpdate("computer", choose.choice([*computers, 1]), owner, serial=serial)


@pytest.mark.parametrize("seed", range(6))
async def test_concurrent_updates_are_equivalent_to_sequential_ones(
    registry: Registry, database: Database, seed: int
) -> None:
    choose, model = random.Random(seed), Model()  # noqa: S311 - the same in every run
    for _ in range(6):
        before = await records(database)
        updates = [random_update(choose) for _ in range(choose.randint(1, 30))]
        results = await registry.update_all(updates)
        links = []
        for update in updates:
            previous = model.state()
            possible = model.apply(update)
            links.append((possible, dict(model.owners), model.state() != previous))
        versions: dict[tuple[str, int], int] = {}
        for update, result, (possible, owners, changes) in zip(
            updates, results, links, strict=True
        ):
            if not possible:
                assert isinstance(result, RecordNotFound)
                assert (result.missing[0][1] is None) == (possible is None)
                continue
            assert isinstance(result, dict)
            place = f"{update.type}s", update.number
            known = versions.get(place) or before[place]["version"]
            assert result["version"] >= known + changes
            versions[place] = result["version"]
            if not update.to_many:
                assert result["person"] == owners[update.number]
        after = await records(database)
        for number, owner in model.owners.items():
            record, old = after["computers", number], before["computers", number]
            assert (record["person"], record["serial"]) == (owner, model.serials[number])
            for moved in {owner, old["person"]} - {None} if owner != old["person"] else ():
                assert after["persons", moved]["version"] > before["persons", moved]["version"]
                assert record["version"] > old["version"]
        assert all(after[place]["version"] >= version for place, version in versions.items())


async def test_concurrent_updates_of_attributes_and_links_are_all_applied(
    registry: Registry, api: Api, database: Database
) -> None:
    """The attribute writes conflict with the transaction, which is retried."""

    async def rename(number: int, name: str) -> int:
        data = {"type": "person", "attributes": {"first_name": name}}
        return (await api.patch(f"/persons/{number}", data)).status

    for turn in range(10):
        names = [rename(number, f"F{turn}") for number in range(1, PERSONS + 1)]
        updates = [replacing(number, number, PERSONS + 1) for number in range(1, PERSONS + 1)]
        renamed, results = await asyncio.gather(
            asyncio.gather(*names), registry.update_all(updates)
        )
        assert renamed == [200] * PERSONS
        assert all(isinstance(result, dict) for result in results)
        stored = await records(database)
        for number in range(1, PERSONS + 1):
            person = stored["persons", number]
            assert (person["first_name"], person["full_name"]) == (f"F{turn}", f"F{turn} Lovelace")
            assert stored["computers", number]["person"] == number
            assert person["version"] >= 1 + 2 * (turn + 1)
        assert stored["computers", PERSONS + 1]["person"] == PERSONS


async def test_a_record_that_the_database_rejects_does_not_affect_the_others(
    registry: Registry, database: Database
) -> None:
    await database.command("collMod", "computers", validator={"serial": {"$ne": "rejected"}})
    update = LinkUpdate("computer", 1, (1,))
    first, rejected, last = await registry.update_all(
        [update, replace(update, number=2, serial="rejected"), replace(update, number=3)]
    )
    assert isinstance(rejected, Unavailable)
    assert isinstance(first, dict)
    assert isinstance(last, dict)
    stored = await records(database)
    assert [stored["computers", number]["person"] for number in (1, 2, 3)] == [1, None, 1]


async def test_a_locked_resource_does_not_delay_the_others(
    registry: Registry, database: Database
) -> None:
    async with await database.client.start_session() as session:
        session.start_transaction()
        change = {"$set": {"serial": "locked"}}
        await database.computers.update_one({"_id": 1}, change, session=session)
        updates = [replacing(number, number) for number in range(1, PERSONS + 1)]
        first, *others = [asyncio.create_task(registry.update(update)) for update in updates]
        await asyncio.gather(*others)
        await registry.update(replacing(2, 2, 6))
        assert not first.done()
        await session.abort_transaction()
    assert (await first)["version"] == 2
    stored = await records(database)
    assert [stored["computers", number]["person"] for number in range(1, 7)] == [1, 2, 3, 4, 5, 2]


async def test_a_resource_that_stays_locked_fails_only_its_own_request(
    registry: Registry, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_RETRY_SECONDS", 0.2)
    async with await database.client.start_session() as session:
        session.start_transaction()
        await database.computers.delete_one({"_id": 1}, session=session)
        results = await registry.update_all([replacing(number, number) for number in (1, 2, 3)])
        await session.abort_transaction()
    assert isinstance(results[0], Unavailable)
    assert [isinstance(result, dict) for result in results[1:]] == [True, True]
    stored = await records(database)
    assert [stored["computers", number]["person"] for number in (1, 2, 3)] == [None, 2, 3]


async def test_a_request_with_many_identifiers_has_a_separate_transaction(
    registry: Registry, database: Database, commands: CommandLog
) -> None:
    many = range(1_000, 2_001)
    await database.computers.insert_many({"_id": number, "person": 5} for number in many)
    updates = [replacing(1, 1), replacing(2, *many), replacing(3, 2), replacing(4, 3)]
    commands.take("all")
    assert all(isinstance(one, dict) for one in await registry.update_all(updates))
    assert commands.take("commitTransaction") == ["1"] * 2  # one of them for the other three
    assert await database.computers.count_documents({"person": 2, "version": 1}) == len(many)


async def test_a_snapshot_at_the_time_of_a_write_that_is_read_back_shows_its_result(
    registry: Registry, database: Database
) -> None:
    updates = [replacing(1 + number % 2, number) for number in range(1, 9)]
    results = await asyncio.gather(
        *(registry.write(update, read_back=bool(update.number % 2)) for update in updates)
    )
    for update, written in zip(updates, results, strict=True):
        if update.number % 2:
            owner = {"_id": update.number, "version": written.record["version"]}
            concern = {"level": "snapshot", "atClusterTime": written.time}
            for name, query, ids in (
                ("computers", {"person": update.number}, list(update.ids)),
                ("persons", owner, [update.number]),
            ):
                command = {"find": name, "filter": query, "readConcern": concern}
                found = (await database.command(command))["cursor"]["firstBatch"]
                assert [record["_id"] for record in found] == ids


async def test_ids_and_foreign_keys_of_external_writers_are_supported(
    registry: Registry, database: Database
) -> None:
    await database.computers.insert_many(
        [
            {"_id": {"a": 1}, "serial": "x", "person": 1},
            {"_id": "text", "serial": "x", "person": 1.0, "version": "none"},
            {"_id": 50, "serial": "x", "person": "nobody"},
            {"_id": 51, "serial": "x", "person": 2.0},
        ]
    )
    assert await registry.update(replacing(1, 50, 51))
    assert await database.computers.distinct("_id", {"person": 1}) == [50, 51]
    left = await database.computers.find({"_id": {"$in": [{"a": 1}, "text"]}}).to_list(None)
    assert [(one["person"], one["version"]) for one in left] == [(None, 1)] * 2
    stored = await records(database)
    assert [stored["persons", number]["version"] for number in (1, 2, 3)] == [2, 2, 1]
