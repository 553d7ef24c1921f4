"""Who created resources and last changed their attributes, and when."""

import asyncio
import datetime
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from registry.access.principal import Principal
from registry.http.access_control import PRINCIPAL
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import (
    PERSON,
    Api,
    Database,
    Response,
    add,
    complete_record,
    new,
    primary_data,
    stored_records,
    to_many,
    update,
)

NAME = '$version"\\'
"""The name of a principal that MongoDB and JSON would interpret."""


ATTRIBUTES = ("created_at", "created_by", "updated_at", "updated_by")

SELECTED = "&".join(f"fields[{name}]={','.join(ATTRIBUTES)}" for name in ("person", "computer"))


@web.middleware
async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Take the header `Principal` for the name of the principal."""
    if name := request.headers.get("Principal"):
        request[PRINCIPAL] = Principal(name, frozenset({"write"}))
    return await handler(request)


@pytest.fixture
async def api(serve: Serve, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Api:
    """The running service with an authentication that trusts its clients."""
    monkeypatch.setattr("registry.http.application.check_access", authenticate)
    return await serve(settings=replace(settings, auth="on"))


async def send(api: Api, by: str, method: str, path: str, data: Any = None) -> Response:
    """Send a request of a principal; the response shows the authorship."""
    has_resource = method in {"POST", "PATCH"} and "/relationships/" not in path
    url = f"{path}?{SELECTED}" if has_resource else path
    response = await api.send(method, url, data, **({"Principal": by} if by else {}))
    assert response.status < 300, response.document
    return response


def shown(response: Response) -> dict[str, Any]:
    """Return the authorship of the only resource in a response."""
    attributes: dict[str, Any] = response.data["attributes"]
    assert tuple(attributes) == ATTRIBUTES
    return attributes


async def test_a_resource_shows_who_created_and_updated_it_and_when(
    api: Api, database: Database
) -> None:
    before = now()
    created = shown(await send(api, "ci", "POST", "/persons", PERSON))
    time = created["created_at"]
    assert before <= time <= now()
    assert created == dict(zip(ATTRIBUTES, (time, "ci", time, "ci"), strict=True))
    assert await read(api, "/persons/1") == created
    (record,), _ = await stored_records(database)
    assert created.items() <= record.items()
    before = now()
    updated = shown(await send(api, NAME, "PATCH", "/persons/1", new("person", last_name="King")))
    assert before <= updated["updated_at"] <= now()
    assert updated == {**created, "updated_by": NAME, "updated_at": updated["updated_at"]}
    assert await read(api, "/persons/1") == updated


async def read(api: Api, path: str) -> dict[str, Any]:
    """Return the authorship of a resource."""
    return shown(await api.get(f"{path}?{SELECTED}"))


def now() -> str:
    text = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


async def test_without_tokens_only_the_times_are_known(api: Api, database: Database) -> None:
    created = shown(await send(api, "", "POST", "/persons", PERSON))
    assert (created["created_by"], created["updated_by"]) == (None, None)
    (record,), _ = await stored_records(database)
    assert not {"created_by", "updated_by"} & record.keys()
    for name in ("ci", ""):
        data = new("person", first_name=f"Name {name}")
        updated = shown(await send(api, name, "PATCH", "/persons/1", data))
        assert (updated["created_by"], updated["updated_by"]) == (None, name or None)


async def test_a_request_without_changes_is_no_update(api: Api, database: Database) -> None:
    created = shown(await send(api, "ci", "POST", "/persons", PERSON))
    before = await stored_records(database)
    for data in (PERSON, PERSON | {"relationships": {"computers": to_many()}}):
        assert shown(await send(api, "other", "PATCH", "/persons/1", data)) == created
    await send(api, "other", "DELETE", "/persons/1/relationships/computers", [])
    assert await stored_records(database) == before


async def test_each_of_the_changes_in_a_batch_has_its_own_author(api: Api) -> None:
    await send(api, "ci", "POST", "/persons", PERSON)
    names = [f"author-{number}" for number in range(20)]
    responses = await asyncio.gather(
        *(send(api, name, "PATCH", "/persons/1", new("person", last_name=name)) for name in names)
    )
    assert [shown(response)["updated_by"] for response in responses] == names
    last = max(
        responses, key=lambda response: int(response.headers["ETag"].strip('"').partition("-")[0])
    )
    assert await read(api, "/persons/1") == shown(last)


async def owned_computers(api: Api) -> None:
    """Create two owners of computers, and a computer of nobody."""
    owners = [await api.person(), await api.person()]
    for owner in (owners[0], owners[0], owners[1], None):
        await api.computer(owner=owner)


async def test_only_changes_of_attributes_have_the_author_of_their_request(
    api: Api, database: Database
) -> None:
    """Those of links change the versions of other records, not who updated them."""
    await owned_computers(api)
    before, owner = await stored_records(database), {"type": "person", "lid": "new"}
    performed = await api.operate(
        add(PERSON, "new"),
        update(new("person", email="g@example.com"), id="2"),
        {"op": "remove", "href": "/computers/2"},
        {"op": "update", "href": "/computers/4/relationships/owner", "data": owner},
        Principal=NAME,
    )
    for result in performed.results[:2]:
        assert not {*ATTRIBUTES} & result["data"]["attributes"].keys()
    members = to_many("1", "3")["data"]
    await send(api, NAME, "PATCH", "/persons/1/relationships/computers", members)
    persons, computers = after = await stored_records(database)
    updated = [
        [record["_id"] for record in records if record.get("updated_by")] for records in after
    ]
    assert updated == [[2, 3], []]
    linked = [(persons[0], before[0][0]), *zip(computers[1:], before[1][2:], strict=True)]
    for now, then in linked:
        assert now["version"] > then["version"]
        assert all(now.get(name) == then.get(name) for name in ATTRIBUTES)


async def test_the_authorship_is_sent_only_if_fields_names_it(api: Api) -> None:
    await owned_computers(api)
    for path in (
        *("/persons?", "/persons?page[size]=9&", "/persons/1?", "/persons/1/computers?"),
        *("/persons/1?include=computers.owner&", "/persons?include=computers&"),
        *("/computers?include=owner&page[size]=9&sort=owner.last_name&", "/computers/1/owner?"),
    ):
        for query, names in (("", set()), (SELECTED, {*ATTRIBUTES})):
            document = (await api.get(f"{path}{query}")).document
            resources = [*primary_data(document), *document.get("included", [])]
            assert resources
            for resource in resources:
                assert resource.keys() - {"relationships"} == {"type", "id", "attributes", "links"}
                assert resource["attributes"].keys() & {*ATTRIBUTES} == names


async def test_records_of_external_writers_show_what_is_known(api: Api, database: Database) -> None:
    records: list[dict[str, Any]] = [
        {},
        dict.fromkeys(ATTRIBUTES),
        {"updated_by": 'a "quoted" name'},
        {"created_at": 'no "time"', "updated_at": "\n", "created_by": "\\", "updated_by": "é"},
    ]
    await database.persons.insert_many(
        complete_record({"_id": number, "first_name": "A", "last_name": "B", **record})
        for number, record in enumerate(records, 1)
    )
    nothing = dict.fromkeys(ATTRIBUTES)
    for path in (f"/persons?{SELECTED}", f"/persons?page[size]=9&{SELECTED}"):
        listed = await api.get(path)
        assert [resource["attributes"] for resource in listed.data] == [
            nothing | value for value in records
        ]
    pages = await api.pages("/persons?sort=-updated_by&page[size]=2")
    assert [id_ for page in pages for id_ in page.ids] == ["4", "3", "2", "1"]
    updated = shown(await send(api, "ci", "PATCH", "/persons/1", new("person", first_name="C")))
    assert updated == nothing | {"updated_at": updated["updated_at"], "updated_by": "ci"}


async def test_authorship_can_be_filtered_and_sorted_by(api: Api, database: Database) -> None:
    times = ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.001Z"]
    known: list[dict[str, Any]] = [
        {"updated_by": None},  # which is the same as nothing
        {},
        {"created_at": times[0], "updated_by": "$null"},
        {"created_at": times[1], "updated_by": "ci"},
    ]
    await database.persons.insert_many(
        complete_record({"_id": number, "first_name": "A", "last_name": "B", **value})
        for number, value in enumerate(known, 1)
    )
    for query, ids in (
        (f"filter[created_at][ge]={times[1]}", "4"),
        ("filter[created_at]=2026-01-01T01:00:00%2B01:00", "3"),
        ("filter[updated_by]=ci,null", "124"),
        ("filter[updated_by][ne]=$null", "124"),
        ("sort=created_at", "1234"),
        ("sort=-updated_by", "4321"),
    ):
        assert (await api.get(f"/persons?{query}")).ids == [*ids], query
        pages = await api.pages(f"/persons?{query}&page[size]=1")
        assert [id_ for page in pages for id_ in page.ids] == [*ids], query
