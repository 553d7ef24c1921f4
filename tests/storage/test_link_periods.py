"""The periods of links: as a plain model has them, after an upgrade, repaired, and forgotten."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.commands.database import forget as forget_command
from registry.jsonapi.changes import Verb
from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import Unavailable
from registry.model.attributes import utc_text
from registry.model.graph import Graph
from registry.model.implicit_attributes import BEGINNING, LASTING
from registry.operations.consistency import Report, check
from registry.resources import RESOURCES
from registry.resources.types_file import TypesFile
from registry.settings import Settings
from registry.storage.writes import link_periods
from registry.storage.writes.new_ids import NewIds
from tests.conftest import Serve
from tests.consistency.model import RELATIONSHIPS, TARGETS, Model
from tests.storage.writing import Registry, insert_fleet
from tests.support import Api, Database

GRAPH = Graph(RESOURCES)

PERSONS, COMPUTERS = 3, 3

MOMENT = datetime(2026, 3, 15, 12, tzinfo=UTC)

Operation = tuple[str, int, Any]
"""The kind of a write, the id of its resource, and what it is linked to."""

persons, computers = st.integers(1, PERSONS), st.integers(1, COMPUTERS)

WRITES: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(st.just("own"), computers, st.none() | persons),
    *(
        st.tuples(
            st.just(verb.value), persons, st.lists(computers, max_size=COMPUTERS, unique=True)
        )
        for verb in Verb
    ),
    st.tuples(st.just("rename"), persons, st.sampled_from(["Ada", "Grace"])),
    st.tuples(st.just("forget computer"), computers, st.none()),
    st.tuples(st.just("forget person"), persons, st.none()),
)


class LinkModel(Model):
    """Also the periods of all links so far."""

    def __init__(self) -> None:
        super().__init__()
        self.periods: list[dict[str, Any]] = []
        for id_ in range(1, PERSONS + 1):
            self.create(("person", id_), {"first_name": "Ada", "last_name": "Lovelace"})
        for id_ in range(1, COMPUTERS + 1):
            self.create(("computer", id_), {})

    def apply(self, kind: str, id_: int, value: Any) -> bool:
        """Apply a write; return whether it is possible."""
        identity = "computer" if kind in {"own", "forget computer"} else "person", id_
        if identity not in self.resources:
            return False
        if kind == "rename":
            self.update(identity, {"first_name": value})
        elif kind.startswith("forget"):
            self.delete(identity)
        else:
            ids = [value] if isinstance(value, int) else value or []
            target = TARGETS[RELATIONSHIPS[identity[0]]]
            if kind != "remove" and not self.resources.keys() >= {(target, one) for one in ids}:
                return False
            {"add": self.add, "remove": self.remove}.get(kind, self.replace)(identity, ids)
        return True

    def _set_owner(self, computer: int, owner: int | None) -> None:
        before = self.owners[computer]
        super()._set_owner(computer, owner)
        if owner == before:
            return
        if before is not None:
            (lasting,) = [one for one in self.periods if one["lasts"] and one["of"] == computer]
            lasting |= {"lasts": False, "name": self.value(("person", before), "full_name")}
        if owner is not None:
            self.periods.append({"of": computer, "by": owner, "lasts": True, "name": None})


def write_of(registry: Registry, kind: str, id_: int, value: Any) -> Any:
    if kind == "own":
        return registry.update(("computer", id_), owner=value)
    if kind == "rename":
        return registry.update(("person", id_), first_name=value)
    if kind.startswith("forget"):
        return registry.delete((kind.removeprefix("forget "), id_))
    return registry.update(("person", id_), computers=value, verb=Verb(kind))


def lines(report: Report) -> list[str]:
    return [
        str(one)
        for rule in report.rules
        for one in rule.listed
        if "assignment" in str(one) or "period" in str(one)
    ]


async def periods(database: Database) -> list[Any]:
    """Return all periods, by computer and then by time."""
    found = await database.assignments.find().sort([("computer", 1), ("since", 1)]).to_list(None)
    for one, following in pairwise(found):
        assert one["since"] < one["until"]
        if one["computer"] == following["computer"]:
            assert one["until"] <= following["since"]
    return found


@given(writes=st.lists(WRITES, min_size=1, max_size=20), frozen=st.booleans())
@settings(max_examples=25)
async def test_periods_are_those_of_a_model(
    api: Api, database: Database, writes: list[Operation], *, frozen: bool
) -> None:
    for name in ("persons", "computers", "assignments"):
        await database[name].delete_many({})
    await insert_fleet(database, PERSONS, COMPUTERS)
    registry, model = Registry(api), LinkModel()
    with pytest.MonkeyPatch.context() as patch:
        if frozen:  # all writes at the same millisecond
            module = "registry.storage.writes.unit_of_work.current_time"
            patch.setattr(module, lambda: utc_text(MOMENT))
        for write in writes:
            is_possible = model.apply(*write)
            try:
                await registry.write(write_of(registry, *write))
            except RequestError:
                assert not is_possible, write
            else:
                assert is_possible, write
    expected = sorted(model.periods, key=lambda one: one["of"])
    stored = await periods(database)
    assert [
        {
            "of": one["computer"],
            "by": one["owner"],
            "lasts": one["until"] == LASTING,
            "name": one.get("owner_name"),
        }
        for one in stored
    ] == expected
    await check_moments(api, stored)
    assert lines(await check(database, GRAPH)) == []


async def check_moments(api: Api, stored: list[Any]) -> None:
    """Check that the filter selects what is in force, around each beginning and end."""
    bounds = {one[name] for one in stored for name in ("since", "until")}
    step = timedelta(milliseconds=1)
    moments = {
        bound + shift
        for bound in bounds - {BEGINNING, LASTING}
        for shift in (-step, 0 * step, step)
    }
    for moment in moments | {MOMENT}:
        in_force = [one["_id"] for one in stored if one["since"] <= moment < one["until"]]
        response = await api.get(f"/assignments?filter[at]={utc_text(moment)}&sort=id")
        assert response.ids == [str(id_) for id_ in sorted(in_force)]


async def test_requests_that_share_a_transaction_count_each(api: Api, database: Database) -> None:
    await insert_fleet(database, PERSONS, COMPUTERS)
    registry = Registry(api)
    moves = [[registry.update(("computer", 1), owner=owner)] for owner in (1, 2, None, 3)]
    await registry.write_group(moves)
    found = await periods(database)
    assert [(one["owner"], one["until"] == LASTING) for one in found] == [
        *((1, False), (2, False)),
        (3, True),
    ]


async def as_before_histories(database: Database, computers: int) -> None:
    """Store computers as versions without histories left them, all of them owned."""
    await insert_fleet(database, PERSONS, computers)
    await database.computers.update_many(
        {}, [{"$set": {"person": {"$add": [{"$mod": ["$_id", PERSONS]}, 1]}}}]
    )
    await database.counters.update_many({}, {"$unset": {"complete": True}})
    await database.counters.delete_one({"_id": "assignment"})


async def test_older_links_get_exactly_one_period_during_writes(
    serve: Serve, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_ = 60
    monkeypatch.setattr(link_periods, "_BATCH_SIZE", 5)
    await as_before_histories(database, count_)
    apis = [await serve(catch_up=False) for _ in range(2)]
    writers = [Registry(api) for api in apis]

    async def move(n: int) -> None:
        registry = writers[n % 2]
        with suppress(RequestError):
            await registry.write(registry.update(("computer", n), owner=n % 4 or None))

    await asyncio.gather(*map(move, range(1, count_, 2)))
    for registry in writers:
        await registry.repository.catch_up()
    found = await periods(database)
    assert [one["computer"] for one in found if one["since"] == BEGINNING] == [
        *range(1, count_ + 1)
    ]
    moved = [one["computer"] for one in found if one["since"] != BEGINNING]
    assert len(moved) == len(set(moved))
    for one in found:
        assert one["owner"] == one["computer"] % PERSONS + 1 or one["since"] != BEGINNING
    assert (await check(database, GRAPH)).total == 0
    response = await apis[0].get(
        "/assignments?filter[since][null]=true&page[size]=1&page[number]=1"
    )
    assert response.document["meta"]["total"] == count_
    assert response.data[0]["attributes"]["since"] is None


async def test_an_interrupted_upgrade_is_continued(
    serve: Serve, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await as_before_histories(database, 20)
    monkeypatch.setattr(link_periods, "_BATCH_SIZE", 5)
    repair, calls = link_periods.LinkPeriods.repair, count()
    interruption = asyncio.Event()

    async def interrupted(self: Any, ids: Any) -> None:
        if next(calls) == 2:
            interruption.set()
            raise asyncio.CancelledError
        await repair(self, ids)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link_periods.LinkPeriods, "repair", interrupted)
        api = await serve(catch_up=False)
        await interruption.wait()
    assert await database.assignments.count_documents({}) == 10
    await api.client.close()
    await serve()
    assert [one["computer"] for one in await periods(database)] == [*range(1, 21)]


@pytest.mark.parametrize("owner", [None, 2])
async def test_the_next_change_is_later_than_a_repair(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch, owner: int | None
) -> None:
    await insert_fleet(database, PERSONS, COMPUTERS)
    registry = Registry(api)
    await registry.write(registry.update(("computer", 1), owner=1))
    await database.computers.update_one({"_id": 1}, {"$set": {"person": owner}})
    await check(database, GRAPH, repair=True)
    module = "registry.storage.writes.unit_of_work.current_time"
    monkeypatch.setattr(module, lambda: utc_text(MOMENT))  # the clock is behind
    await registry.write(registry.update(("computer", 1), owner=3))
    assert [one["owner"] for one in await periods(database)] == (
        [1, 3] if owner is None else [1, 2, 3]
    )
    assert lines(await check(database, GRAPH)) == []


CASES = """
[case]
collection = "cases"
serial = {type = "text", required = true}
owner  = {link = "person", inverse = "owned_cases"}
keeper = {link = "person", inverse = "kept_cases"}
"""


async def test_a_request_that_fails_at_its_second_link_leaves_no_period(
    serve: Serve, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = await serve(settings=replace(settings, types=TypesFile("t.toml", CASES)))
    await database.persons.insert_one(
        {"_id": 1, "first_name": "Ada", "last_name": "L", "version": 1}
    )
    registry = Registry(api)
    take = NewIds.take

    def fail(self: NewIds, type_name: str) -> int:
        if type_name == "case_keeper_period":
            raise Unavailable
        return take(self, type_name)

    monkeypatch.setattr(NewIds, "take", fail)
    both = registry.create("case", -1, serial="x", owner=1, keeper=1)
    one = registry.create("case", -1, serial="y", owner=1)
    failed, done = await registry.write_group([[both], [one]])
    assert isinstance(failed, Unavailable)
    assert isinstance(done, list)
    assert [one["case"] async for one in database.case_owner_periods.find()] == [
        done[0].record["_id"]
    ]


async def test_a_deleted_person_is_forgotten(
    api: Api,
    mongodb_uri: str,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MONGODB_URI", mongodb_uri)
    monkeypatch.setenv("REGISTRY_DATABASE", settings.database)
    ada, grace = await api.person("Ada", "Lovelace"), await api.person()
    for number in range(2):
        await api.computer(f"SN-{number}", owner=ada)
    await api.computer("SN-2", owner=grace)
    with pytest.raises(SystemExit) as caught:
        await asyncio.to_thread(forget_command, ["person", ada])
    assert caught.value.code == 1
    assert f"person {ada} exists: delete it first, DELETE /persons/{ada}" in capsys.readouterr().err
    await api.request("DELETE", f"/persons/{ada}")
    for text in (
        "Removed the copied attributes of person 1 from 2 assignments in the database ",
        "No assignment has copied attributes of person 1 in the database ",
    ):
        await asyncio.to_thread(forget_command, ["person", ada])
        assert capsys.readouterr().err.startswith(text)
    names = [
        one["attributes"]["owner_name"] for one in (await api.get("/assignments?sort=id")).data
    ]
    assert names == [None, None, "Grace Hopper"]
    assert (await api.get("/assignments?filter[owner_name][null]=true")).ids == ["1", "2"]
    assert (await api.get(f"/assignments?filter[owner]={ada}")).ids == ["1", "2"]
