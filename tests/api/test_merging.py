"""`Prefer`: to create or update by the value of a unique attribute, and to try a request only."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from registry.http.request_headers import Preferences, read_preferences
from registry.settings import Settings
from registry.storage.writes.unit_of_work import UnitOfWork
from tests.conftest import Header, Serve
from tests.devices import WITH_DEVICES
from tests.support import (
    Api,
    CommandLog,
    Database,
    Response,
    add,
    identifier,
    new,
    stored_records,
    to_many,
    to_one,
    update,
)

MERGE = {"Prefer": "resolution=merge-duplicates"}
ROLL_BACK = {"Prefer": "tx=rollback"}
BOTH = {"Prefer": "tx=rollback, resolution=merge-duplicates"}
APPLIED = "Preference-Applied"
KEY = {"Idempotency-Key": "k"}
ADA = {"first_name": "Ada", "last_name": "Lovelace", "email": "ada@example.com"}


@pytest.fixture
def unique(settings: Settings) -> Settings:
    names = "computer.serial", "person.email", *(f"device.{name}" for name in ("note", "price"))
    return replace(settings, unique=(*names, "device.seen"))


@pytest.fixture
async def api(serve: Serve, unique: Settings) -> Api:
    """The service with further types; most have unique attributes."""
    return await serve(WITH_DEVICES, unique)


async def merge(
    api: Api,
    type_name: str,
    attributes: Any,
    headers: Mapping[str, str] = MERGE,
    query: str = "",
    **links: Any,
) -> Response:
    data = new(type_name, links, **attributes)
    return await api.post(f"/{type_name}s{query}", data, **headers)


def computer(serial: str, links: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return new("computer", links, serial=serial)


async def test_an_idempotency_key_covers_the_preference(api: Api) -> None:
    for key, headers, status in (("k", MERGE, 201), ("other", MERGE, 200)):
        for is_repeated in (False, True):
            sent = {**headers, "Idempotency-Key": key}
            merged = await merge(api, "computer", {"serial": "SN-1"}, sent)
            assert (merged.status, merged.id) == (status, "1")
            assert ("Idempotency-Replayed" in merged.headers) is is_repeated
    third = {**MERGE, "Idempotency-Key": "third"}
    for _ in range(2):
        assert effects(await api.operate(add(computer("SN-1")), **third)) == ["unchanged"]
    plain = await merge(api, "computer", {"serial": "SN-1"}, KEY)
    assert (plain.status, plain.code) == (422, "idempotency_key_reused")


async def everything(database: Database) -> list[Any]:
    """Return all that is stored of resources and of requests."""
    names = ("devices", "assignments", "idempotency_keys")
    more = [await database[name].find().sort("_id").to_list(None) for name in names]
    return [*await stored_records(database), *more]


def effects(response: Response) -> list[str]:
    return [result["meta"]["effect"] for result in response.results]


@pytest.mark.parametrize(
    ("prefer", "merges", "rolls_back"),
    [
        ('RESOLUTION = "merge-duplicates"; a=b', True, False),
        ('a="x, resolution=none", wait=5, resolution=merge-duplicates', True, False),
        ('tx="roll\\back";a="\\",", return=minimal, resolution=merge-duplicates', True, True),
        ("resolution=ignore-duplicates, resolution=merge-duplicates", False, False),
        ('a="b\\", resolution=merge-duplicates', False, False),
        ("resolution=Merge-Duplicates, tx=commit", False, False),
        (" ,;=,", False, False),
        ('"\\' * 30_000, False, False),
        (f"tx={' ' * 60_000}x y", False, False),
    ],
)
def test_preferences_that_are_not_supported_are_ignored(
    prefer: str, merges: bool, rolls_back: bool
) -> None:
    request = make_mocked_request("POST", "/persons", {"Prefer": prefer})
    assert read_preferences(request) == Preferences(merges, rolls_back)


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], tuple[int, str]]] = [
    ("person", {"first_name": "A", "last_name": "B"}, {}, (400, "/attributes")),
    ("person", {"email": "b@example.com", "last_name": "B"}, {}, (422, "first_name")),
    ("person", ADA | {"full_name": "Ada King"}, {}, (422, "/attributes/full_name")),
    ("person", ADA | {"email": "new@example.com", "full_name": "x"}, {}, (422, "full_name")),
    ("person", {"email": "x"}, {}, (422, "/attributes/email")),
    ("person", {"email": "ada@example.com", "first_name": None}, {}, (422, "first_name")),
    ("person", ADA | {"password": "x"}, {}, (422, "/attributes/password")),
    ("person", ADA, {"computers": to_many("9")}, (404, "/computers/data/0/id")),
    ("computer", {"serial": "SN-1"}, {"owner": to_one("9")}, (404, "/owner/data/id")),
    ("computer", {"serial": None}, {}, (422, "/attributes/serial")),
    ("device", {"note": "a", "price": "2.0"}, {}, (409, "/attributes/price")),
    ("device", {"price": "2", "note": "a"}, {}, (409, "/attributes/price")),
]
"""A type, attributes, relationships, and the only error of a merge of these."""


async def test_a_refused_merge_changes_nothing(api: Api, database: Database) -> None:
    await merge(api, "person", ADA)
    await merge(api, "computer", {"serial": "SN-1"})
    for note, price in (("a", "1.00"), ("b", "2.00")):
        await merge(api, "device", {"name": note, "note": note, "price": price})
    before = await everything(database)
    for type_name, attributes, more, error in REFUSED:
        other, refused = add(computer("SN-2")), add(new(type_name, more, **attributes))
        alone = await merge(api, type_name, attributes, **more)
        several = await api.operate(other, refused, **MERGE)
        for response, start in ((alone, "/data"), (several, "/atomic:operations/1/data")):
            ((status, pointer),) = response.errors
            assert (response.status, status) == (error[0], error[0]), pointer
            assert pointer.startswith(start)
            assert pointer.endswith(error[1])
        if error[0] == 409:
            assert alone.document["errors"][0]["links"] == {"about": "/devices/2"}
        assert await everything(database) == before


async def test_merges_without_a_key_are_refused(serve: Serve, api: Api) -> None:
    """`If-Match`, which names a resource, and types without unique attributes are refused."""
    for tag in ("*", '"1-a"'):
        refused = await merge(api, "person", ADA, {**MERGE, "If-Match": tag})
        assert (refused.status, refused.code) == (400, "invalid_merge")
        refused = await api.operate(add(new("person", **ADA)), **MERGE, **{"If-Match": tag})
        assert (refused.status, refused.code) == (400, "invalid_merge")
    plain = await serve()
    for more, pointer in (
        *(({"attributes": value}, "/data/attributes") for value in (ADA, dict[str, str]())),
        ({}, "/data"),
    ):
        refused = await plain.post("/persons", {"type": "person", **more}, **MERGE)
        assert refused.errors == [(400, pointer)]


async def test_null_matches_nothing(api: Api) -> None:
    ids = {(await merge(api, "person", ADA | {"email": None})).id for _ in range(2)}
    assert len(ids) == 2
    first = await merge(api, "device", {"name": "a", "note": "x", "price": None})
    second = await merge(api, "device", {"name": "b", "note": "x", "price": "1"})
    assert (first.status, second.status, second.id) == (201, 200, first.id)


async def test_values_are_equal_if_they_are_in_the_index(api: Api) -> None:
    for name, value, equal in (
        ("note", "a", "a"),
        ("price", "1.50", "1.5000"),
        ("price", "0", "-0.0"),
        ("seen", "2026-02-28T12:30:00.1234Z", "2026-02-28T13:30:00.123+01:00"),
    ):
        assert (await merge(api, "device", {"name": "a", name: value})).status == 201
        merged = await merge(api, "device", {"name": "b", name: equal})
        assert (merged.status, merged.data["attributes"]["name"]) == (200, "b")
        twice = [add(new("device", **{"name": name, name: sent})) for sent in (value, equal)]
        results = (await api.operate(*twice, **MERGE)).results
        assert {result["data"]["id"] for result in results} == {merged.id}


async def test_letters_equal_only_in_the_index_conflict(api: Api) -> None:
    """Such as composed and decomposed ones; at least nothing is stored twice, or merged wrongly."""
    assert (await merge(api, "person", ADA | {"email": "\u00e4da@example.com"})).status == 201
    response = await merge(api, "person", ADA | {"email": "a\u0308da@example.com"})
    assert response.status == 200 or response.errors == [(409, "/data/attributes/email")]
    assert len((await api.get("/persons")).data) == 1


@pytest.mark.parametrize("headers", [{}, MERGE])
async def test_letters_distinct_in_the_index_are_two_values(
    api: Api, headers: Mapping[str, str]
) -> None:
    for name, sent in (("Ada", headers), ("Augusta", MERGE)):
        named = [ADA | {"first_name": name, "email": f"stra{text}e@x.org"} for text in ("ß", "ss")]
        response = await api.operate(*(add(new("person", **person)) for person in named), **sent)
        assert [result["data"]["id"] for result in response.results] == ["1", "2"]
    stored = (await api.get("/persons?fields[person]=first_name,last_name,email")).data
    assert [record["attributes"] for record in stored] == named


async def test_operations_merge_a_person_with_computers(api: Api, database: Database) -> None:
    """Again and again; what other values they had, and who had the computers, is replaced."""
    await api.person(email="grace@example.com")
    await api.computer("SN-1", owner="1")
    await api.computer("SN-9")
    ada = {"type": "person", "lid": "ada"}
    operations = [
        add(new("person", {"computers": to_many("2")}, **ADA), "ada"),
        *(add(computer(f"SN-{n}", {"owner": {"data": ada}})) for n in (1, 2)),
        update(new("person", last_name="King"), lid="ada"),
        add(computer("SN-1", {"owner": {"data": ada}})),
    ]
    first = await api.operate(*operations, **MERGE)
    assert first.headers[APPLIED] == MERGE["Prefer"]
    assert [result["data"]["id"] for result in first.results] == ["2", "1", "3", "2", "1"]
    assert effects(first) == ["created", "updated", "created", "updated", "unchanged"]
    owned = "/persons/2?include=computers"
    assert (await api.get(owned)).included == [("computer", id_) for id_ in "123"]
    again = await api.operate(*operations, **MERGE)
    assert [result["data"]["id"] for result in again.results] == ["2", "1", "3", "2", "1"]
    assert (await api.get(owned)).included == [("computer", id_) for id_ in "123"]
    before = await stored_records(database)
    serials = [add(computer(f"SN-{n}", {"owner": to_one("2")})) for n in (1, 2)]
    same = await api.operate(*serials, **MERGE)
    assert effects(same) == ["unchanged"] * 2
    assert await stored_records(database) == before
    periods = [
        (assignment["computer"], assignment["owner"])
        async for assignment in database.assignments.find()
    ]
    assert sorted(periods) == [(1, 1), (1, 2), (2, 2), (3, 2)]


async def test_operations_see_what_preceding_ones_have_left(api: Api, database: Database) -> None:
    await api.computer("SN-1")
    ref = identifier("computer", "1")
    cases: list[tuple[list[Any], list[str]]] = [
        ([{"op": "remove", "ref": ref}, add(computer("SN-1"))], ["SN-1"]),
        (
            [
                *[update(computer("SN-2"), id="2"), add(computer("SN-1"), "new")],
                {"op": "remove", "ref": {"type": "computer", "lid": "new"}},
                add(computer("SN-2")),
            ],
            ["SN-2"],
        ),
        (
            [
                *[add(computer("A"), "a"), update(computer("B"), lid="a")],
                *[add(computer("A")), add(computer("B"))],
            ],
            ["A", "B", "SN-2"],
        ),
    ]
    for operations, expected in cases:
        response = await api.operate(*operations, **MERGE)
        assert response.status == 200, response.document
        assert (
            sorted([resource["serial"] async for resource in database.computers.find()]) == expected
        )
    changes = [update(computer("A"), lid="c"), update(computer("B"), id="2")]
    taken = [add(computer("C"), "c"), *changes]
    pointers = [f"/atomic:operations/{n}/data/attributes/serial" for n in (1, 2)]
    assert (await api.operate(*taken, **MERGE)).errors == [(409, pointer) for pointer in pointers]


async def test_all_errors_of_a_request_are_reported(api: Api) -> None:
    many = [add(computer(f"SN-{number}")) for number in range(150)]
    await api.operate(*many)
    several = [
        add(computer("new", {"owner": to_one("7")}), "new"),
        update(computer("SN-5"), id="2"),
        update({"type": "computer"}, id="999"),
        update({"type": "computer"}, lid="new"),
        update(computer("SN-6"), id="3"),
    ]
    at, serial = "/atomic:operations/{}/data{}".format, "/attributes/serial"
    missing = [(404, at(0, "/relationships/owner/data/id")), (404, at(2, "/id"))]
    taken = [(409, at(1, serial)), (409, at(4, serial))]
    for headers in (MERGE, {}):
        errors = (await api.operate(*several, **headers)).errors
        assert errors == sorted(missing + taken, key=lambda pair: pair[1])
    several[0] = add(computer("new"), "new")
    del several[2]
    assert (await api.operate(*several)).errors == [(409, at(index, serial)) for index in (1, 3)]
    response = await api.operate(*many)
    assert (response.status, len(response.errors)) == (409, 100)
    assert response.errors[99] == (409, at(99, serial))


async def test_a_rolled_back_request_stores_neither_its_key_nor_a_period(
    api: Api, database: Database
) -> None:
    await api.computer("SN-1", owner=await api.person())
    before = await everything(database)
    headers = {**BOTH, **KEY}
    created = await merge(api, "computer", {"serial": "SN-2"}, headers, owner=to_one("1"))
    assert (created.status, created.data["attributes"]) == (201, {"serial": "SN-2"})
    operations = [
        add(new("person", **ADA), "a"),
        add(computer("X", {"owner": {"data": {"type": "person", "lid": "a"}}})),
    ]
    for prefer in (ROLL_BACK, BOTH):
        assert (await api.operate(*operations, **prefer, **KEY)).status == 200
        missing = await merge(api, "computer", {"serial": "X"}, prefer, owner=to_one("9"))
        assert missing.errors == [(404, "/data/relationships/owner/data/id")]
    assert await everything(database) == before
    committed = await merge(api, "computer", {"serial": "SN-2"}, KEY)
    assert (committed.status, committed.headers.get("Idempotency-Replayed")) == (201, None)


async def test_other_writes_refuse_a_rollback_and_ignore_merging(
    api: Api, database: Database
) -> None:
    await api.computer("SN-1", owner=await api.person())
    members = "/persons/1/relationships/computers"
    for method, path, data in (
        *((method, members, list[Any]()) for method in ("POST", "PATCH", "DELETE")),
        ("PATCH", "/computers/1/relationships/owner", None),
        ("PATCH", "/computers/1", computer("X")),
        ("DELETE", "/computers/1", None),
    ):
        before = await everything(database)
        refused = await api.send(method, path, data, **BOTH)
        assert (refused.status, refused.code) == (400, "invalid_preference")
        assert await everything(database) == before
        merged = await api.send(method, path, data, **MERGE, **{"If-Match": "*"})
        assert (merged.status // 100, APPLIED in merged.headers) == (2, False)


async def test_a_rollback_shares_no_transaction_with_requests_that_are_stored(
    api: Api, database: Database
) -> None:
    prefer = [{}, MERGE, ROLL_BACK, BOTH] * 20
    serials = [f"SN-{number}" for number in range(80)]
    pairs = zip(serials, prefer, strict=True)
    sent = (merge(api, "computer", {"serial": value}, headers) for value, headers in pairs)
    assert {response.status for response in await asyncio.gather(*sent)} == {201}
    stored = {resource["serial"] async for resource in database.computers.find()}
    assert stored == {value for number, value in enumerate(serials) if number % 4 < 2}


async def test_a_merge_requires_what_its_update_requires(
    serve: Serve, unique: Settings, header: Header
) -> None:
    api = await serve(settings=replace(unique, auth="on", unique=("computer.serial",)))

    one, both, linked = "computers:write", "computers:write persons:write", {"owner": to_one(None)}
    for scopes, query, links, status in (
        *[(one, "", {}, 201), (one, "", {}, 200), ("computers:read", "", {}, 403)],
        *[(one, "?include=owner", {}, 403), (one, "", linked, 403), (both, "", linked, 200)],
    ):
        headers = MERGE | await header(*scopes.split())
        response = await merge(api, "computer", {"serial": "SN-1"}, headers, query, **links)
        assert response.status == status, (scopes, query)


async def test_ten_clients_of_two_services_store_nothing_twice(
    api: Api, serve: Serve, unique: Settings, database: Database
) -> None:
    services = [api, await serve(WITH_DEVICES, unique)]

    def rows(client: int) -> list[Any]:
        numbers = [(number * 7 + client * 13) % 60 for number in range(60)]
        serials = [f"SN-{number}" for number in numbers]
        return [add(computer(serial)) for serial in serials]

    single = [merge(services[n % 2], "computer", {"serial": f"SN-{n % 60}"}) for n in range(120)]
    requests = [services[client % 2].operate(*rows(client), **MERGE) for client in range(10)]
    responses = await asyncio.gather(*requests, *single)
    assert {response.status for response in responses} <= {200, 201}
    counts = Counter([resource["serial"] async for resource in database.computers.find()])
    assert counts == dict.fromkeys((f"SN-{number}" for number in range(60)), 1)
    created = [response for response in responses[10:] if response.status == 201]
    created_there = sum(effects(response).count("created") for response in responses[:10])
    assert len(created) + created_there == 60


async def test_a_thousand_rows_take_one_query_per_type_and_attribute(
    api: Api, commands: CommandLog
) -> None:
    owners = [add(new("person", **ADA | {"email": f"{n}@example.com"}), f"{n}") for n in range(200)]
    computers = [
        add(computer(f"SN-{n}", {"owner": {"data": {"type": "person", "lid": f"{n % 200}"}}}))
        for n in range(800)
    ]
    for expected in ("created", "unchanged"):
        commands.take("all")
        response = await api.operate(*owners, *computers, **MERGE)
        assert set(effects(response)) == {expected}
        assert commands.names().count("find") <= 5, "one reads the last ids"


async def test_a_merge_with_a_key_that_changes_nothing_shows_the_commit_and_no_replay(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await merge(api, "person", ADA)
    store = UnitOfWork._store

    def change_meanwhile(unit: UnitOfWork, *args: Any) -> None:
        change = {"$set": {"first_name": "Augusta"}, "$inc": {"version": 1}}
        database.delegate.persons.update_one({"_id": 1}, change)
        store(unit, *args)

    monkeypatch.setattr(UnitOfWork, "_store", change_meanwhile)
    response = await merge(api, "person", ADA, MERGE | KEY, "?include=computers")
    assert response.status == 200
    assert "Idempotency-Replayed" not in response.headers
    assert response.data["attributes"]["first_name"] in {"Ada", "Augusta"}
