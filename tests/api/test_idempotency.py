"""Requests with an `Idempotency-Key` are executed once; repeated ones get the stored result."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from multidict import CIMultiDict

from registry.protocol import OPERATIONS
from tests.conftest import Serve
from tests.devices import WITH_DEVICES
from tests.support import Api, Database, Response, stored_records, to_many

KEY = '"8e03978e-40d5-43e8-bc93-6894a57f9324"'

REPLAYED = "Idempotency-Replayed"

PERSON = {"type": "person", "attributes": {"first_name": "Ada", "last_name": "Lovelace"}}
COMPUTER = {"type": "computer", "attributes": {"serial": "SN-1"}}
OWNED = COMPUTER | {"relationships": {"owner": {"data": {"type": "person", "id": "1"}}}}


async def send(
    api: Api, path: str, data: Any, *keys: str, method: str = "POST", **headers: str
) -> Response:
    """Send primary data, or a list of operations, with these values of the header."""
    body = {OPERATIONS if path == "/operations" else "data": data}
    sent = CIMultiDict(headers)
    sent.extend(("Idempotency-Key", key) for key in keys)
    return await api.request(method, path, body, sent)


def is_replayed(response: Response) -> bool:
    return response.headers.get(REPLAYED) == "true"


async def send_twice(api: Api, path: str, data: Any, **headers: str) -> tuple[Response, Response]:
    """Send a request, and repeat it after what it has created was changed and deleted."""
    first = await send(api, path, data, KEY, **headers)
    for id_ in ("2", "1"):
        await api.patch(f"/persons/{id_}", {"type": "person", "attributes": {"last_name": "King"}})
        await api.request("DELETE", f"/computers/{id_}")
    return first, await send(api, path, data, KEY, **headers)


def check_replayed(first: Response, second: Response) -> None:
    """Check that the responses are equal except for the header that says so."""
    assert first.status in {200, 201, 204}, first.document
    assert not is_replayed(first)
    assert is_replayed(second)
    assert (second.status, second.document) == (first.status, first.document)
    ignored = {REPLAYED, "X-Request-ID", "Date"}
    headers = [{**one.headers} for one in (first, second)]
    before, after = ({name: one[name] for name in one.keys() - ignored} for one in headers)
    assert after == before


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/persons", PERSON),
        ("/persons?fields[person]=full_name", PERSON),
        ("/persons?include=", PERSON),
        ("/persons?include=computers", PERSON),
        ("/computers", OWNED),
    ],
)
async def test_a_repeated_creation_has_the_first_response(
    api: Api, database: Database, path: str, data: Any
) -> None:
    await api.person()
    first, second = await send_twice(api, path, data)
    check_replayed(first, second)
    assert {"Location", "ETag"} <= second.headers.keys()
    collection = path[1:].partition("?")[0]
    expected = 2 if collection == "persons" else 0  # with the first one; the computer is deleted
    assert await database[collection].count_documents({}) == expected


async def test_included_resources_of_a_repeated_creation_are_the_present_ones(api: Api) -> None:
    await api.person("Grace")
    first, second = await send_twice(api, "/computers?include=owner", OWNED)
    assert is_replayed(second)
    assert second.document["data"] == first.document["data"]
    names = [one.document["included"][0]["attributes"]["last_name"] for one in (first, second)]
    assert names == ["Hopper", "King"]


async def test_values_of_all_types_are_the_same_in_a_repeated_creation(serve: Serve) -> None:
    api = await serve(WITH_DEVICES)
    attributes = {
        "name": "ä\u2028",
        "bought": "2026-02-28",
        "seen": "2026-02-28T12:00:00.123456+02:00",
        "price": "1.00",
        "size": 2**53 + 1,
        "active": True,
    }
    data = {"type": "device", "attributes": attributes}
    check_replayed(*[await send(api, "/devices", data, KEY) for _ in range(2)])


async def test_a_repeated_addition_of_members_adds_none_again(api: Api) -> None:
    person, computer = await api.person(), await api.computer()
    path, members = f"/persons/{person}/relationships/computers", to_many(computer)["data"]
    etag = (await api.get(f"/persons/{person}")).headers["ETag"]
    first = await send(api, path, members, KEY, **{"If-Match": etag})
    assert (await api.request("DELETE", path, {"data": members})).status == 204
    second = await send(api, path, members, KEY, **{"If-Match": etag})
    check_replayed(first, second)
    assert (await api.get(path)).data == []


async def test_repeated_operations_have_the_first_results(api: Api, database: Database) -> None:
    await api.person("Grace")
    # So that ids of computers, which the requests allocate, are those of other persons.
    await asyncio.gather(*(api.computer(str(number)) for number in range(3)))
    owner = {"owner": {"data": {"type": "person", "lid": "ada"}}}
    operations = [
        {"op": "add", "data": PERSON | {"lid": "ada"}},
        {"op": "add", "data": COMPUTER | {"relationships": owner}},
        {"op": "update", "data": PERSON | {"id": "1"}},
        {
            "op": "add",
            "ref": {"type": "person", "id": "1", "relationship": "computers"},
            "data": to_many("3")["data"],
        },
        {"op": "remove", "ref": {"type": "computer", "id": "2"}},
    ]
    first = await send(api, "/operations", operations, KEY)
    before = await stored_records(database)
    second = await send(api, "/operations", operations, KEY)
    check_replayed(first, second)
    assert await stored_records(database) == before
    assert second.document["atomic:results"][1]["data"]["relationships"]["owner"]["data"] == {
        "type": "person",
        "id": "2",
    }


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/persons", PERSON | {"attributes": {"first_name": "Ada", "last_name": "King"}}),
        ("/persons?fields[person]=email", PERSON),
        ("/computers", COMPUTER),
        ("/persons/1/relationships/computers", []),
        ("/operations", [{"op": "add", "data": PERSON}]),
    ],
)
async def test_another_request_with_the_same_key_is_refused_and_changes_nothing(
    api: Api, database: Database, path: str, data: Any
) -> None:
    await send(api, "/persons", PERSON, KEY)
    before = await stored_records(database)
    refused = await send(api, path, data, KEY)
    assert (refused.status, refused.code) == (422, "idempotency_key_reused")
    assert await stored_records(database) == before


async def test_a_rejected_request_is_executed_again(api: Api) -> None:
    rejected = await send(api, "/computers", OWNED, KEY)
    assert rejected.status == 404
    await api.person()
    assert (await send(api, "/computers", OWNED, KEY)).status == 201
    assert is_replayed(await send(api, "/computers", OWNED, KEY))


async def test_methods_other_than_post_ignore_the_key(api: Api) -> None:
    id_ = await api.person()
    for name in ("King", "Lovelace"):
        data = {"type": "person", "attributes": {"last_name": name}}
        reply = await send(api, f"/persons/{id_}", data, "not valid", method="PATCH")
        assert reply.document["data"]["attributes"]["last_name"] == name
    deleted = await api.request("DELETE", f"/persons/{id_}", headers={"Idempotency-Key": ""})
    assert deleted.status == 204


@pytest.mark.parametrize(
    ("path", "data"),
    [("/persons", PERSON), ("/computers", OWNED), ("/operations", [{"op": "add", "data": PERSON}])],
)
async def test_one_of_equal_concurrent_requests_is_executed(
    serve: Serve, api: Api, database: Database, path: str, data: Any
) -> None:
    services = [api, await serve()]
    await api.person()
    before = await stored_records(database)
    replies = await asyncio.gather(*(send(one, path, data, KEY) for one in services * 5))
    assert sum(is_replayed(reply) for reply in replies) == len(replies) - 1
    assert all(reply.document == replies[0].document for reply in replies)
    after = await stored_records(database)
    assert sum(map(len, after)) == sum(map(len, before)) + 1


async def test_one_of_other_requests_with_one_key_is_executed(api: Api, database: Database) -> None:
    everyone = [PERSON | {"attributes": {"first_name": n, "last_name": "L"}} for n in "abcdef"]
    replies = await asyncio.gather(*(send(api, "/persons", one, KEY) for one in everyone))
    assert sorted(reply.status for reply in replies) == [201, *[422] * 5]
    assert await database.persons.count_documents({}) == 1


async def test_results_expire_and_have_no_hidden_fields(api: Api, database: Database) -> None:
    await send(api, "/persons", PERSON, KEY)
    (stored,) = await database.idempotency_keys.find().to_list(None)
    day = stored["expires"].replace(tzinfo=UTC) - datetime.now(UTC)
    assert timedelta(hours=23) < day <= timedelta(hours=24)
    assert "password" not in stored["result"][0]
    indexes = await database.idempotency_keys.index_information()
    assert indexes["expires_1"]["expireAfterSeconds"] == 0
    await database.idempotency_keys.delete_many({})
    assert not is_replayed(await send(api, "/persons", PERSON, KEY))


async def test_a_result_that_is_too_large_is_refused_and_nothing_is_changed(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.jsonapi.operation_documents.MAX_OPERATIONS", 10_000)
    long = "\U0001d11e" * 255
    id_ = await api.person(long, long)
    before = await stored_records(database)
    update = {"op": "update", "data": {"type": "person", "id": id_}}
    refused = await send(api, "/operations", [update] * 8_500, KEY)
    assert (refused.status, refused.code) == (413, "result_too_large")
    assert await stored_records(database) == before
