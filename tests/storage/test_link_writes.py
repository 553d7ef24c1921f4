"""Requests that change links share transactions, and none of them is mixed with another."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from registry.http.app_keys import GRAPH, REPOSITORY
from registry.jsonapi.request_documents import Change, Identifier, Linkage, Mode
from registry.model.record import Record
from registry.storage.errors import RecordNotFound, Unavailable, VersionConflict
from registry.storage.records import Versions
from tests.support import Answer, Api, CommandLog, Database

PERSONS = 5
COMPUTERS = 9
MISSING = 99


@dataclass(frozen=True)
class Wish:
    """A change of links: the members of a person, or the owner of a computer."""

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

    def ask(self, wish: Wish) -> Awaitable[Record]:
        resource = self._graph[wish.type]
        relationship = resource.relationships["computers" if wish.to_many else "owner"]
        ids = tuple(Identifier(one, str(one), f"/{one}") for one in wish.ids)
        attributes = {} if wish.serial is None else {"serial": wish.serial}
        change = Change(attributes, (Linkage(relationship, ids, wish.mode),))
        return self._repository.update(resource, wish.number, change, wish.versions)

    async def ask_all(self, wishes: Sequence[Wish]) -> list[Record | BaseException]:
        """Ask at once, in this order."""
        return await asyncio.gather(*map(self.ask, wishes), return_exceptions=True)


class Model:
    """What the links are when changes are made one after another."""

    def __init__(self) -> None:
        self.owners: dict[int, int | None] = dict.fromkeys(range(1, COMPUTERS + 1))
        self.serials = dict.fromkeys(range(1, COMPUTERS + 1), "x")

    def make(self, wish: Wish) -> bool | None:
        """Make a change and return whether that is possible, None if there is no such resource."""
        existing = range(1, (PERSONS if wish.to_many else COMPUTERS) + 1)
        targets = range(1, (COMPUTERS if wish.to_many else PERSONS) + 1)
        if wish.number not in existing:
            return None
        if wish.mode is not Mode.REMOVE and not set(wish.ids) <= set(targets):
            return False
        if not wish.to_many:
            self.owners[wish.number] = next(iter(wish.ids), None)
            self.serials[wish.number] = wish.serial or self.serials[wish.number]
            return True
        for computer, owner in self.owners.items():
            named = computer in wish.ids
            if named and wish.mode is not Mode.REMOVE:
                self.owners[computer] = wish.number
            elif owner == wish.number and (named or wish.mode is Mode.REPLACE):
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
    """Return what is stored, by collection and number."""
    return {
        (name, record["_id"]): record
        for name in ("persons", "computers")
        for record in await database[name].find({"_id": {"$type": "number"}}).to_list(None)
    }


def replacing(person: int, *computers: int, **more: Any) -> Wish:
    return Wish("person", person, computers, **more)


@pytest.mark.covers("r.shared")
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
async def test_links_that_are_changed_at_once_take_as_many_commands_as_one(
    registry: Registry, commands: CommandLog, command: str, sent: list[str], requests: int
) -> None:
    commands.take("all")
    wishes = [replacing(number, number, number + 1) for number in range(1, requests + 1)]
    assert all(isinstance(one, dict) for one in await registry.ask_all(wishes))
    assert sorted(commands.take(command)) == sent


@pytest.mark.covers("r.shared")
async def test_computers_that_are_created_for_owners_at_once_share_a_transaction(
    api: Api, commands: CommandLog
) -> None:
    owners = [await api.person() for _ in range(3)]
    commands.take("all")
    ids = await asyncio.gather(*(api.computer(owner=owner) for owner in owners * 5))
    assert len(commands.take("commitTransaction")) < 8
    for number, owner in zip(ids, owners * 5, strict=True):
        assert (await api.get(f"/computers/{number}/owner")).id == owner


async def test_a_created_resource_that_links_to_nothing_is_not_there(
    registry: Registry, api: Api, database: Database
) -> None:
    before = await records(database)

    def create(owner: int) -> Awaitable[Answer]:
        relationships = {"owner": {"data": {"type": "person", "id": owner}}}
        data = {"type": "computer", "attributes": {"serial": "x"}, "relationships": relationships}
        return api.post("/computers", data)

    refused, _ = await asyncio.gather(create(MISSING), registry.ask(replacing(1, 1)))
    assert (refused.status, refused.errors) == (
        404,
        [(404, "/data/relationships/owner/data/id")],
    )
    assert (await records(database)).keys() == before.keys()


async def test_what_is_asked_in_vain_fails_alone_and_changes_nothing(
    registry: Registry, database: Database, commands: CommandLog
) -> None:
    commands.take("all")
    fine, vain, absent, stale, last = await registry.ask_all(
        [
            replacing(1, 1, 2),
            replacing(2, 1, MISSING, MISSING + 1),
            replacing(MISSING, 1, 3),
            replacing(3, 1, 4, versions=frozenset({7})),
            Wish("computer", 5, (4,)),
        ]
    )
    assert commands.take("commitTransaction") == ["1"]
    assert isinstance(fine, dict)
    assert isinstance(last, dict)
    assert (fine["version"], last["person"]) == (2, 4)
    assert isinstance(vain, RecordNotFound)
    assert vain.type == "computer"
    assert vain.missing == [("99", "/99"), ("100", "/100")]
    assert isinstance(absent, RecordNotFound)
    assert (absent.type, absent.missing) == ("person", [("99", None)])
    assert isinstance(stale, VersionConflict)
    found = await records(database)
    raised = {place for place, record in found.items() if record["version"] != 1}
    assert raised == {("persons", 1), ("persons", 4)} | {("computers", n) for n in (1, 2, 5)}
    assert [found["computers", number]["person"] for number in range(1, 6)] == [1, 1, None, None, 4]


async def test_of_those_at_once_the_next_sees_what_the_one_before_has_changed(
    registry: Registry, database: Database
) -> None:
    """Each of these is about what another one has linked, in the same transaction."""
    first, _, second, third, stale = await registry.ask_all(
        [
            replacing(1, 1, 2, 3),
            replacing(2, 3, 4),
            replacing(1, 1),
            Wish("person", 2, (4,), Mode.REMOVE, versions=frozenset({2})),
            Wish("person", 2, (3,), Mode.REMOVE, versions=frozenset({2})),
        ]
    )
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert isinstance(third, dict)
    assert isinstance(stale, VersionConflict)
    # Linked, left by the third computer, and changed again.
    assert (first["version"], second["version"], third["version"]) == (2, 4, 3)
    found = await records(database)
    assert [found["computers", number]["person"] for number in range(1, 5)] == [1, None, 2, None]
    assert [found["computers", number]["version"] for number in range(1, 5)] == [2, 3, 3, 3]


async def test_a_member_that_stays_is_not_changed_and_one_that_moves_changes_both_owners(
    registry: Registry, database: Database
) -> None:
    await registry.ask(replacing(1, 1, 2))
    before = await records(database)
    await registry.ask(replacing(2, 2))
    await registry.ask(replacing(1, 1))
    after = await records(database)
    raised = {
        place: after[place]["version"] - before[place]["version"]
        for place in after
        if after[place] != before[place]
    }
    assert raised == {("persons", 1): 2, ("persons", 2): 1, ("computers", 2): 1}


async def test_an_owner_that_stays_is_not_changed(registry: Registry, database: Database) -> None:
    await registry.ask(Wish("computer", 1, (1,)))
    before = await records(database)
    made = await registry.ask(Wish("computer", 1, (1,), serial="SN-1"))
    assert made["serial"] == "SN-1"
    after = await records(database)
    assert [place for place in after if after[place] != before[place]] == [("computers", 1)]


def random_wish(choose: random.Random) -> Wish:
    number = choose.choice([*range(1, PERSONS + 1)] * 5 + [MISSING])
    computers = choose.sample([*range(1, COMPUTERS + 1)] * 5 + [MISSING], choose.randint(0, 4))
    if choose.random() < 0.6:
        return Wish("person", number, tuple(computers), choose.choice(list(Mode)))
    owner = (number,) if choose.random() < 0.8 else ()
    serial = choose.choice([None, f"SN-{choose.random()}"])
    return Wish("computer", choose.choice([*computers, 1]), owner, serial=serial)


@pytest.mark.parametrize("seed", range(6))
async def test_changes_at_once_are_as_if_made_one_after_another(
    registry: Registry, database: Database, seed: int
) -> None:
    choose, model = random.Random(seed), Model()  # noqa: S311 - the same in every run
    for _ in range(6):
        before = await records(database)
        wishes = [random_wish(choose) for _ in range(choose.randint(1, 30))]
        made = await registry.ask_all(wishes)
        links = [(model.make(wish), dict(model.owners)) for wish in wishes]
        seen: dict[tuple[str, int], int] = {}
        for wish, answer, (possible, owners) in zip(wishes, made, links, strict=True):
            if not possible:
                assert isinstance(answer, RecordNotFound)
                assert (answer.missing[0][1] is None) == (possible is None)
                continue
            assert isinstance(answer, dict)
            place = f"{wish.type}s", wish.number
            assert answer["version"] > seen.get(place, before[place]["version"])
            seen[place] = answer["version"]
            if not wish.to_many:
                assert answer["person"] == owners[wish.number]
        after = await records(database)
        for number, owner in model.owners.items():
            record, old = after["computers", number], before["computers", number]
            assert (record["person"], record["serial"]) == (owner, model.serials[number])
            for moved in {owner, old["person"]} - {None} if owner != old["person"] else ():
                assert after["persons", moved]["version"] > before["persons", moved]["version"]
                assert record["version"] > old["version"]
        assert all(after[place]["version"] >= version for place, version in seen.items())


async def test_attributes_and_links_that_change_at_once_are_all_there(
    registry: Registry, api: Api, database: Database
) -> None:
    """Others write the same documents past the transaction, and make it begin anew."""

    async def rename(number: int, name: str) -> int:
        data = {"type": "person", "attributes": {"first_name": name}}
        return (await api.patch(f"/persons/{number}", data)).status

    for turn in range(10):
        names = [rename(number, f"F{turn}") for number in range(1, PERSONS + 1)]
        wishes = [replacing(number, number, PERSONS + 1) for number in range(1, PERSONS + 1)]
        renamed, made = await asyncio.gather(asyncio.gather(*names), registry.ask_all(wishes))
        assert renamed == [200] * PERSONS
        assert all(isinstance(answer, dict) for answer in made)
        found = await records(database)
        for number in range(1, PERSONS + 1):
            person = found["persons", number]
            assert (person["first_name"], person["full_name"]) == (f"F{turn}", f"F{turn} Lovelace")
            assert found["computers", number]["person"] == number
            assert person["version"] >= 1 + 2 * (turn + 1)
        assert found["computers", PERSONS + 1]["person"] == PERSONS


async def test_a_record_that_the_database_refuses_fails_alone(
    registry: Registry, database: Database
) -> None:
    await database.command("collMod", "computers", validator={"serial": {"$ne": "refused"}})
    wish = Wish("computer", 1, (1,))
    fine, refused, last = await registry.ask_all(
        [wish, replace(wish, number=2, serial="refused"), replace(wish, number=3)]
    )
    assert isinstance(refused, Unavailable)
    assert isinstance(fine, dict)
    assert isinstance(last, dict)
    found = await records(database)
    assert [found["computers", number]["person"] for number in (1, 2, 3)] == [1, None, 1]


async def test_who_names_many_does_not_share_a_transaction(
    registry: Registry, database: Database, commands: CommandLog
) -> None:
    many = range(1_000, 2_001)
    await database.computers.insert_many({"_id": number, "person": 5} for number in many)
    wishes = [replacing(1, 1), replacing(2, *many), replacing(3, 2), replacing(4, 3)]
    commands.take("all")
    assert all(isinstance(one, dict) for one in await registry.ask_all(wishes))
    assert commands.take("commitTransaction") == ["1"] * 3
    assert await database.computers.count_documents({"person": 2, "version": 1}) == len(many)


async def test_what_other_tools_have_stored_as_ids_and_keys_is_taken_as_it_is(
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
    assert await registry.ask(replacing(1, 50, 51))
    assert await database.computers.distinct("_id", {"person": 1}) == [50, 51]
    left = await database.computers.find({"_id": {"$in": [{"a": 1}, "text"]}}).to_list(None)
    assert [(one["person"], one["version"]) for one in left] == [(None, 1)] * 2
    found = await records(database)
    assert [found["persons", number]["version"] for number in (1, 2, 3)] == [2, 2, 1]
