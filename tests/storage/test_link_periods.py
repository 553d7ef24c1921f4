"""The periods of links: as a plain model has them, after an upgrade, repaired, and forgotten."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
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
from registry.operations.consistency import check
from registry.resources import RESOURCES
from registry.resources.types_file import TypesFile
from registry.settings import Settings
from registry.storage.counters import NewIds
from tests.conftest import Serve
from tests.consistency.model import RELATIONSHIPS, TARGETS, Model
from tests.storage.writing import Registry, insert_fleet
from tests.support import Api, Database, complete_record

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
            if kind != "remove" and not self.resources.keys() >= {(target, item) for item in ids}:
                return False
            {"add": self.add, "remove": self.remove}.get(kind, self.replace)(identity, ids)
        return True

    def _set_owner(self, computer: int, owner: int | None) -> None:
        before = self.owners[computer]
        super()._set_owner(computer, owner)
        if owner == before:
            return
        if before is not None:
            (lasting,) = [
                period for period in self.periods if period["lasts"] and period["of"] == computer
            ]
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


async def periods(database: Database) -> list[Any]:
    """Return all periods, by computer and then by time."""
    found = await database.assignments.find().sort([("computer", 1), ("since", 1)]).to_list(None)
    for period, following in pairwise(found):
        assert period["until"] is None or period["since"] < period["until"]
        if period["computer"] == following["computer"]:
            assert period["until"] <= following["since"]
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
    expected = sorted(model.periods, key=lambda period: period["of"])
    stored = await periods(database)
    assert [
        {
            "of": record["computer"],
            "by": record["owner"],
            "lasts": record["until"] is None,
            "name": record.get("owner_name"),
        }
        for record in stored
    ] == expected
    await check_moments(api, stored)
    assert (await check(database, GRAPH)).lines == []


async def check_moments(api: Api, stored: list[Any]) -> None:
    """Check that the filter selects what is in force, around each beginning and end."""
    bounds = {record[name] for record in stored for name in ("since", "until")}
    step = timedelta(milliseconds=1)
    moments = {bound + shift for bound in bounds - {None} for shift in (-step, 0 * step, step)}
    for moment in moments | {MOMENT}:
        in_force = [
            record["_id"]
            for record in stored
            if record["since"] <= moment and (record["until"] is None or moment < record["until"])
        ]
        response = await api.get(f"/assignments?filter[at]={utc_text(moment)}&sort=id")
        assert response.ids == [str(id_) for id_ in sorted(in_force)]


async def test_requests_that_share_a_transaction_count_each(api: Api, database: Database) -> None:
    await insert_fleet(database, PERSONS, COMPUTERS)
    registry = Registry(api)
    moves = [[registry.update(("computer", 1), owner=owner)] for owner in (1, 2, None, 3)]
    await registry.write_group(moves)
    found = await periods(database)
    assert [(period["owner"], period["until"] is None) for period in found] == [
        *((1, False), (2, False)),
        (3, True),
    ]


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
    api = await serve(settings=replace(settings, types=TypesFile(CASES)))
    await database.persons.insert_one(
        complete_record({"_id": 1, "first_name": "Ada", "last_name": "L"})
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
    assert [period["case"] async for period in database.case_owner_periods.find()] == [
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
    for person in (ada, grace):
        await api.request("DELETE", f"/persons/{person}")
    for text in (
        "Removed the copied attributes of person 1 from 2 assignments in the database ",
        "No assignment has copied attributes of person 1 in the database ",
    ):
        await asyncio.to_thread(forget_command, ["person", ada])
        assert capsys.readouterr().err.startswith(text)
    names = [
        resource["attributes"]["owner_name"]
        for resource in (await api.get("/assignments?sort=id")).data
    ]
    assert names == [None, None, "Grace Hopper"]
    assert (await api.get("/assignments?filter[owner_name][null]=true")).ids == ["1", "2"]
    assert (await api.get(f"/assignments?filter[owner]={ada}")).ids == ["1", "2"]
