"""What a file of types declares is first class: in every request, in the description, in scopes."""

from dataclasses import replace

import pytest
from openapi_spec_validator import validate

from registry.app import create_app
from registry.http.app_keys import GRAPH
from registry.model.resource_type import InvalidDeclaration
from registry.openapi.description import describe
from registry.resources.types_file import RESERVED_COLLECTIONS, TypesFile
from registry.settings import Settings
from tests.conftest import Header, Serve
from tests.support import Api, Database, identifier, linkage_of, new, to_many, to_one

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
ATTRIBUTES = {
    "model": (None, "T14"),
    "tag": (None, "IT-7"),
    "contact": (None, "a@b.org"),
    "cores": (4, 8),
    "price": ("12.50", "900.00"),
    "leased": (False, True),
    "bought": ("2026-01-31", "2026-02-28"),
    "seen": ("2026-01-31T11:00:00.000Z", "2026-03-01T00:00:00.000Z"),
    "status": ("ready", "repair"),
}
DEFAULTS = {name: default for name, (default, _) in ATTRIBUTES.items()}
VALUES = {name: value for name, (_, value) in ATTRIBUTES.items()}


@pytest.fixture
def declared(settings: Settings) -> Settings:
    return replace(settings, types=TypesFile(TEXT))


@pytest.fixture
async def own(serve: Serve, declared: Settings) -> Api:
    return await serve(settings=declared)


async def test_attributes_are_stored_filtered_and_validated(own: Api) -> None:
    first, second = await own.computer("A"), await own.create(new("computer", serial="B", **VALUES))
    shown = [resource["attributes"] for resource in (await own.get("/computers?sort=-cores")).data]
    assert shown == [{"serial": "B", **VALUES}, {"serial": "A", **DEFAULTS}]
    assert (await own.get("/computers?filter[model][contains]=t1")).ids == [second]
    wrong = {"contact": "x", "cores": "x", "status": "lost", "cpu": "x"}
    response = await own.patch(f"/computers/{first}", new("computer", **wrong))
    assert {*response.errors} == {(422, f"/data/attributes/{name}") for name in wrong}
    taken = await own.patch(f"/computers/{first}", new("computer", tag="IT-7"))
    assert taken.code == "value_taken"


async def test_a_new_type_is_linked_included_and_has_a_history(own: Api) -> None:
    ada, bob = await own.person("Ada", "King"), await own.person("Bob", "King")
    phone = await own.create(new("phone", {"owner": to_one(ada)}, number="1"))
    computer = await own.computer("A", ada)
    response = await own.get(f"/persons/{ada}?include=phones,computers")
    assert response.included == [("phone", phone), ("computer", computer)]
    moved = await own.patch(f"/phones/{phone}/relationships/owner", identifier("person", bob))
    assert moved.status == 204
    assert (await own.get("/phones?filter[owner.first_name]=Bob")).ids == [phone]
    periods = (await own.get(f"/phones/{phone}/phone_owner_periods?sort=since")).data
    assert [period["attributes"]["owner_full_name"] for period in periods] == ["Ada King", None]
    assert periods[0]["attributes"]["phone_number"] == "1"
    assert (await own.delete(f"/persons/{bob}")).status == 204
    assert (await own.get(f"/phones/{phone}/owner")).data is None


async def test_a_type_may_link_to_itself(own: Api) -> None:
    boss = await own.person("Ada", "King")
    managed = {"manager": to_one(boss)}
    report = await own.create(new("person", managed, first_name="Bob", last_name="Ray"))
    shown = (await own.get(f"/persons/{boss}?include=reports,manager")).data
    assert linkage_of(shown)["reports"] == to_many(report, type="person")
    await own.patch(f"/persons/{boss}/relationships/manager", identifier("person", boss))
    assert (await own.delete(f"/persons/{boss}")).status == 204
    (ended,) = (await own.get(f"/persons/{report}/person_manager_periods")).data
    names = [ended["attributes"][f"{end}_full_name"] for end in ("person", "manager")]
    assert (names, ended["attributes"]["until"] is None) == (["Bob Ray", "Ada King"], False)


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
    settings = Settings(types=TypesFile(text))
    with pytest.raises(InvalidDeclaration, match=f"two parts with the name {name}: rename"):
        create_app(settings)


async def test_tokens_can_have_scopes_for_own_types(
    serve: Serve, declared: Settings, header: Header
) -> None:
    api = await serve(settings=replace(declared, auth="on"))
    reading = await header("phones:read")
    assert (await api.get("/phones", **reading)).status == 200
    assert (await api.get("/computers", **reading)).status == 403
    assert (await api.post("/phones", {"type": "phone"}, **reading)).status == 403


async def test_the_collections_of_the_service_are_reserved(api: Api, database: Database) -> None:
    paths = {route.canonical.split("/")[1] for route in api.client.app.router.resources()}
    names = {name.partition(".")[0] for name in await database.list_collection_names()}
    own = {resource_type.collection for resource_type in api.client.app[GRAPH].values()}
    assert (paths | names) - own - {""} <= RESERVED_COLLECTIONS
