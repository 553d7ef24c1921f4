"""Schemas of users: everything that marshmallow documents of them holds in requests."""

import datetime
from typing import Any

import pytest
from marshmallow import (
    Schema,
    ValidationError,
    fields,
    post_dump,
    post_load,
    pre_load,
    validate,
    validates,
    validates_schema,
)

from registry.model import fields as own_fields
from registry.model.graph import Graph
from registry.model.resource_type import Link, ResourceType
from registry.openapi.description import describe
from registry.resources import RESOURCES
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import Api, Database, new


class Shouted(fields.String):
    """Text that is shown in capitals."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        text = super()._serialize(value, attr, obj, **kwargs)
        return f"{text.upper()} ({obj['tag']})" if text else text


class ToolSchema(Schema):
    """Plain fields of marshmallow, and each kind of hook."""

    tag = fields.String(required=True, validate=validate.Length(max=5), metadata={"example": "T1"})
    place = Shouted(load_default=None)
    size = fields.Integer(validate=validate.Range(min=1, max=9), load_default=3)
    state = fields.String(validate=validate.OneOf(["new", "old"]), load_default="new")
    code = fields.String(validate=validate.Regexp("[A-Z]+"), metadata={"example": "ABC"})
    since = fields.Date(load_default=None)
    price = fields.Decimal(load_default=None)
    key = fields.UUID(load_default=None)
    seen = fields.DateTime(load_default=None)
    note = fields.String(load_only=True)
    slug = fields.String(dump_only=True, load_default="none")

    @pre_load
    def strip(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Remove blanks."""
        return {
            name: value.strip() if isinstance(value, str) else value for name, value in data.items()
        }

    @validates("since")
    def is_past(self, value: datetime.date | None, data_key: str) -> None:
        """Refuse dates of the future."""
        if value and value > datetime.date(2026, 12, 31):
            raise ValidationError(f"{data_key} is in the future.")

    @validates_schema
    def is_whole(self, data: dict[str, Any], **_: Any) -> None:
        """Refuse what does not fit together."""
        if data.get("size") == 9 and data.get("state") == "old":
            raise ValidationError("Old tools are small.")
        if data.get("size") == 8:
            raise ValidationError({"state": ["Has no 8."], "price": {"0": ["Too low."]}})

    @post_load
    def set_slug(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Set a field that requests cannot set."""
        return data | ({"slug": data["tag"].lower()} if "tag" in data else {})

    @post_dump
    def add_label(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Change what is shown."""
        return data | ({"code": f"<{data['code']}>"} if "code" in data else {})


tool = ResourceType("tool", "tools", ToolSchema, (Link("owner", "person", "owner_id", "tools"),))

CSV = {"Accept": "text/csv"}

SHOWN = {
    "tag": "T1",
    "place": None,
    "size": 3,
    "state": "new",
    "since": None,
    "price": None,
    "key": None,
    "seen": None,
    "slug": "t1",
}


@pytest.fixture
async def api(serve: Serve) -> Api:
    """A service with the type."""
    return await serve(resources=(*RESOURCES, tool))


async def test_plain_fields_are_stored_shown_and_filtered(api: Api, database: Database) -> None:
    sent = {
        "place": "attic",
        "size": "4",
        "since": "2026-02-28",
        "price": 12.5,
        "code": "AB",
        "key": "8E03978E40D543E893BC6894A57F9324",
        "seen": "2026-02-28T12:30:00",
    }
    await api.post("/tools", new("tool", tag=" T1 ", note="hidden", **sent))
    (stored,) = await database.tools.find().to_list(None)
    assert (stored["since"], stored["note"], stored["slug"]) == ("2026-02-28", "hidden", "t1")
    read = (await api.get("/tools/1")).data["attributes"]
    assert read == SHOWN | {
        "place": "ATTIC (T1)",
        "size": 4,
        "since": "2026-02-28",
        "price": "12.5",
        "code": "<AB>",
        "key": "8e03978e-40d5-43e8-93bc-6894a57f9324",
        "seen": "2026-02-28T12:30:00+00:00",
    }
    for query in (
        *["place=attic", "size[gt]=3", "since[le]=2026-02-28", "price=12.5", "code[prefix]=A"],
        *["key=8e03978e40d543e893bc6894a57f9324", "seen=2026-02-28T13:30:00%2B01:00"],
    ):
        name, _, value = query.partition("=")
        field, _, operator = name.partition("[")
        parameter = f"filter[{field}]" + (f"[{operator}" if operator else "")
        assert (await api.get(f"/tools?{parameter}={value}")).ids == ["1"], query


async def test_a_value_that_was_never_sent_is_stored_and_shown_as_declared(api: Api) -> None:
    await api.post("/tools", new("tool", tag="T1"))
    read = (await api.get("/tools/1")).data["attributes"]
    assert read == SHOWN  # without `code`, which is neither required nor can be null
    response = await api.patch("/tools/1", new("tool", **read))
    assert (response.status, response.data["attributes"]) == (200, SHOWN)
    assert (await api.patch("/tools/1", new("tool", code=None))).errors == [
        (422, "/data/attributes/code")
    ]


@pytest.mark.parametrize(
    ("sent", "errors"),
    [
        ({"tag": "123456"}, {"tag": "Longer than maximum length 5."}),
        ({"size": 0, "state": "x"}, {"size": "Must be", "state": "Must be one of: new, old."}),
        ({"size": 2**63}, {"size": "Must be greater"}),
        ({"since": "2027-01-01"}, {"since": "since is in the future."}),
        ({"size": 9, "state": "old"}, {"": "Old tools are small."}),
        ({"size": 8}, {"state": "Has no 8.", "price": "Too low."}),
        ({"code": "a"}, {"code": "String does not match expected pattern."}),
        ({"slug": "x"}, {"slug": "This attribute is read-only."}),
        ({"x": 1, "size": 0}, {"x": "`x` is not an attribute of `tool`", "size": "Must be"}),
    ],
)
async def test_validators_and_hooks_refuse_with_pointers(
    api: Api, sent: dict[str, Any], errors: dict[str, str]
) -> None:
    await api.post("/tools", new("tool", tag="T1"))
    for response in (
        await api.post("/tools", new("tool", **{"tag": "T2", **sent})),
        await api.patch("/tools/1", new("tool", **sent)),
    ):
        assert response.status == 422
        found = {
            error["source"]["pointer"]: error["detail"] for error in response.document["errors"]
        }
        place = "/data/attributes"
        assert found.keys() == {f"{place}/{name}" if name else place for name in errors}
        for name, detail in errors.items():
            assert found[f"{place}/{name}" if name else place].startswith(detail)
    assert (await api.get("/tools/1")).data["attributes"] == SHOWN


@pytest.mark.parametrize("count", [1, 60])
async def test_sparse_fields_show_what_the_schema_dumps(api: Api, count: int) -> None:
    for number in range(count):
        await api.post("/tools", new("tool", tag=f"T{number}", place="attic", code="A"))
    for _ in range(20):  # until what is compiled for lists would be used
        shown = await api.get("/tools?fields[tool]=place,code&page[size]=100")
        assert [resource["attributes"] for resource in shown.data] == [
            {"place": f"ATTIC (T{number})", "code": "<A>"} for number in range(count)
        ]
    async with api.client.get("/tools?fields[tool]=id,place", headers=CSV) as table:
        assert (await table.text()).splitlines()[1] == "1,ATTIC (T0)"


def test_validators_are_described() -> None:
    schemas = describe(Graph((*RESOURCES, tool)), Settings())["components"]["schemas"]
    created = schemas["ToolCreate"]["properties"]["data"]["properties"]["attributes"]
    properties = created["properties"]
    assert created["required"] == ["tag"]
    assert properties["tag"] == {"type": "string", "maxLength": 5, "example": "T1"}
    assert (properties["size"]["minimum"], properties["size"]["maximum"]) == (1, 9)
    assert properties["state"]["enum"] == ["new", "old"]
    assert properties["code"]["pattern"] == "[A-Z]+"
    assert properties["note"]["writeOnly"]
    assert "slug" not in properties
    read = schemas["ToolResource"]["properties"]["attributes"]["properties"]
    assert read["slug"]["readOnly"]
    assert "note" not in read


class ColorfulPerson(RESOURCES[0].schema):  # type: ignore[misc] # mypy: a variable as a base class
    """A subclass of a schema of the package."""

    color = own_fields.Enumeration("red", "green", load_default=None)

    @validates("first_name")
    def is_capital(self, value: str, data_key: str) -> None:
        """Refuse small letters."""
        if not value[0].isupper():
            raise ValidationError(f"{data_key} begins with a small letter.")


async def test_a_schema_of_the_package_can_be_extended(serve: Serve) -> None:
    person = ResourceType("person", "persons", ColorfulPerson)
    api = await serve(resources=(person, *RESOURCES[1:]))
    refused = await api.post("/persons", new("person", first_name="ada", last_name="L"))
    assert refused.errors == [(422, "/data/attributes/first_name")]
    await api.post("/persons", new("person", first_name="Ada", last_name="L", color="red"))
    read = (await api.get("/persons/1")).data["attributes"]
    assert (read["full_name"], read["color"]) == ("Ada L", "red")
