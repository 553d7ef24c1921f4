"""Unique attributes: 409 for a value that another resource has, and nothing is changed."""

import asyncio
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from registry.protocol import OPERATIONS
from registry.settings import Settings
from tests.conftest import Serve
from tests.devices import WITH_DEVICES
from tests.support import (
    Api,
    CommandLog,
    Database,
    Response,
    add,
    identifier,
    new,
    set_counters,
    stored_records,
    to_one,
    update,
)

OWNER = {"owner": to_one("1")}
KEY = {"Idempotency-Key": "k"}

SERIAL = "/data/attributes/serial"


def named(serial: str, links: Any = None) -> dict[str, Any]:
    return new("computer", links, serial=serial)


def added(serial: str) -> dict[str, Any]:
    return add(named(serial))


def change(id_: str, serial: str) -> dict[str, Any]:
    return update(named(serial), id=id_)


def remove(id_: str) -> dict[str, Any]:
    return {"op": "remove", "ref": identifier("computer", id_)}


@pytest.fixture
def unique(settings: Settings) -> Settings:
    return replace(settings, unique=("computer.serial", "person.email"))


@pytest.fixture
async def api(serve: Serve, unique: Settings) -> Api:
    """The service, in which serials and e-mail addresses are unique."""
    return await serve(settings=unique)


def check_taken(response: Response, pointer: str, about: str | None) -> None:
    """Check that the only error is that a value is taken. about: the resource that has it."""
    (error,) = response.document["errors"]
    assert (response.status, error["status"], error["code"]) == (409, "409", "value_taken")
    assert error["source"] == {"pointer": pointer}
    assert error.get("links") == (about and {"about": about})


async def serials(database: Database) -> list[str]:
    computers = await database.computers.find().sort("_id").to_list(None)
    return [computer["serial"] for computer in computers]


async def test_a_taken_serial_changes_nothing(api: Api, database: Database) -> None:
    await api.person()
    first, second = await api.computer("SN-1"), await api.computer("SN-2")
    for query, links, headers in (
        *product(("", "?include=owner"), ({}, OWNER), [{}]),
        *product([""], ({}, OWNER), [KEY]),
    ):
        before = await stored_records(database)
        for method, path in (("POST", "/computers"), ("PATCH", f"/computers/{second}")):
            taken = await api.send(method, f"{path}{query}", named("SN-1", links), **headers)
            check_taken(taken, SERIAL, f"/computers/{first}")
            assert taken.document["errors"][0]["detail"] == "Another `computer` has this `serial`."
        assert await stored_records(database) == before
    # Also values that the resource itself has, or that another has had.
    for id_, serial in ((second, "SN-2"), (second, "SN-3"), (first, "SN-2"), (second, "sn-2")):
        assert (await api.patch(f"/computers/{id_}", named(serial))).status == 200
    assert await api.create(named("SN-1"))


REJECTED: list[tuple[list[Any], int, str | None]] = [
    ([added("SN-3"), added("SN-1")], 1, "/computers/1"),
    (
        [added("SN-3"), added("SN-4"), change("2", "SN-1"), added("SN-5")],
        2,
        "/computers/1",
    ),
    ([added("SN-3"), added("SN-3")], 1, None),
    ([added("SN-3"), change("1", "SN-3")], 1, None),
    ([added("SN-3"), remove("1"), added("SN-2")], 2, "/computers/2"),
    ([change("1", "SN-2"), change("2", "SN-1")], 0, "/computers/2"),
    ([change("1", "SN-3"), change("1", "SN-2"), change("2", "SN-4")], 1, "/computers/2"),
    ([added("SN-1"), change("1", "SN-3")], 0, "/computers/1"),
]
"""Operations, the index of the one that fails, and the resource that has its value."""

ACCEPTED = [
    ([change("1", "SN-3"), added("SN-1")], {"SN-3", "SN-2", "SN-1"}),
    ([remove("1"), added("SN-1")], {"SN-2", "SN-1"}),
    ([change("1", "SN-3"), change("2", "SN-1")], {"SN-3", "SN-1"}),
    ([change("1", "X"), change("2", "SN-1"), change("1", "SN-2")], {"SN-2", "SN-1"}),
    (
        [added("A"), change("1", "B"), added("SN-1"), change("2", "C")],
        {"B", "C", "A", "SN-1"},
    ),
    ([change("1", "A"), change("1", "SN-1"), added("A")], {"SN-1", "SN-2", "A"}),
]
"""Operations of which some need a value that a preceding one replaces, and the serials after."""


async def test_operations_with_a_taken_value_change_nothing(api: Api, database: Database) -> None:
    await api.computer("SN-1")
    await api.computer("SN-2")
    before = await stored_records(database)
    for operations, index, about in REJECTED:
        refused = await api.operate(*operations)
        check_taken(refused, f"/{OPERATIONS}/{index}/data/attributes/serial", about)
        assert await stored_records(database) == before


async def test_operations_see_values_of_preceding_ones(api: Api, database: Database) -> None:
    stored = [{"_id": number, "serial": f"SN-{number}", "version": 1} for number in (1, 2)]
    for operations, expected in ACCEPTED:
        await database.computers.delete_many({})
        await database.computers.insert_many(stored)
        await set_counters(database)
        assert (await api.operate(*operations)).status == 200, operations
        assert set(await serials(database)) == expected
        assert len(await serials(database)) == len(expected)


async def test_one_of_concurrent_creations_with_one_serial_succeeds(
    api: Api, database: Database
) -> None:
    await api.person()
    for prefix, links in (("a", {}), ("b", OWNER)):
        names = [f"{prefix}{number % 8}" for number in range(40)]
        sent = (api.post("/computers", named(name, links)) for name in names)
        pairs = list(zip(names, await asyncio.gather(*sent), strict=True))
        created = {name: value.id for name, value in pairs if value.status == 201}
        stored = [serial for serial in await serials(database) if serial[0] == prefix]
        assert sorted(stored) == sorted(created) == sorted(set(names))
        for name, response in pairs:
            if response.status != 201:
                check_taken(response, SERIAL, f"/computers/{created[name]}")


async def test_attributes_of_every_type_can_be_unique(serve: Serve, settings: Settings) -> None:
    names = ("note", "bought", "seen", "price", "size")
    unique = tuple(f"device.{name}" for name in names)
    api = await serve(WITH_DEVICES, replace(settings, unique=unique))
    for name, value, equal, different in (
        ("note", "a", "a", "A"),
        ("bought", "2026-02-28", "2026-02-28", "2026-02-27"),
        ("seen", "2026-02-28T12:30:00Z", "2026-02-28T13:30:00+01:00", "2026-02-28T12:30:01Z"),
        ("price", "1.50", "1.5", "1.51"),
        ("size", 2**62, 2**62, 2**62 + 1),
    ):
        id_ = await api.create(new("device", **{"name": "Router", name: value}))
        taken = await api.post("/devices", new("device", **{"name": "Router", name: equal}))
        check_taken(taken, f"/data/attributes/{name}", f"/devices/{id_}")
        await api.create(new("device", **{"name": "Router", name: different}))
    for _ in range(2):
        await api.create(new("device", name="Router", note=None))


@pytest.mark.budget
async def test_a_taken_value_is_found_before_anything_is_written(
    api: Api, commands: CommandLog
) -> None:
    await api.computer("SN-1")
    id_ = await api.computer("SN-2")
    for method, path in (("POST", "/computers"), ("PATCH", f"/computers/{id_}")):
        commands.take("all")
        assert (await api.send(method, path, named("SN-1"))).status == 409
        assert commands.names() == ["find", "find", "commitTransaction"]
