"""Resources: what the model does not show when they are created, read, updated and deleted.

`tests/consistency/test_model.py` compares whole documents with a model, for all parameters.
"""

from dataclasses import replace
from typing import Any

import pytest

from registry.model.implicit_attributes import AUTHORSHIP
from registry.resources.person import PersonSchema
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import (
    PERSON,
    Api,
    CommandLog,
    Database,
    complete_record,
    identifier,
    linkage_of,
    new,
    set_counters,
    stored_records,
    to_many,
    to_one,
)

GRACE = {"first_name": "Grace", "last_name": "Hopper", "email": "grace@example.com"}
SELF = {"self": "/persons/1"}
JSONAPI = {"version": "1.0"}


@pytest.fixture
async def fleet(api: Api) -> Api:
    """Grace, who owns a computer."""
    await api.computer(owner=await api.person(email=GRACE["email"]))
    return api


async def test_creating_a_person_returns_its_attributes_and_id(api: Api) -> None:
    response = await api.post("/persons", new("person", **GRACE))
    assert response.status == 201
    assert response.document == {
        "data": {**identifier("person", "1"), "attributes": GRACE, "links": SELF},
        "jsonapi": JSONAPI,
        "links": SELF,
    }
    assert response.headers["Location"] == "/persons/1"


async def test_documents_have_all_attributes_and_links(fleet: Api) -> None:
    attributes = GRACE | {"full_name": "Grace Hopper"}
    data = {**identifier("person", "1"), "attributes": attributes, "links": SELF}
    response = await fleet.get("/persons/1")
    assert response.document == {"data": data, "links": SELF, "jsonapi": JSONAPI}
    assert (await fleet.get("/persons")).document == {
        "data": [data],
        "links": {"self": f"{fleet.origin}/persons"},
        "meta": {"count": 1},
        "jsonapi": JSONAPI,
    }
    assert (await fleet.get("/computers/1")).data["attributes"] == {"serial": "SN-1"}


@pytest.mark.parametrize("sent", ["2", 7, None, [], {"$gt": 0}, 2**80, True, "x" * 300])
async def test_an_id_in_the_body_is_ignored(api: Api, sent: Any) -> None:
    created = [await api.post("/persons", PERSON | {"id": sent}) for _ in range(2)]
    assert [(response.status, response.id) for response in created] == [(201, "1"), (201, "2")]
    data = new("person", first_name="New") | {"id": sent}
    assert (await api.patch("/persons/1", data)).id == "1"
    assert (await api.get("/persons/2")).data["attributes"]["first_name"] == "Grace"


async def test_all_missing_attributes_are_reported_together(api: Api) -> None:
    names = [(422, f"/data/attributes/{name}") for name in ("first_name", "last_name")]
    for data in ({"type": "person"}, {"type": "person", "attributes": {}}):
        response = await api.post("/persons", data)
        assert (response.status, response.errors) == (422, names)


async def test_attributes_that_cannot_be_written_are_refused(api: Api) -> None:
    extra = {"full_name": "G H", "created_by": "me", "rank": 1}
    extra |= {"a/b~c": 1, "computers": []}
    response = await api.post("/persons", new("person", **GRACE, **extra))
    names = ["full_name", "created_by", "rank", "a~1b~0c", "computers"]
    assert response.status == 422
    assert response.errors == [(422, f"/data/attributes/{name}") for name in names]
    details = [error["detail"] for error in response.document["errors"]]
    assert details[:2] == ["This attribute is read-only."] * 2
    assert (await api.get("/persons")).data == []


async def test_a_hidden_attribute_is_refused_like_an_unknown_one(api: Api) -> None:
    await api.person()
    for name in ("password", "passwort"):
        data = new("person", **GRACE, **{name: "secret"})
        for response in (await api.post("/persons", data), await api.patch("/persons/1", data)):
            assert response.errors == [(422, f"/data/attributes/{name}")]
            (error,) = response.document["errors"]
            assert error["detail"].startswith(f"`{name}` is not an attribute of `person`;")


@pytest.mark.parametrize("sent", ["computer", "persons", "Person", "", "person "])
async def test_a_type_conflict_hides_other_errors(api: Api, sent: str) -> None:
    await api.person()
    data = new(sent, {"x": 1}, serial="SN-1")
    for response in (await api.post("/persons", data), await api.patch("/persons/1", data)):
        assert (response.status, response.errors) == (409, [(409, "/data/type")])
    assert (await api.get("/persons")).ids == ["1"]


async def test_several_kinds_of_errors_have_status_400(api: Api) -> None:
    members = [identifier("person", "1"), identifier("computer", [])]
    links = {"computers": {"data": members}, "cars": {}}
    response = await api.post("/persons", new("person", links, first_name=5, age=3))
    assert response.status == 400
    assert sorted(response.errors) == [
        (400, "/data/relationships/computers/data/1/id"),
        (409, "/data/relationships/computers/data/0/type"),
        (422, "/data/attributes/age"),
        (422, "/data/attributes/first_name"),
        (422, "/data/attributes/last_name"),
        (422, "/data/relationships/cars"),
    ]


async def test_a_link_to_a_missing_resource_stores_nothing(api: Api, database: Database) -> None:
    response = await api.post("/computers", new("computer", {"owner": to_one("9")}, serial="x"))
    assert (response.status, response.errors) == (404, [(404, "/data/relationships/owner/data/id")])
    assert await database.computers.count_documents({}) == 0
    assert await api.computer() == "1", "the id of a creation that failed is given back"


async def test_the_password_is_never_returned(fleet: Api, database: Database) -> None:
    (record,) = await database.persons.find().to_list(None)
    assert record["password"] is None
    await database.persons.update_one({}, {"$set": {"password": "$2b$hash"}})
    responses = [
        await fleet.get(path) for path in ("/persons", "/persons/1", "/computers/1?include=owner")
    ]
    responses.append(await fleet.patch("/persons/1", new("person", first_name="G")))
    for response in responses:
        text = str(response.document)
        assert "password" not in text
        assert "hash" not in text
    (record,) = await database.persons.find().to_list(None)
    assert record["password"] == "$2b$hash"


@pytest.mark.parametrize("more", [{}, {"last_name": "Murray"}, {"email": "m@example.com"}])
async def test_a_resource_can_be_sent_back_as_it_was_read(api: Api, more: dict[str, str]) -> None:
    await api.person()
    names = ",".join([*PersonSchema().dump_fields, *AUTHORSHIP])
    for _ in range(2):
        read = (await api.get(f"/persons/1?fields[person]={names}")).data
        response = await api.patch("/persons/1", {**read, "attributes": read["attributes"] | more})
        assert response.status == 200, response.document
        attributes = response.data["attributes"]
        assert more.items() <= attributes.items()
        assert attributes["full_name"] == f"Grace {attributes['last_name']}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("full_name", value) for value in ("Grace Murray", None, ["Grace Hopper"])),
        ("created_at", "2026-01-01T00:00:00.000Z"),
        ("created_by", "grace"),
        ("updated_by", False),
    ],
)
async def test_read_only_attributes_keep_their_values(
    api: Api, database: Database, name: str, value: Any
) -> None:
    await api.person("Grace", "Hopper")
    before = await database.persons.find_one()
    # The new full name is not the one that the client has read.
    response = await api.patch("/persons/1", new("person", last_name="Murray", **{name: value}))
    assert (response.status, response.errors) == (422, [(422, f"/data/attributes/{name}")])
    assert await database.persons.find_one() == before


async def test_a_deletion_also_removes_links(fleet: Api, database: Database) -> None:
    other = await fleet.person()
    for path, ignored, left in (
        ("/persons/1", identifier("person", other), [None]),
        ("/computers/1", None, []),
    ):
        response = await fleet.delete(path, ignored)
        assert (response.status, response.document) == (204, None)
        assert "Content-Type" not in response.headers
        for method in ("GET", "DELETE"):
            assert (await fleet.send(method, path)).errors == [(404, "")]
        persons, computers = await stored_records(database)
        assert [str(person["_id"]) for person in persons] == [other]
        assert [computer["person"] for computer in computers] == left


@pytest.mark.parametrize(
    ("sent", "self_link"),
    [
        *[("?include=owner&fields[person]=email", "?include=owner&fields%5Bperson%5D=email")],
        *((query, query) for query in ("?fields%5Bperson%5d=email", "?include=%6Fwner", "?")),
    ],
)
async def test_the_self_link_is_the_requested_url(api: Api, sent: str, self_link: str) -> None:
    for path in ("/computers", "/%63omputers"):
        status, document = await api.raw(
            f"GET {path}{sent} HTTP/1.0\r\nHost: fleet.example:81\r\n\r\n".encode()
        )
        assert status == 200
        assert document["links"]["self"] == f"http://fleet.example:81{path}{self_link}"


async def test_the_related_link_does_not_depend_on_how_the_path_is_encoded(fleet: Api) -> None:
    response = await fleet.get("/persons/1/%72elationships/computers?sort=id")
    assert response.document["links"]["related"] == f"{fleet.origin}/persons/1/computers"


async def test_absolute_links_start_with_the_public_url(serve: Serve, settings: Settings) -> None:
    public = "https://registry.example"
    api = await serve(settings=replace(settings, public_url=public))
    for _ in range(2):
        await api.person()
    for query in ("include=computers", "page[number]=1&page[size]=1", "page[size]=1"):
        links = (await api.get(f"/persons?{query}")).document["links"]
        assert links.pop("prev", None) is None
        assert all(link.startswith(f"{public}/persons?") for link in links.values()), links
    assert (await api.get("/persons/1")).document["links"] == SELF


NO_IDS = (
    f"9 0 -1 01 1.0 1e0 +1 x 1_0 %201 %EF%BC%91 null %00 %FF 1%2F1 .. %2e%2e {{id}} [1] $where 1;1 "
    f"{2**63} {'9' * 400}"
).split()

ON_RESOURCES: list[tuple[str, str, Any]] = [
    *((method, "/persons/{}", None) for method in ("GET", "HEAD", "DELETE")),
    ("PATCH", "/persons/{}", new("person", first_name="New")),
    ("PATCH", "/persons/{}", new("person", {"computers": to_many("1")})),
    ("DELETE", "/computers/{}", None),
    ("GET", "/persons/{}/computers?include=", None),
    ("GET", "/computers/{}/owner?fields[person]=email", None),
    ("GET", "/persons/{}/relationships/computers", None),
    *(
        (method, "/persons/{}/relationships/computers", to_many("1")["data"])
        for method in ("PATCH", "POST", "DELETE")
    ),
    ("HEAD", "/computers/{}/relationships/owner", None),
    ("PATCH", "/computers/{}/relationships/owner", identifier("person", "1")),
]
"""A request of every kind on one resource."""


async def test_an_invalid_or_unknown_id_is_not_found(fleet: Api, database: Database) -> None:
    before = await stored_records(database)
    for id_ in NO_IDS:
        request = f"GET /persons/{id_} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        status, document = await fleet.raw(request.encode())
        assert (status, document["errors"][0]["code"]) == (404, "not_found"), id_
    for method, path, data in ON_RESOURCES:
        for id_ in ("9", "x", "0", "01", "-1", str(2**63)):
            response = await fleet.send(method, path.format(id_), data)
            assert response.status == 404, (method, path, id_)
            assert method == "HEAD" or response.errors == [(404, "")]
    assert await stored_records(database) == before


async def test_the_largest_id_can_be_read(api: Api, database: Database) -> None:
    await database.persons.insert_one(
        complete_record({"_id": 2**63 - 1, "first_name": "Max", "last_name": "Id"})
    )
    assert (await api.get(f"/persons/{2**63 - 1}")).id == str(2**63 - 1)


async def test_a_dangling_foreign_key_is_no_owner(fleet: Api, database: Database) -> None:
    await database.computers.insert_one(complete_record({"_id": 2, "serial": "SN-2", "person": 99}))
    await set_counters(database)
    await fleet.computer()
    listed = await fleet.get("/computers?include=owner")
    owners = [linkage_of(resource)["owner"] for resource in listed.data]
    assert owners == [to_one("1"), to_one(None), to_one(None)]
    assert listed.included == [("person", "1")]
    assert (await fleet.get("/computers/2/owner")).data is None
    linkage = "/computers/2/relationships/owner"
    assert (await fleet.get(f"{linkage}?include=owner")).document["included"] == []
    assert (await fleet.get("/persons/99/computers")).status == 404
    assert (await fleet.patch(linkage, identifier("person", "1"))).status == 204
    assert (await fleet.get("/computers/2/owner")).id == "1"


async def test_a_get_needs_no_content_type_and_ignores_its_body(api: Api) -> None:
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "x"}):
        assert (await api.fetch("/persons", **headers)).status == 200
    assert (await api.request("GET", "/persons", b"{not json")).status == 200


STEPS = [
    ("/persons/1?include=computers.owner", ["persons", "computers"], 3),
    ("/computers/1?include=owner.computers", ["computers", "persons", "computers"], 3),
    ("/persons?include=computers.owner", ["persons", "persons", "computers"], 900),
]
"""What is read from which collections, and how many resources are included.

A stream reads again what was too much for a page.
"""


@pytest.mark.budget
async def test_each_step_of_an_include_path_is_one_query(
    commands: CommandLog, api: Api, database: Database
) -> None:
    await database.persons.insert_many(
        complete_record({"_id": number, "first_name": "F", "last_name": "L"})
        for number in range(1, 301)
    )
    await database.computers.insert_many(
        complete_record({"_id": number, "serial": "x", "person": number % 300 + 1})
        for number in range(1, 901)
    )
    for path, queries, included in STEPS:
        commands.take("find")
        response = await api.get(path)
        assert commands.take("find") == queries, path
        assert len(response.included) == included


PATHS = "include=computers.owner.computers"
LONG = "computers.owner.computers"


@pytest.mark.parametrize(
    ("sizes", "linked"),
    [
        ("", ["1", "2", "3"]),
        (f"&page[{LONG}][size]=1", ["1", "2", "3"]),
        ("&page[computers][size]=1", ["1", "2", "3"]),
        (f"&page[computers][size]=1&page[{LONG}][size]=2", ["1", "2"]),
        (f"&page[computers][size]=2&page[{LONG}][size]=1", ["1", "2"]),
    ],
)
async def test_the_larger_of_two_included_pages_is_shown(
    api: Api, sizes: str, linked: list[str]
) -> None:
    owner = await api.person()
    for number in range(3):
        await api.computer(f"SN-{number}", owner)
    response = await api.get(f"/persons/{owner}?{PATHS}{sizes}")
    assert linkage_of(response.data)["computers"] == to_many(*linked)
    assert response.included == [("computer", id_) for id_ in linked]
    collection = await api.get(f"/persons?{PATHS}{sizes}&page[size]=1")
    assert collection.data == [response.data]
    assert collection.document["included"] == response.document["included"]
