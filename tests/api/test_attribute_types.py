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
from tests.support import Api, Database, add, linkage_of, new, to_many, update

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
    return new("device", **{"name": "Router", **attributes})


async def test_attributes_of_all_types_are_created_and_read(api: Api, database: Database) -> None:
    created = await api.post("/devices", creation(**REQUEST))
    assert (created.status, created.data["attributes"]) == (201, STORED)
    assert (await api.get("/devices/1")).data["attributes"] == READ
    types = {name: {"$type": f"${name}"} for name in REQUEST}
    (stored,) = await database.devices.aggregate([{"$project": types}]).to_list(None)
    assert (stored["size"], stored["price"], stored["seen"]) == ("long", "decimal", "date")
    assert (stored["active"], stored["bought"], stored["rank"]) == ("bool", "string", "null")
    created = await api.post("/devices", creation())
    assert created.data["attributes"] == DEFAULTS | {"name": "Router"}
    shown = DEFAULTS | {"name": "Router", "state": "new", "label": "Router red"}
    assert [one["attributes"] for one in (await api.get("/devices")).data] == [READ, shown]


async def test_a_declared_link_is_served_in_both_directions(api: Api) -> None:
    person = await api.person()
    await api.computer(owner=person)
    created = await api.post("/devices", creation())
    assert (created.status, created.headers["Location"]) == (201, "/devices/1")
    linkage = {"devices": to_many("1", type="device")}
    changed = await api.patch(f"/persons/{person}", new("person", linkage))
    assert linkage_of(changed.data) == linkage
    response = await api.get("/devices?include=holder.computers&fields[device]=name,holder")
    assert response.data[0]["attributes"] == {"name": "Router"}
    assert response.included == [("person", person), ("computer", "1")]
    response = await api.get(f"/persons/{person}?include=computers,devices")
    assert response.included == [("computer", "1"), ("device", "1")]


async def test_null_clears_an_optional_attribute(api: Api) -> None:
    for name in NULLABLE:
        id_ = await api.create(creation(**REQUEST | {"rank": 5}))
        changed = await api.patch(f"/devices/{id_}", new("device", **{name: None}))
        expected = READ | {"rank": 5} | {name: None}
        assert (changed.status, changed.data["attributes"]) == (200, expected)
        assert (await api.get(f"/devices/{id_}")).data["attributes"] == expected


INVALID: dict[str, list[Any]] = {
    "name": [None, 5, ""],
    "contact": ["a@localhost"],
    "color": [None, "violet", ["red"]],
    "active": [0, "true"],
    "size": ["5", 5.0, True, 2**63, 10**30],
    "price": [1.5, "NaN", "1e5", "9" * 10_000],
    "bought": ["2026-02-30", "2026-02-28T00:00:00Z"],
    "seen": [
        *["2026-02-28T12:30:00", "2026-02-30T12:30:00Z", "0001-01-01T00:00:00+23:59"],
        1_772_281_800,
    ],
    "state": ["old"],
    "label": ["Router red"],
    "unknown": [1],
}
INVALID_PAIRS = [(name, value) for name, values in INVALID.items() for value in values]

BEYOND_JSON_SCHEMA = [("contact", "a@localhost"), ("seen", "0001-01-01T00:00:00+23:59")]
"""Invalid values that a JSON schema cannot exclude."""


async def test_an_invalid_value_is_refused_with_its_pointer(api: Api, database: Database) -> None:
    await api.post("/devices", creation(**REQUEST))
    before = await database.devices.find().to_list(None)
    for name, value in INVALID_PAIRS:
        for response in (
            await api.post("/devices", creation(**{name: value})),
            await api.patch("/devices/1", new("device", **{name: value})),
        ):
            assert response.errors == [(422, f"/data/attributes/{name}")], value
    assert await database.devices.find().to_list(None) == before


async def test_equal_values_of_all_types_change_nothing(api: Api) -> None:
    await api.post("/devices", creation(**REQUEST))
    tag = (await api.get("/devices/1")).headers["ETag"]
    for price, is_same in ((REQUEST["price"], True), ("12.5", False)):
        for attributes in (REQUEST | {"price": price}, {"price": price}):
            await api.patch("/devices/1", new("device", **attributes))
            assert ((await api.get("/devices/1")).headers["ETag"] == tag) is is_same


async def test_atomic_operations_support_all_types(api: Api) -> None:
    change = update(new("device", price="0.10"), lid="new")
    results = (await api.operate(add(creation(**REQUEST), "new"), change)).results
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


def comparable(name: str, value: Any) -> Any:
    """Return a value that Python compares like MongoDB."""
    if value is None:
        return None
    if name == "price":
        return decimal.Decimal(value)
    return datetime.datetime.fromisoformat(value) if name == "seen" else value


async def stored_rows(
    api: Api, database: Database, devices: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Replace the stored devices; return them with their ids."""
    await database.devices.delete_many({})
    ids = [int(await api.create(creation(**attributes))) for attributes in devices]
    return [
        {**one, "label": f"{one['name']} {one['color']}", "state": "new", "id": id_}
        for id_, one in zip(ids, devices, strict=True)
    ]


@hypothesis_settings(max_examples=40, derandomize=True)
@given(data=st.data())
async def test_sorting_filtering_and_paging_agree_with_python(
    api: Api, database: Database, data: st.DataObject
) -> None:
    row = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})
    rows = await stored_rows(api, database, data.draw(st.lists(row, min_size=1, max_size=12)))
    names = st.lists(st.sampled_from([*VALUES, "label", "state"]), max_size=2, unique=True)
    keys = [(name, data.draw(st.booleans())) for name in data.draw(names)]
    for name, descending in reversed([*keys, ("id", bool(keys) and keys[-1][1])]):
        rows.sort(
            key=lambda row: (row[name] is not None, comparable(name, row[name])), reverse=descending
        )
    sort = ",".join(f"{'-' if descending else ''}{name}" for name, descending in keys)
    url = f"/devices?sort={sort or 'id'}"
    whole = [str(row["id"]) for row in rows]
    assert (await api.get(url)).ids == whole
    for page in (f"page[size]={data.draw(st.integers(1, 4))}", "page[size]=3&page[number]=1"):
        pages = await api.pages(f"{url}&{page}")
        assert [id_ for one in pages for id_ in one.ids] == whole
        back = await api.pages(pages[0].document["links"]["last"].removeprefix(api.origin), "prev")
        assert [id_ for one in reversed(back) for id_ in one.ids] == whole
    name = data.draw(st.sampled_from(sorted(VALUES)))
    operators = [one for one in device.attributes[name].operators if one in COMPARISONS]
    code = data.draw(st.sampled_from(operators))
    value = data.draw(st.sampled_from([value for value in VALUES[name] if value is not None]))
    expected = [
        str(row["id"])
        for row in rows
        if COMPARISONS[code](comparable(name, row[name]), comparable(name, value))
    ]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    condition = orjson.dumps([{"name": name, "op": code, "val": value}]).decode()
    for filter_ in (f"filter[{name}][{code}]={quote(text)}", f"filter={quote(condition)}"):
        assert (await api.get(f"{url}&{filter_}")).ids == expected


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": lambda stored, value: stored is not None and stored < value,
    "le": lambda stored, value: stored is not None and stored <= value,
    "gt": lambda stored, value: stored is not None and stored > value,
    "ge": lambda stored, value: stored is not None and stored >= value,
}


def test_the_description_matches_requests_and_responses() -> None:
    description = describe(Graph(WITH_DEVICES), Settings())
    schemas = description["components"]["schemas"]
    assert description["paths"]["/devices"].keys() >= {"get", "post"}

    def is_valid(attributes_schema: Any, attributes: Any) -> bool:
        validator = OAS30Validator(attributes_schema, format_checker=oas30_format_checker)
        return not [*validator.iter_errors(attributes)]

    read = schemas["DeviceResource"]["properties"]["attributes"]
    assert is_valid(read, READ)
    assert is_valid(read, READ | dict.fromkeys(NULLABLE))
    created = schemas["DeviceCreate"]["properties"]["data"]["properties"]["attributes"]
    assert is_valid(created, REQUEST)
    accepted = [
        (name, one) for name, one in INVALID_PAIRS if is_valid(created, REQUEST | {name: one})
    ]
    assert accepted == BEYOND_JSON_SCHEMA
