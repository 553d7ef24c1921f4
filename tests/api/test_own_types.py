"""What a file of types declares is first class: in every request, in the description, in scopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from openapi_spec_validator import validate

from registry.app import create_app
from registry.http.app_keys import GRAPH
from registry.model.graph import InvalidDeclaration
from registry.openapi.description import describe
from registry.resources.types_file import RESERVED_COLLECTIONS, TypesFile
from registry.settings import Settings
from tests.conftest import Grant, Serve
from tests.support import Api, Database, linkage_of, to_many

TEXT = """
[computer]
model   = "text"
tag     = {type = "text", unique = true, example = "IT-1", description = "On its back."}
contact = "email"
cores   = {type = "integer", default = 4}
price   = {type = "decimal", default = 12.50, example = 1.00}
leased  = {type = "boolean", default = false, nullable = true}
bought  = {type = "date", default = 2026-01-31}
seen    = {type = "datetime", default = 2026-01-31T12:00:00+01:00}
status  = {enum = ["ready", "repair"], default = "ready"}

[person]
manager = {link = "person", inverse = "reports"}

[phone]
collection = "phones"
number = {type = "text", required = true}
owner  = {link = "person", inverse = "phones"}
"""
"""Every type of attribute, a new type, and a link from a type to itself."""

DEFAULTS = {
    "model": None,
    "tag": None,
    "contact": None,
    "cores": 4,
    "price": "12.50",
    "leased": False,
    "bought": "2026-01-31",
    "seen": "2026-01-31T11:00:00.000Z",
    "status": "ready",
}

VALUES = {
    "model": "T14",
    "tag": "IT-7",
    "contact": "a@b.org",
    "cores": 8,
    "price": "900.00",
    "leased": True,
    "bought": "2026-02-28",
    "seen": "2026-03-01T00:00:00.000Z",
    "status": "repair",
}


@pytest.fixture
def declared(settings: Settings) -> Settings:
    return replace(settings, types=TypesFile("t.toml", TEXT))


@pytest.fixture
async def own(serve: Serve, declared: Settings) -> Api:
    return await serve(settings=declared)


async def created(api: Api, type_: str, links: Mapping[str, Any], **attributes: Any) -> str:
    relationships = {name: {"data": {"type": "person", "id": id_}} for name, id_ in links.items()}
    data = {"type": type_, "attributes": attributes, "relationships": relationships}
    response = await api.post(f"/{type_}s", data)
    assert response.status == 201, response.document
    return response.id


async def test_attributes_are_stored_filtered_sorted_and_validated(own: Api) -> None:
    first = await created(own, "computer", {}, serial="A")
    second = await created(own, "computer", {}, serial="B", **VALUES)
    shown = [one["attributes"] for one in (await own.get("/computers?sort=serial")).data]
    assert shown == [{"serial": "A", **DEFAULTS}, {"serial": "B", **VALUES}]
    for name, value in VALUES.items():
        text = str(value).lower() if isinstance(value, bool) else value
        assert (await own.get(f"/computers?filter[{name}]={text}")).ids == [second], name
        assert (await own.get(f"/computers?sort={name}&filter[{name}][ne]={text}")).ids == [first]
    assert (await own.get("/computers?filter[model][contains]=t1")).ids == [second]
    wrong = {"contact": "x", "cores": "x", "price": 1, "leased": 1, "bought": "x", "seen": "x"}
    wrong |= {"status": "lost", "model": 5, "cpu": "x"}
    response = await own.patch(
        f"/computers/{first}", {"type": "computer", "id": first, "attributes": wrong}
    )
    assert {*response.errors} == {(422, f"/data/attributes/{name}") for name in wrong}
    taken = {"type": "computer", "id": first, "attributes": {"tag": "IT-7"}}
    assert (await own.patch(f"/computers/{first}", taken)).code == "value_taken"


async def test_a_new_type_is_linked_included_and_has_a_history(own: Api) -> None:
    ada, bob = await own.person("Ada", "King"), await own.person("Bob", "King")
    phone = await created(own, "phone", {"owner": ada}, number="1")
    computer = await created(own, "computer", {"owner": ada}, serial="A")
    response = await own.get(f"/persons/{ada}?include=phones,computers")
    assert response.included == [("phone", phone), ("computer", computer)]
    moved = {"data": {"type": "person", "id": bob}}
    response = await own.request("PATCH", f"/phones/{phone}/relationships/owner", moved)
    assert response.status == 204
    assert (await own.get("/phones?filter[owner.first_name]=Bob")).ids == [phone]
    periods = (await own.get(f"/phones/{phone}/phone_owner_periods?sort=since")).data
    assert [one["attributes"]["owner_full_name"] for one in periods] == ["Ada King", "Bob King"]
    assert periods[0]["attributes"]["phone_number"] == "1"
    assert (await own.request("DELETE", f"/persons/{bob}")).status == 204
    assert (await own.get(f"/phones/{phone}/owner")).data is None


async def test_a_type_may_link_to_itself(own: Api) -> None:
    boss = await own.person("Ada", "King")
    report = await created(own, "person", {"manager": boss}, first_name="Bob", last_name="Ray")
    shown = (await own.get(f"/persons/{boss}?include=reports,manager")).data
    assert linkage_of(shown)["reports"] == to_many(report, type="person")
    await own.request(
        "PATCH", f"/persons/{boss}/relationships/manager", {"data": {"type": "person", "id": boss}}
    )
    assert (await own.request("DELETE", f"/persons/{boss}")).status == 204
    periods = (await own.get(f"/persons/{report}/person_manager_periods")).data
    (ended,) = [one["attributes"] for one in periods]
    assert (ended["person_full_name"], ended["manager_full_name"]) == ("Bob Ray", "Ada King")
    assert ended["until"] is not None


def test_the_description_is_valid_and_names_everything(declared: Settings) -> None:
    description = describe(declared.graph, declared)
    validate(description)
    schemas = description["components"]["schemas"]
    attributes = schemas["ComputerCreate"]["properties"]["data"]["properties"]["attributes"]
    assert attributes["properties"].keys() == {"serial", *DEFAULTS}
    for name, default in DEFAULTS.items():
        assert attributes["properties"][name]["default"] == default
    tag = attributes["properties"]["tag"]
    assert (tag["example"], tag["description"]) == (
        "IT-1",
        "On its back. No two computers have the same.",
    )
    assert {"/phones", "/phone_owner_periods"} <= description["paths"].keys()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('[error]\ncollection = "mistakes"\nx = "text"', "ErrorDocument"),
        ('[computer_owner]\ncollection = "owners"\nx = "text"', "read_computer_owner"),
    ],
)
def test_names_that_the_description_would_use_twice_are_refused(text: str, name: str) -> None:
    settings = Settings(types=TypesFile("t.toml", text))
    with pytest.raises(InvalidDeclaration, match=f"two parts with the name {name}: rename"):
        create_app(settings)


async def test_tokens_are_for_own_types_too(serve: Serve, declared: Settings, grant: Grant) -> None:
    api = await serve(settings=replace(declared, auth="on"))
    reading = {"Authorization": f"Bearer {await grant('phones:read')}"}
    assert (await api.get("/phones", **reading)).status == 200
    assert (await api.get("/computers", **reading)).status == 403
    response = await api.request("POST", "/phones", {"data": {"type": "phone"}}, reading)
    assert response.status == 403


async def test_the_collections_of_the_service_are_reserved(api: Api, database: Database) -> None:
    paths = {route.canonical.split("/")[1] for route in api.client.app.router.resources()}
    names = {name.partition(".")[0] for name in await database.list_collection_names()}
    own = {one.collection for one in api.client.app[GRAPH].values()}
    assert (paths | names) - own - {""} <= RESERVED_COLLECTIONS
