"""A type that is only declared: it is served and described, with attributes of every type."""

from __future__ import annotations

import datetime
import decimal
import operator
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from openapi_schema_validator import OAS30Validator, oas30_format_checker

from registry.model.graph import Graph
from registry.openapi.description import describe
from registry.settings import Settings
from tests.conftest import Serve
from tests.devices import WITH_DEVICES, device
from tests.support import Api, Database, Response, linkage_of, to_many

REQUEST = {
    "name": "Router",
    "note": "in the attic",
    "contact": "ada@example.com",
    "color": "green",
    "active": False,
    "size": -(2**63),
    "price": "12.50",
    "bought": "2024-02-29",
    "seen": "2026-02-28T23:30:00.1239-01:00",
    "rank": None,
}
STORED = REQUEST | {"seen": "2026-03-01T00:30:00.123Z"}
READ = STORED | {"state": "new", "label": "Router green"}
DEFAULTS = {
    **dict.fromkeys(["note", "contact", "active", "size", "price", "bought", "seen"]),
    "color": "red",
    "rank": 7,
}
NULLABLE = ["note", "contact", "active", "size", "price", "bought", "seen", "rank"]


@pytest.fixture
async def api(serve: Serve) -> Api:
    """A service with a type that has attributes of all types."""
    return await serve(resources=WITH_DEVICES)


def creation(**attributes: Any) -> dict[str, Any]:
    return {"type": "device", "attributes": {"name": "Router", **attributes}}


async def test_attributes_of_all_types_are_created_and_read(api: Api) -> None:
    created = await api.post("/devices", creation(**REQUEST))
    assert (created.status, created.data["attributes"]) == (201, STORED)
    assert (await api.get("/devices/1")).data["attributes"] == READ
    assert (await api.get("/devices")).data[0]["attributes"] == READ


async def test_a_declared_link_is_served_in_both_directions(api: Api) -> None:
    person = await api.person()
    await api.computer(owner=person)
    created = await api.post("/devices", creation())
    assert (created.status, created.headers["Location"]) == (201, "/devices/1")
    linkage = {"devices": to_many("1", type="device")}
    changed = await api.patch(f"/persons/{person}", {"type": "person", "relationships": linkage})
    assert linkage_of(changed.data) == linkage
    path = "/devices?include=holder.computers&fields[device]=name,holder"
    response = await api.get(path)
    assert response.data[0]["attributes"] == {"name": "Router"}
    assert response.included == [("person", person), ("computer", "1")]
    response = await api.get(f"/persons/{person}?include=computers,devices")
    assert response.included == [("computer", "1"), ("device", "1")]


async def test_omitted_attributes_get_their_defaults(api: Api) -> None:
    created = await api.post("/devices", creation())
    assert created.data["attributes"] == DEFAULTS | {"name": "Router"}
    attributes = (await api.get("/devices/1")).data["attributes"]
    assert attributes == DEFAULTS | {"name": "Router", "state": "new", "label": "Router red"}


async def test_values_are_stored_with_comparable_types(api: Api, database: Database) -> None:
    await api.post("/devices", creation(**REQUEST))
    types = {name: {"$type": f"${name}"} for name in REQUEST}
    (stored,) = await database.devices.aggregate([{"$project": types}]).to_list(None)
    assert (stored["size"], stored["price"], stored["seen"]) == ("long", "decimal", "date")
    assert (stored["active"], stored["bought"], stored["rank"]) == ("bool", "string", "null")


async def test_null_clears_an_optional_attribute(api: Api) -> None:
    for name in NULLABLE:
        id_ = (await api.post("/devices", creation(**REQUEST | {"rank": 5}))).id
        data = {"type": "device", "attributes": {name: None}}
        changed = await api.patch(f"/devices/{id_}", data)
        expected = READ | {"rank": 5} | {name: None}
        assert (changed.status, changed.data["attributes"]) == (200, expected)
        assert (await api.get(f"/devices/{id_}")).data["attributes"] == expected


INVALID: list[tuple[str, Any]] = [
    ("name", None),
    ("name", 5),
    ("name", ""),
    ("contact", "a@localhost"),
    ("color", None),
    ("color", "violet"),
    ("color", ["red"]),
    ("active", 0),
    ("active", "true"),
    ("size", "5"),
    ("size", 5.0),
    ("size", True),
    ("size", 2**63),
    ("size", 10**30),
    ("price", 1.5),
    ("price", "NaN"),
    ("price", "1e5"),
    ("price", "9" * 10_000),
    ("bought", "2026-02-30"),
    ("bought", "2026-02-28T00:00:00Z"),
    ("seen", "2026-02-28T12:30:00"),
    ("seen", "2026-02-30T12:30:00Z"),
    ("seen", "0001-01-01T00:00:00+23:59"),
    ("seen", 1_772_281_800),
    ("state", "old"),
    ("label", "Router red"),
    ("unknown", 1),
]


BEYOND_JSON_SCHEMA = [("contact", "a@localhost"), ("seen", "0001-01-01T00:00:00+23:59")]
"""Invalid values that a JSON schema cannot exclude."""


async def test_an_invalid_value_is_refused_with_its_pointer(api: Api, database: Database) -> None:
    await api.post("/devices", creation(**REQUEST))
    before = await database.devices.find().to_list(None)
    for name, value in INVALID:
        for response in (
            await api.post("/devices", creation(**{name: value})),
            await api.patch("/devices/1", {"type": "device", "attributes": {name: value}}),
        ):
            assert response.errors == [(422, f"/data/attributes/{name}")], value
    assert await database.devices.find().to_list(None) == before


async def test_equal_values_of_all_types_change_nothing(api: Api) -> None:
    await api.post("/devices", creation(**REQUEST))
    tag = (await api.get("/devices/1")).headers["ETag"]
    for same in (REQUEST, {"price": REQUEST["price"]}):
        await api.patch("/devices/1", {"type": "device", "attributes": same})
        assert (await api.get("/devices/1")).headers["ETag"] == tag
    await api.patch("/devices/1", {"type": "device", "attributes": {"price": "12.5"}})
    assert (await api.get("/devices/1")).headers["ETag"] != tag


async def test_atomic_operations_support_all_types(api: Api) -> None:
    operations = [
        {"op": "add", "data": {**creation(**REQUEST), "lid": "new"}},
        {
            "op": "update",
            "ref": {"type": "device", "lid": "new"},
            "data": {"type": "device", "lid": "new", "attributes": {"price": "0.10"}},
        },
    ]
    results = (await api.operate(*operations)).results
    assert results[0]["data"]["attributes"] == STORED
    assert results[1]["data"]["attributes"] == READ | {"price": "0.10"}
    assert (await api.get("/devices/1")).data["attributes"] == READ | {"price": "0.10"}


# The tests below compare lists of resources with a plain Python oracle.

VALUES: dict[str, list[Any]] = {
    "name": ["a", "B", "é"],
    "contact": [None, "a@example.com", "b@example.com"],
    "color": ["red", "green", "blue"],
    "active": [None, False, True],
    "size": [None, -(2**63), -1, 0, 5, 2**63 - 1],
    "price": [None, "-1.50", "0", "0.10", "0.1", "10", "9", "9" * 24 + ".9999999999"],
    "bought": [None, "0001-01-01", "2024-02-29", "2024-03-01"],
    "seen": [
        None,
        "1969-12-31T23:59:59.999Z",
        "2026-02-28T12:00:00.000Z",
        "2026-02-28T12:00:00.001Z",
    ],
}

DEVICES = st.lists(
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()}),
    min_size=1,
    max_size=12,
)
KEYS = st.lists(st.sampled_from([*VALUES, "label", "state"]), min_size=1, max_size=2, unique=True)

Row = dict[str, Any]


def comparable(name: str, value: Any) -> Any:
    """Return a value that Python compares like MongoDB."""
    if value is None:
        return None
    if name == "price":
        return decimal.Decimal(value)
    return datetime.datetime.fromisoformat(value) if name == "seen" else value


def expected_order(rows: list[Row], keys: list[tuple[str, bool]]) -> list[str]:
    """Return the ids in the order of the keys, null first, ties by id."""
    ordered = sorted(rows, key=lambda row: row["id"], reverse=keys[-1][1])
    for name, descending in reversed(keys):
        ordered.sort(
            key=lambda row: (row[name] is not None, comparable(name, row[name])), reverse=descending
        )
    return [str(row["id"]) for row in ordered]


async def stored_rows(api: Api, database: Database, devices: list[Row]) -> list[Row]:
    """Replace the stored devices; return them with their ids."""
    await database.devices.delete_many({})
    rows = []
    for attributes in devices:
        data = (await api.post("/devices", creation(**attributes))).data
        label = f"{attributes['name']} {attributes['color']}"
        rows.append({**attributes, "label": label, "state": "new", "id": int(data["id"])})
    return rows


def ids_of(pages: list[Response]) -> list[str]:
    """Return the ids of all resources, page by page."""
    return [id_ for page in pages for id_ in page.ids]


EXAMPLES = hypothesis_settings(max_examples=25, derandomize=True)


@EXAMPLES
@given(devices=DEVICES, names=KEYS, data=st.data())
async def test_sorting_and_paging_agree_with_python(
    api: Api, database: Database, devices: list[Row], names: list[str], data: st.DataObject
) -> None:
    rows = await stored_rows(api, database, devices)
    keys = [(name, data.draw(st.booleans())) for name in names]
    sort = ",".join(f"{'-' if descending else ''}{name}" for name, descending in keys)
    expected = expected_order(rows, keys)
    assert (await api.get(f"/devices?sort={sort}")).ids == expected
    first = f"/devices?sort={sort}&page[size]={data.draw(st.integers(1, 4))}"
    assert ids_of(await api.pages(first)) == expected
    last = (await api.get(first)).document["links"]["last"]
    assert ids_of((await api.pages(last, "prev"))[::-1]) == expected
    assert ids_of(await api.pages(f"{first}&page[number]=1")) == expected


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": lambda stored, value: stored is not None and stored < value,
    "le": lambda stored, value: stored is not None and stored <= value,
    "gt": lambda stored, value: stored is not None and stored > value,
    "ge": lambda stored, value: stored is not None and stored >= value,
}


@EXAMPLES
@given(devices=DEVICES, name=st.sampled_from(sorted(VALUES)), data=st.data())
async def test_filters_in_both_notations_agree_with_python(
    api: Api, database: Database, devices: list[Row], name: str, data: st.DataObject
) -> None:
    rows = await stored_rows(api, database, devices)
    operators = [one for one in device.attributes[name].operators if one in COMPARISONS]
    code = data.draw(st.sampled_from(operators))
    value = data.draw(st.sampled_from([value for value in VALUES[name] if value is not None]))
    expected = [
        str(row["id"])
        for row in rows
        if COMPARISONS[code](comparable(name, row[name]), comparable(name, value))
    ]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    assert (await api.get(f"/devices?filter[{name}][{code}]={quote(text)}")).ids == expected
    condition = quote(orjson.dumps([{"name": name, "op": code, "val": value}]).decode())
    assert (await api.get(f"/devices?filter={condition}")).ids == expected


def test_the_description_matches_requests_and_responses() -> None:
    description = describe(Graph(WITH_DEVICES), Settings())
    schemas = description["components"]["schemas"]
    assert description["paths"]["/devices"].keys() >= {"get", "post"}
    parameters = description["paths"]["/devices"]["get"]["parameters"]
    assert "fields[device]" in [one["name"] for one in parameters]

    def errors(attributes_schema: Any, attributes: Any) -> list[str]:
        validator = OAS30Validator(attributes_schema, format_checker=oas30_format_checker)
        return [error.message for error in validator.iter_errors(attributes)]

    read = schemas["DeviceResource"]["properties"]["attributes"]
    assert errors(read, READ) == []
    assert errors(read, READ | dict.fromkeys(NULLABLE)) == []
    created = schemas["DeviceCreate"]["properties"]["data"]["properties"]["attributes"]
    assert errors(created, REQUEST) == []
    accepted = [
        (name, value) for name, value in INVALID if not errors(created, REQUEST | {name: value})
    ]
    assert accepted == BEYOND_JSON_SCHEMA
