"""Revisions: what each write has changed, who made it, and when."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from registry.model.graph import Graph
from registry.operations.consistency import check
from registry.operations.forgetting import forget
from registry.resources import RESOURCES
from registry.resources.types_file import TypesFile
from registry.settings import Settings
from tests.conftest import Header, Serve
from tests.support import Api, Database, add, identity, new, to_one


@pytest.fixture
async def revised(serve: Serve, settings: Settings) -> Api:
    return await serve(settings=replace(settings, revisions=30))


@pytest.fixture
async def guarded(fleet: Api, serve: Serve, settings: Settings) -> Api:  # noqa: ARG001 - its data
    """Another service of the same database, which requires access tokens."""
    return await serve(settings=replace(settings, revisions=30, auth="on"))


@pytest.fixture
async def fleet(revised: Api) -> Api:
    """A person who had two computers and was renamed; then the person was deleted."""
    ada = await revised.person("Ada", "King", email="ada@x.org")
    for serial in ("A", "B"):
        await revised.computer(serial, ada)
    await revised.send("PATCH", "/persons/1", {**new("person", last_name="L"), "id": "1"})
    await revised.request("DELETE", "/persons/1")
    return revised


async def changes(api: Api, path: str = "/revisions", **headers: str) -> list[Any]:
    """Return action, subject, before and after of the revisions at a path."""
    document = (await api.get(path, **headers)).document
    return [
        (
            *(attributes["action"], subject["type"], subject["id"]),
            *(attributes["before"], attributes["after"]),
        )
        for revision in document["data"]
        for attributes, subject in [
            (revision["attributes"], revision["relationships"]["resource"]["data"])
        ]
    ]


ADA = {"first_name": "Ada", "last_name": "King", "email": "ada@x.org"}
OWNER = {"owner": {"type": "person", "id": "1"}}


async def test_a_request_leaves_its_net_effect(revised: Api) -> None:
    person = new("person", first_name="Ada", last_name="King")
    rename = {"op": "update", "data": {**new("person", last_name="L"), "lid": "a"}}
    gone = {"op": "remove", "ref": {"type": "person", "lid": "b"}}
    operations = [add(person, "a"), add(person, "b"), rename, gone]
    assert (await revised.operate(*operations)).status == 200
    assert await changes(revised) == [
        ("created", "person", "1", {}, {"first_name": "Ada", "last_name": "L"})
    ]


async def test_rows_that_are_imported_leave_revisions(revised: Api) -> None:
    async def send(file: str, query: str = "", **headers: str) -> None:
        path = f"{revised.origin}/computers?rows[key]=serial{query}"
        headers["Content-Type"] = "text/csv"
        async with revised.client.request("POST", path, data=file, headers=headers) as response:
            assert response.status == 200

    columns = "serial,owner.email,owner.first_name,owner.last_name\n"
    row = "A,ada@x.org,Ada,King\n"
    await send(f"{columns}{row}B,,Eve,\n")  # the second row is invalid
    await send(f"{columns}{row}")
    await send(f"{columns}C,,,\n", Prefer="tx=rollback")
    await send("serial,owner.email\nA,\n", query="&rows[replace]=true")
    assert await changes(revised) == [
        ("created", "person", "1", {}, ADA),
        ("created", "computer", "1", {}, {"serial": "A", **OWNER}),
        ("updated", "computer", "1", OWNER, {}),
    ]


async def test_a_deletion_leaves_one_revision_of_each_computer(revised: Api) -> None:
    ada, bob = await revised.person("Ada", "King"), await revised.person("Bob", "King")
    computer = new("computer", {"owner": to_one(ada)}, serial="S")
    assert (await revised.operate(*[add(computer)] * 3)).status == 200
    other = await revised.computer("S", bob)
    assert (await revised.request("DELETE", f"/persons/{ada}")).status == 204
    pages = await revised.pages("/revisions?filter[action][ne]=created&sort=id&page[size]=1000")
    told = [
        (resource["type"], int(resource["id"]), each["attributes"]["before"])
        for page in pages
        for each in page.data
        for resource in [each["relationships"]["resource"]["data"]]
    ]
    assert told.pop() == ("person", 1, {"first_name": "Ada", "last_name": "King"})
    assert sorted(told, key=str) == sorted(
        [("computer", id_, OWNER) for id_ in range(1, int(other))], key=str
    )


async def test_writes_of_two_workers_leave_a_chain_of_values(
    revised: Api, serve: Serve, settings: Settings
) -> None:
    workers = [revised, await serve(settings=replace(settings, revisions=30))]
    persons = [await revised.person(f"{number}", "0") for number in range(3)]

    async def rename(worker: int, number: int) -> None:
        id_ = persons[number % 3]
        data = new("person", last_name=f"{worker}-{number}") | {"id": id_}
        assert (await workers[worker].send("PATCH", f"/persons/{id_}", data)).status == 200

    async with asyncio.TaskGroup() as writers:
        for number in range(30):
            for worker in range(2):
                writers.create_task(rename(worker, number))
    for id_ in persons:
        chain = [
            change[3:] for change in await changes(workers[1], f"/persons/{id_}/revisions?sort=id")
        ]
        now = (await workers[0].get(f"/persons/{id_}")).data["attributes"]["last_name"]
        names = [after["last_name"] for _, after in chain]
        assert [before.get("last_name") for before, _ in chain] == [None, *names[:-1]]
        assert names[-1] == now
        assert len(set(names)) == 21
    total = (await revised.get("/revisions?page[size]=1&page[number]=1")).document["meta"]["total"]
    assert total == 63


TYPES = """
[person]
manager = {link = "person", inverse = "reports"}
[phone]
collection = "phones"
price = {type = "decimal", default = 1.5}
bought = "date"
seen = "datetime"
leased = {type = "boolean", default = false}
owner  = {link = "person", inverse = "phones"}
"""


async def test_types_of_a_file_have_revisions_with_values_as_responses_show_them(
    serve: Serve, settings: Settings
) -> None:
    types = TypesFile(TYPES)
    api = await serve(settings=replace(settings, revisions=30, types=types))
    ada, bob = await api.person("Ada", "King"), await api.person("Bob", "King")
    manager = {"manager": to_one(bob)}
    assert (await api.patch(f"/persons/{ada}", new("person", manager))).status == 200
    values = {"price": "2.50", "bought": "2026-01-31", "seen": "2026-03-01T00:00:00.000Z"}
    phone = await api.create(new("phone", {"owner": to_one(bob)}, **values))
    shown = (await api.get(f"/phones/{phone}")).data["attributes"]
    cheaper = new("phone", price="2.5", bought=None, leased=True)
    assert (await api.patch(f"/phones/{phone}", cheaper)).status == 200
    owner = {"owner": {"type": "person", "id": bob}}
    assert await changes(api, f"/phones/{phone}/revisions?sort=id") == [
        ("created", "phone", phone, {}, shown | owner),
        (
            *("updated", "phone", phone),
            {"price": "2.50", "bought": "2026-01-31", "leased": False},
            {"price": "2.5", "leased": True},
        ),
    ]
    assert (await api.request("DELETE", f"/persons/{bob}")).status == 204
    assert sorted(await changes(api, "/revisions?sort=-id&page[size]=3")) == [
        ("deleted", "person", bob, {"first_name": "Bob", "last_name": "King"}, {}),
        ("updated", "person", ada, {"manager": owner["owner"]}, {}),
        ("updated", "phone", phone, owner, {}),
    ]


@pytest.mark.parametrize(
    ("path", "ids"),
    [
        ("/computers/1/revisions?sort=-id", ["5", "2"]),
        ("/computers/1/revisions?include=resource&page[size]=1", ["2"]),
        ("/revisions?filter[action]=updated&sort=-at,id", ["5", "6", "4"]),
        ("/revisions?filter[at][ge]=2026-01-01T00:00:00Z&page[size]=2", ["1", "2"]),
        ("/revisions?filter[at][lt]=2026-01-01T00:00:00Z", []),
        ("/revisions?filter[author]=null&page[number]=2&page[size]=3", ["4", "5", "6"]),
        ("/revisions?page[number]=3&page[size]=3", ["7"]),
        ("/revisions?sort=-id&page[size]=2", ["7", "6"]),
    ],
)
async def test_revisions_are_read_as_other_types(fleet: Api, path: str, ids: list[str]) -> None:
    document = (await fleet.get(path)).document
    assert [revision["id"] for revision in document["data"]] == ids
    assert "number" not in path or document["meta"]["total"] == 7


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
async def test_revisions_cannot_be_written(fleet: Api, method: str) -> None:
    for path in ("/revisions", "/revisions/1", "/persons/1/relationships/revisions"):
        response = await fleet.request(method, path)
        assert response.status == 405
        assert response.headers["Allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize(
    "query",
    [
        "sort=resource_person.last_name",
        "filter[resource_person.email]=ada@x.org",
        "fields[revision]=resource_person",
        "include=resource_person",
        "include=resource.computers",
        "include=resource&withCount=resource_person.computers",
        "include=resource&withCount=resource.computers",
        "include=resource&page[resource_person][size]=1",
    ],
)
async def test_no_parameter_leads_through_the_resource(fleet: Api, query: str) -> None:
    refused = await fleet.get(f"/revisions?{query}")
    (error,) = refused.document["errors"]
    assert (refused.status, error["code"]) == (400, "invalid_parameter")


async def test_the_description_names_one_resource_of_a_revision(revised: Api) -> None:
    described = (await revised.fetch("/api/swagger/swagger.json")).text
    assert "`resource` (to-one)" in described
    assert "resource_person" not in described


async def test_a_table_without_fields_has_the_ids(fleet: Api) -> None:
    table = await fleet.fetch("/revisions?fields[revision]=&page[size]=1", Accept="text/csv")
    assert table.text == "\ufeffid\r\n1\r\n"


async def test_include_gives_nothing_for_what_is_gone(fleet: Api) -> None:
    document = (await fleet.get("/revisions?include=resource&fields[revision]=resource")).document
    assert list(map(identity, document["included"])) == [
        ("computer", "1"),
        ("computer", "2"),
    ]
    (ada, *_) = document["data"]
    assert ada["relationships"] == {"resource": {"data": {"type": "person", "id": "1"}}}
    assert ada["attributes"] == {}
    nested = (await fleet.get("/computers?include=revisions.resource")).document
    assert len(nested["included"]) == 4


async def test_revisions_are_not_counted(fleet: Api) -> None:
    refused = await fleet.get("/computers?withCount=revisions")
    assert refused.errors == [(400, "withCount")]
    reason = "`revisions` is not a to-many relationship of `computer` that can be counted, as its"
    assert refused.document["errors"][0]["detail"].startswith(reason)


async def test_a_client_sees_what_it_may_read(guarded: Api, header: Header) -> None:
    computers, persons = await header("computers:read"), await header("persons:read")
    rest = {"serial": "A"}, {"serial": "B"}
    assert await changes(guarded, **computers) == [
        *[("created", "computer", id_, {}, own) for id_, own in zip("12", rest, strict=True)],
        *[("updated", "computer", id_, {}, {}) for id_ in "12"],
    ]
    assert [change[1] for change in await changes(guarded, **persons)] == ["person"] * 3
    assert await changes(guarded, "/computers/1/revisions", **computers) == [
        ("created", "computer", "1", {}, {"serial": "A"}),
        ("updated", "computer", "1", {}, {}),
    ]
    paths = ("/revisions/1", "/revisions/2", "/computers/1/revisions", "/revisions?page[number]=1")
    assert [(await guarded.get(path, **persons)).status for path in paths] == [200, 404, 403, 200]
    assert (await guarded.get(paths[-1], **computers)).document["meta"]["total"] == 4
    included = (await guarded.fetch("/computers/1?include=revisions.resource", **computers)).text
    assert "person" not in included
    table = await guarded.fetch("/revisions", Accept="text/csv", **computers)
    assert "person" not in table.text
    both = await changes(guarded, **await header("persons:read", "computers:write"))
    assert both == await changes(guarded, **await header("read"))


async def test_revisions_have_the_author_and_the_time_of_the_write(
    guarded: Api, header: Header
) -> None:
    sent = await header("write")
    person = new("person", first_name="Bob", last_name="King")
    await guarded.send("POST", "/persons?fields[person]=email", person, **sent)
    shown = (await guarded.get("/persons/2?fields[person]=created_at,created_by", **sent)).data
    (revision,) = (await guarded.get("/persons/2/revisions", **sent)).data
    author, at = shown["attributes"]["created_by"], shown["attributes"]["created_at"]
    assert (revision["attributes"]["author"], revision["attributes"]["at"]) == (author, at)
    found = await guarded.get(f"/revisions?filter[author]={author}", **sent)
    assert found.ids == [revision["id"]]


async def test_the_number_of_days_can_be_changed_and_the_setting_left_out(
    fleet: Api,  # noqa: ARG001 - its data
    serve: Serve,
    settings: Settings,
    database: Database,
) -> None:
    async def seconds() -> int:
        indexes = await database.revisions.index_information()
        return int(indexes["at_1"]["expireAfterSeconds"])

    assert await seconds() == 30 * 86_400
    await serve(settings=replace(settings, revisions=7))
    assert await seconds() == 7 * 86_400
    without = await serve()
    assert (await without.get("/revisions")).status == 404
    assert (await without.get("/persons/1/revisions")).status == 404
    await without.person("Bob", "K")
    assert await database.revisions.count_documents({}) == 7


async def test_off_there_is_no_collection(api: Api, database: Database) -> None:
    await api.person("Ada", "King")
    assert "revisions" not in await database.list_collection_names()


async def test_expired_revisions_keep_pages_and_the_check_right(
    fleet: Api, database: Database
) -> None:
    await database.revisions.delete_many({"_id": {"$lt": 3}})
    page = (await fleet.get("/revisions?page[number]=2&page[size]=4")).document
    assert ([revision["id"] for revision in page["data"]], page["meta"]["total"]) == (["7"], 5)
    assert (await check(database, Graph(RESOURCES, 30))).total == 0


async def test_what_revisions_keep_of_a_deleted_person_can_be_forgotten(
    fleet: Api, database: Database
) -> None:
    graph = Graph(RESOURCES, 30)
    changed = await forget(database, graph, graph["person"], 1)
    assert changed == {graph["assignment"]: 2, graph["revision"]: 3}
    assert [change[3:] for change in await changes(fleet) if change[1] == "person"] == [
        ({}, {})
    ] * 3
    assert (await forget(database, graph, graph["person"], 1) or {})[graph["revision"]] == 0
