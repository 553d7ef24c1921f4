"""A type that is only declared: it is served and described, with attributes of every type."""

from typing import Any
from urllib.parse import quote

import orjson
import pytest
from openapi_schema_validator import OAS30Validator, oas30_format_checker

from registry.model.graph import Graph
from registry.openapi.description import describe
from registry.settings import Settings
from tests.conftest import Serve
from tests.devices import WITH_DEVICES, device
from tests.support import Api, Database, new

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
    assert [resource["attributes"] for resource in (await api.get("/devices")).data] == [
        READ,
        shown,
    ]


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


LONG = "9" * 24 + ".9999999999"
ASCENDING: dict[str, list[Any]] = {
    "name": ["B", "a", "é"],
    "contact": [None, "a@example.com", "b@example.com"],
    "color": ["blue", "green", "red"],
    "active": [None, False, True],
    "size": [None, -(2**63), -1, 0, 5, 2**63 - 1],
    "price": [None, "-1.50", "0", "0.10", "9", "10", LONG],
    "bought": [None, "0001-01-01", "2024-02-29", "2024-03-01"],
    "seen": [
        None,
        *(f"{item}Z" for item in ("1969-12-31T23:59:59.999", "2026-02-28T12:00:00.001")),
    ],
}
"""Values of attributes of each type in their order."""


@pytest.mark.parametrize("name", ASCENDING)
async def test_values_of_every_type_are_sorted_paged_and_compared(api: Api, name: str) -> None:
    values = ASCENDING[name]
    ids = [await api.create(creation(**{name: value})) for value in values]
    for sort, expected in ((name, ids), (f"-{name}", ids[::-1])):
        assert (await api.get(f"/devices?sort={sort}")).ids == expected
        pages = await api.pages(f"/devices?sort={sort}&page[size]=1")
        assert [page.ids for page in pages] == [[id_] for id_ in expected]
    first = values.count(None)  # null is neither less nor greater
    for place, value in enumerate(values[first:], first):
        text = quote(str(value).lower() if isinstance(value, bool) else str(value))
        for code, expected in (
            *(("eq", ids[place : place + 1]), ("ne", ids[:place] + ids[place + 1 :])),
            *(("lt", ids[first:place]), ("le", ids[first : place + 1])),
            *(("gt", ids[place + 1 :]), ("ge", ids[place:])),
        ):
            if code in device.attributes[name].kind.operators:
                condition = orjson.dumps([{"name": name, "op": code, "val": value}]).decode()
                for query in (f"filter[{name}][{code}]={text}", f"filter={quote(condition)}"):
                    assert (await api.get(f"/devices?{query}")).ids == expected, query


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
        (name, value) for name, value in INVALID_PAIRS if is_valid(created, REQUEST | {name: value})
    ]
    assert accepted == BEYOND_JSON_SCHEMA
