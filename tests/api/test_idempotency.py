"""Requests with an `Idempotency-Key` are executed once; repeated ones get the stored result."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from registry.resources.types_file import TypesFile
from registry.settings import Settings
from tests.conftest import Serve
from tests.devices import WITH_DEVICES
from tests.support import (
    COMPUTER,
    PERSON,
    REPLAYED,
    Api,
    Database,
    Response,
    add,
    identifier,
    linkage_of,
    new,
    send_with_key,
    stored_records,
    to_many,
    to_one,
    update,
)

OWNED = new("computer", {"owner": to_one("1")}, serial="SN-1")


def check_replayed(first: Response, second: Response) -> None:
    """Check that the responses are equal except for the header that says so."""
    assert first.status in {200, 201, 204}, first.document
    assert REPLAYED not in first.headers
    assert second.headers[REPLAYED] == "true"
    assert (second.status, second.document) == (first.status, first.document)
    ignored = {REPLAYED, "X-Request-ID", "Date"}
    before, after = (
        {name: response.headers[name] for name in response.headers.keys() - ignored}
        for response in (first, second)
    )
    assert after == before


@pytest.mark.parametrize(
    ("path", "data"),
    [
        *((f"/persons{query}", PERSON) for query in ("", "?fields[person]=full_name")),
        *((f"/persons?include={name}", PERSON) for name in ("", "computers")),
        *(("/computers", OWNED), ("/computers?include=owner", OWNED)),
    ],
)
async def test_a_repeated_creation_has_the_first_response(
    api: Api, database: Database, path: str, data: Any
) -> None:
    await api.person()
    first = await send_with_key(api, path, data)
    for id_ in ("2", "1"):  # what it has created is changed and deleted
        await api.patch(f"/persons/{id_}", new("person", last_name="King"))
        await api.delete(f"/computers/{id_}")
    second = await send_with_key(api, path, data)
    if "owner" in path:  # included resources are the present ones
        names = [response.document["included"][0]["attributes"] for response in (first, second)]
        assert [value.pop("last_name") for value in names] == ["Hopper", "King"]
        assert [value.pop("full_name") for value in names] == ["Grace Hopper", "Grace King"]
        assert first.headers["ETag"] != second.headers["ETag"]
        assert (second.data, second.headers[REPLAYED]) == (first.data, "true")
    else:
        check_replayed(first, second)
    assert {"Location", "ETag"} <= second.headers.keys()
    collection = path[1:].partition("?")[0]
    expected = 2 if collection == "persons" else 0  # with the first one; the computer is deleted
    assert await database[collection].count_documents({}) == expected


async def test_values_of_all_types_are_the_same_in_a_repeated_creation(serve: Serve) -> None:
    api = await serve(WITH_DEVICES)
    data = new(
        "device",
        name="ä\u2028",
        bought="2026-02-28",
        seen="2026-02-28T12:00:00.123456+02:00",
        price="1.00",
        size=2**53 + 1,
        active=True,
    )
    check_replayed(*[await send_with_key(api, "/devices", data) for _ in range(2)])


async def test_a_repeated_addition_of_members_adds_none_again(api: Api) -> None:
    person, computer = await api.person(), await api.computer()
    path, members = f"/persons/{person}/relationships/computers", to_many(computer)["data"]
    matching = {"If-Match": (await api.get(f"/persons/{person}")).headers["ETag"]}
    first = await send_with_key(api, path, members, **matching)
    assert (await api.delete(path, members)).status == 204
    check_replayed(first, await send_with_key(api, path, members, **matching))
    assert (await api.get(path)).data == []


async def test_repeated_operations_have_the_first_results(api: Api, database: Database) -> None:
    await api.person("Grace")
    # So that ids of computers, which the requests allocate, are those of other persons.
    for number in range(2):
        await api.computer(str(number))
    owner = {"data": {"type": "person", "lid": "ada"}}
    members = {**identifier("person", "1"), "relationship": "computers"}
    operations = [
        add(PERSON, "ada"),
        add(new("computer", {"owner": owner}, serial="SN-1")),
        update(new("person", first_name="Ada"), id="1"),
        {"op": "add", "ref": members, **to_many("1")},
        {"op": "remove", "ref": identifier("computer", "2")},
    ]
    first = await send_with_key(api, "/operations", operations)
    before = await stored_records(database)
    second = await send_with_key(api, "/operations", operations)
    check_replayed(first, second)
    assert await stored_records(database) == before
    assert linkage_of(second.results[1]["data"]) == {"owner": to_one("2")}


async def test_another_request_with_the_same_key_is_refused_and_changes_nothing(
    api: Api, database: Database
) -> None:
    others = [new("person", first_name=name, last_name="L") for name in "abcdef"]
    replies = await asyncio.gather(*(send_with_key(api, "/persons", other) for other in others))
    assert sorted(reply.status for reply in replies) == [201, *[422] * 5]
    before = await stored_records(database)
    for path, data in (
        *(("/persons", PERSON), ("/persons?fields[person]=email", PERSON)),
        *(("/computers", COMPUTER), ("/persons/1/relationships/computers", [])),
        ("/operations", [add(PERSON)]),
    ):
        refused = await send_with_key(api, path, data)
        assert (refused.status, refused.code) == (422, "idempotency_key_reused")
    assert await stored_records(database) == before


async def test_a_rejected_request_is_executed_again(api: Api) -> None:
    assert (await send_with_key(api, "/computers", OWNED)).status == 404
    await api.person()
    check_replayed(*[await send_with_key(api, "/computers", OWNED) for _ in range(2)])


async def test_methods_other_than_post_ignore_the_key(api: Api) -> None:
    path, key = f"/persons/{await api.person()}", {"Idempotency-Key": "not valid"}
    for name in ("King", "Lovelace"):
        changed = await api.patch(path, new("person", last_name=name), **key)
        assert changed.data["attributes"]["last_name"] == name
    assert (await api.delete(path, **{"Idempotency-Key": ""})).status == 204


async def test_one_of_equal_concurrent_requests_is_executed(
    serve: Serve, api: Api, database: Database
) -> None:
    services = [api, await serve()]
    await api.person()
    for path, data in (
        *(("/persons", PERSON), ("/computers", OWNED)),
        ("/operations", [add(PERSON)]),
    ):
        before = await stored_records(database)
        replies = await asyncio.gather(
            *(send_with_key(api, path, data, path) for api in services * 5)
        )
        assert sum(REPLAYED in reply.headers for reply in replies) == len(replies) - 1
        assert all(reply.document == replies[0].document for reply in replies)
        after = await stored_records(database)
        assert sum(map(len, after)) == sum(map(len, before)) + 1


async def test_results_expire_and_have_no_hidden_fields(api: Api, database: Database) -> None:
    await send_with_key(api, "/persons", PERSON)
    (stored,) = await database.idempotency_keys.find().to_list(None)
    day = stored["expires"].replace(tzinfo=UTC) - datetime.now(UTC)
    assert timedelta(hours=23) < day <= timedelta(hours=24)
    assert "password" not in stored["result"][0]
    indexes = await database.idempotency_keys.index_information()
    assert indexes["expires_1"]["expireAfterSeconds"] == 0
    await database.idempotency_keys.delete_many({})
    assert REPLAYED not in (await send_with_key(api, "/persons", PERSON)).headers


async def test_a_result_that_is_too_large_is_refused_and_nothing_is_changed(
    serve: Serve, settings: Settings, database: Database
) -> None:
    notes = {f"note{number}": "\U0001d11e" * 255 for number in range(17)}
    lines = "".join(f'{name} = "text"\n' for name in notes)
    types = TypesFile(f"[person]\n{lines}")
    api = await serve(settings=replace(settings, types=types))
    id_ = await api.person(**notes)
    before = await stored_records(database)
    refused = await send_with_key(api, "/operations", [update({"type": "person"}, id=id_)] * 1_000)
    assert (refused.status, refused.code) == (413, "result_too_large")
    assert await stored_records(database) == before
