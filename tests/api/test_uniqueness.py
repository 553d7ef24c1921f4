"""Unique attributes: 409 for a value that another resource has, and nothing is changed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from registry.protocol import OPERATIONS
from registry.settings import Settings
from tests.conftest import Grant, Serve
from tests.devices import WITH_DEVICES
from tests.support import Api, CommandLog, Database, Response, stored_records

OWNER: dict[str, Any] = {"relationships": {"owner": {"data": {"type": "person", "id": "1"}}}}
KEY = {"Idempotency-Key": "k"}

SERIAL, EMAIL = "/data/attributes/serial", "/data/attributes/email"


@pytest.fixture
def unique(settings: Settings) -> Settings:
    return replace(settings, unique=("computer.serial", "person.email"))


@pytest.fixture
async def api(serve: Serve, unique: Settings) -> Api:
    """The service, in which serials and e-mail addresses are unique."""
    return await serve(settings=unique)


def computer(serial: str, **more: Any) -> dict[str, Any]:
    return {"type": "computer", "attributes": {"serial": serial}, **more}


def add(serial: str, **more: Any) -> dict[str, Any]:
    return {"op": "add", "data": computer(serial, **more)}


def update(id_: str, serial: str) -> dict[str, Any]:
    return {"op": "update", "data": computer(serial, id=id_)}


def remove(id_: str) -> dict[str, Any]:
    return {"op": "remove", "ref": {"type": "computer", "id": id_}}


async def create(
    api: Api, serial: str, query: str = "", headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    body = {"data": computer(serial, **more)}
    return await api.request("POST", f"/computers{query}", body, headers)


async def rename(api: Api, id_: str, serial: str, query: str = "", **more: Any) -> Response:
    return await api.patch(f"/computers/{id_}{query}", computer(serial, **more))


def check_taken(response: Response, pointer: str, about: str | None) -> None:
    """Check that the only error is that a value is taken. about: the resource that has it."""
    (error,) = response.document["errors"]
    assert (response.status, error["status"], error["code"]) == (409, "409", "value_taken")
    assert error["source"] == {"pointer": pointer}
    assert error.get("links") == (about and {"about": about})


async def serials(database: Database) -> list[str]:
    computers = await database.computers.find().sort("_id").to_list(None)
    return [one["serial"] for one in computers]


async def test_a_computer_with_a_taken_serial_is_not_created(api: Api, database: Database) -> None:
    await api.person()
    await api.computer("SN-1")
    id_ = await api.computer("SN-2")
    before = await stored_records(database)
    for query, headers, more in (
        ("", {}, {}),
        ("", KEY, {}),
        ("", {}, OWNER),
        ("", KEY, OWNER),
        ("?include=owner", {}, {}),
    ):
        response = await create(api, "SN-2", query, headers, **more)
        check_taken(response, SERIAL, f"/computers/{id_}")
        assert response.document["errors"][0]["detail"] == "Another `computer` has this `serial`."
    assert await stored_records(database) == before
    assert (await create(api, "sn-2")).status == 201


async def test_a_computer_does_not_get_a_taken_serial(api: Api, database: Database) -> None:
    await api.person()
    first, second = await api.computer("SN-1"), await api.computer("SN-2")
    for query, more in product(("", "?include=owner"), ({}, OWNER)):
        before = await stored_records(database)
        taken = await rename(api, second, "SN-1", query, **more)
        check_taken(taken, SERIAL, f"/computers/{first}")
        assert await stored_records(database) == before
        for id_, serial in ((second, "SN-3"), (second, "SN-3"), (first, "SN-2"), (first, "SN-1")):
            assert (await rename(api, id_, serial, query, **more)).status == 200
        assert (await rename(api, second, "SN-2", query, **more)).status == 200


async def test_e_mail_addresses_are_compared_without_case(api: Api) -> None:
    person = await api.person(email="Grace.Hopper@Example.com")
    attributes = {"first_name": "G", "last_name": "H", "email": "grace.hopper@EXAMPLE.com"}
    response = await api.post("/persons", {"type": "person", "attributes": attributes})
    check_taken(response, EMAIL, f"/persons/{person}")
    other = await api.person(email="gracehopper@example.com")
    await api.person(email="gräce.hopper@example.com")
    data = {"type": "person", "attributes": {"email": "grace.hopper@example.com"}}
    changed = await api.patch(f"/persons/{person}", data)
    assert changed.data["attributes"]["email"] == "grace.hopper@example.com"
    check_taken(await api.patch(f"/persons/{other}", data), EMAIL, f"/persons/{person}")
    assert (await api.get("/persons?filter[email]=grace.hopper@example.com")).ids == [person]
    assert (await api.get("/persons?filter[email]=Grace.Hopper@Example.com")).ids == []


async def test_any_number_of_persons_have_no_e_mail_address(api: Api, database: Database) -> None:
    await database.persons.insert_many(
        {"_id": id_, "first_name": "A", "last_name": "B"} for id_ in (8, 9)
    )
    ids = [await api.person(), await api.person(email=None)]
    ids += [await api.person(email=email) for email in ("g@x.org", "h@x.org")]
    data = {"type": "person", "attributes": {"email": None}}
    for id_ in ids:
        assert (await api.patch(f"/persons/{id_}", data)).status == 200


async def test_a_conflict_is_not_the_result_of_an_idempotency_key(api: Api) -> None:
    first = await api.computer("SN-1")
    assert (await create(api, "SN-1", headers=KEY)).status == 409
    await api.request("DELETE", f"/computers/{first}")
    created = await create(api, "SN-1", headers=KEY)
    repeated = await create(api, "SN-1", headers=KEY)
    assert (created.status, repeated.status) == (201, 201)
    assert repeated.headers["Idempotency-Replayed"] == "true"
    assert repeated.id == created.id


REJECTED: list[tuple[list[Any], int, str | None]] = [
    ([add("SN-3"), add("SN-1")], 1, "/computers/1"),
    ([add("SN-3"), add("SN-4"), update("2", "SN-1"), add("SN-5")], 2, "/computers/1"),
    ([add("SN-3"), add("SN-3")], 1, None),
    ([add("SN-3"), update("1", "SN-3")], 1, None),
    ([add("SN-3"), remove("1"), add("SN-2")], 2, "/computers/2"),
    ([update("1", "SN-2"), update("2", "SN-1")], 0, "/computers/2"),
    ([update("1", "SN-3"), update("1", "SN-2"), update("2", "SN-4")], 1, "/computers/2"),
    ([add("SN-1"), update("1", "SN-3")], 0, "/computers/1"),
]
"""Operations, the index of the one that fails, and the resource that has its value."""

ACCEPTED = [
    ([update("1", "SN-3"), add("SN-1")], {"SN-3", "SN-2", "SN-1"}),
    ([remove("1"), add("SN-1")], {"SN-2", "SN-1"}),
    ([update("1", "SN-3"), update("2", "SN-1")], {"SN-3", "SN-1"}),
    ([update("1", "X"), update("2", "SN-1"), update("1", "SN-2")], {"SN-2", "SN-1"}),
    ([add("A"), update("1", "B"), add("SN-1"), update("2", "C")], {"B", "C", "A", "SN-1"}),
    ([update("1", "A"), update("1", "SN-1"), add("A")], {"SN-1", "SN-2", "A"}),
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
    stored = [{"_id": number, "serial": f"SN-{number}"} for number in (1, 2)]
    for operations, expected in ACCEPTED:
        await database.computers.delete_many({})
        await database.computers.insert_many(stored)
        assert (await api.operate(*operations)).status == 200, operations
        assert set(await serials(database)) == expected
        assert len(await serials(database)) == len(expected)


@pytest.mark.parametrize(("headers", "more"), [({}, {}), (KEY, {}), ({}, OWNER)])
async def test_one_of_concurrent_creations_with_one_serial_succeeds(
    api: Api, database: Database, headers: dict[str, str], more: Any
) -> None:
    await api.person()
    names = [f"SN-{number % 8}" for number in range(40)]
    responses = await asyncio.gather(
        *(
            create(api, name, headers=dict.fromkeys(headers, f"{number}"), **more)
            for number, name in enumerate(names)
        )
    )
    created = {
        name: one.id for name, one in zip(names, responses, strict=True) if one.status == 201
    }
    assert Counter(one.status for one in responses) == {201: 8, 409: 32}
    assert sorted(await serials(database)) == sorted(set(names))
    for name, response in zip(names, responses, strict=True):
        if response.status == 409:
            check_taken(response, SERIAL, f"/computers/{created[name]}")


async def test_a_writer_may_follow_the_link(serve: Serve, unique: Settings, grant: Grant) -> None:
    api = await serve(settings=replace(unique, auth="on"))
    headers = {"Authorization": f"Bearer {await grant('computers:write')}"}
    assert (await create(api, "SN-1", headers=headers)).status == 201
    response = await create(api, "SN-1", headers=headers)
    check_taken(response, SERIAL, "/computers/1")
    assert (await api.get("/computers/1", **headers)).status == 200


async def test_attributes_of_every_type_can_be_unique(serve: Serve, settings: Settings) -> None:
    names = ("note", "bought", "seen", "price", "size")
    unique = tuple(f"device.{name}" for name in names)
    api = await serve(WITH_DEVICES, replace(settings, unique=unique))

    async def post(**attributes: Any) -> Response:
        data = {"type": "device", "attributes": {"name": "Router", **attributes}}
        return await api.post("/devices", data)

    for name, value, equal, different in (
        ("note", "a", "a", "A"),
        ("bought", "2026-02-28", "2026-02-28", "2026-02-27"),
        ("seen", "2026-02-28T12:30:00Z", "2026-02-28T13:30:00+01:00", "2026-02-28T12:30:01Z"),
        ("price", "1.50", "1.5", "1.51"),
        ("size", 2**62, 2**62, 2**62 + 1),
    ):
        created = await post(**{name: value})
        assert created.status == 201
        taken = await post(**{name: equal})
        check_taken(taken, f"/data/attributes/{name}", f"/devices/{created.id}")
        assert (await post(**{name: different})).status == 201
    for _ in range(2):
        assert (await post(note=None)).status == 201


async def test_a_taken_value_takes_two_transactions(api: Api, commands: CommandLog) -> None:
    await api.computer("SN-1")
    id_ = await api.computer("SN-2")
    commands.take("all")
    await create(api, "SN-1")
    assert commands.names() == ["insert", "abortTransaction", "find", "find", "abortTransaction"]
    await rename(api, id_, "SN-1")
    assert commands.names() == [
        "find",
        "update",
        "abortTransaction",
        "find",
        "find",
        "abortTransaction",
    ]
