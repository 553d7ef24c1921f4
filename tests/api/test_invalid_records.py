"""Records that are not valid, as other programs store them without the validator."""

import asyncio
from typing import Any

import pytest
from bson.datetime_ms import DatetimeMS

from registry.jsonapi.pagination import Cursors, parse_sort
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.storage.reads import listings, related_reads
from tests.support import Api, Database, Response, new, set_counters

GRAPH = Graph(RESOURCES)


NAMES = {"first_name": "Grace", "last_name": "Hopper"}
INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("persons", {"first_name": 5}, "first_name is of the type int instead of string"),
    ("persons", {"last_name": None}, "last_name is missing instead of string"),
    ("persons", {"email": DatetimeMS(2**62)}, "email is of the type DatetimeMS"),
    ("persons", {"email": b"x"}, "email is of the type bytes instead of string or null"),
    ("persons", {"_id": 2.0}, "_id is of the type float instead of int or long"),
    ("computers", {"serial": ["x"]}, "serial is of the type list instead of string"),
    ("computers", {"person": [2]}, "person is of the type list instead of int or long or null"),
    ("computers", {"person": {"id": 2}}, "person is of the type dict"),
    ("computers", {"person": 2.0}, "person is of the type float"),
]
"""The collection, the fields of its second record that are not valid, and the line in the log."""


async def store(database: Database, collection: str, fields: dict[str, Any]) -> None:
    """Store two persons, each with a computer. fields: of the second record, not valid."""
    for number in (1, 2):
        records: dict[str, dict[str, Any]] = {
            "persons": {"_id": number, **NAMES},
            "computers": {"_id": number, "serial": "S", "person": number},
        }
        if number == 2:
            records[collection] |= fields
        for name, record in records.items():
            await database[name].insert_one(record, bypass_document_validation=True)
    await set_counters(database)


def is_refused(response: Response) -> bool:
    """Whether a response is the error for an invalid record."""
    codes = [error["code"] for error in response.document.get("errors", ())]
    return (response.status, codes) == (500, ["invalid_record"])


@pytest.mark.parametrize(("collection", "fields", "line"), INVALID)
async def test_only_requests_that_need_an_invalid_record_fail(
    api: Api,
    database: Database,
    caplog: pytest.LogCaptureFixture,
    collection: str,
    fields: dict[str, Any],
    line: str,
) -> None:
    await store(database, collection, fields)
    related = "computers" if collection == "persons" else "owner"
    for path in (
        f"/{collection}/2",
        f"/{collection}/2?include={related}",
        f"/{collection}",
        f"/{collection}?include={related}",
        f"/{collection}?page[size]=9",
        f"/{collection}?page[number]=1&page[size]=9&include={related}",
    ):
        caplog.clear()
        assert is_refused(await api.get(path)), path
        record = f"{collection}/{fields.get('_id', 2)}"
        assert f"The record {record} is not valid: {line}" in caplog.text
        assert "Traceback" not in caplog.text
    for path in (
        f"/{collection}/1",
        f"/{collection}/1?include={related}",
        f"/{collection}/1/{related}",
        "/persons?page[size]=1",
        "/computers?page[size]=1&include=owner",
    ):
        assert (await api.get(path)).status == 200, path
    before = await shown_of(database, collection)
    person, computer = new("person", last_name="Murray"), new("computer", serial="T")
    data = person if collection == "persons" else computer
    paths = [f"/{collection}/{id_}" for id_ in (1, 2, 1, 2)]
    caplog.clear()
    responses = await asyncio.gather(*(api.patch(path, data) for path in paths))
    assert [one.status for one in responses] == [200, 500, 200, 500]
    assert all(is_refused(one) for one in (*responses[1::2], await api.delete(paths[1])))
    assert line in caplog.text
    assert await shown_of(database, collection) == before


async def shown_of(database: Database, collection: str) -> Any:
    """Return what is stored of the second record, but no value that the driver cannot decode."""
    return (await database[collection].find({}, {"email": False}).sort("_id").to_list(None))[1]


async def test_an_id_below_1_fails_the_requests_that_read_it(api: Api, database: Database) -> None:
    await database.persons.insert_one({"_id": 1, **NAMES})
    await database.persons.insert_one({"_id": -2, **NAMES}, bypass_document_validation=True)
    for path in ("/persons", "/persons?page[size]=1"):
        assert is_refused(await api.get(path)), path
    assert (await api.get("/persons/1")).status == 200


async def test_only_requests_that_read_an_invalid_field_fail(api: Api, database: Database) -> None:
    await store(database, "computers", {"person": [2]})
    paths = [f"/persons/{id_}?include=computers" for id_ in (1, 2)] * 50
    responses = await asyncio.gather(*map(api.get, paths))
    assert [one.status for one in responses] == [200, 500] * 50
    assert all(is_refused(one) for one in responses[1::2])
    version = {"$set": {"version": "x"}}
    await database.persons.update_one({"_id": 2}, version, bypass_document_validation=True)
    assert is_refused(await api.get("/persons/2"))
    assert is_refused(await api.patch("/persons/2", new("person", last_name="Murray")))
    assert (await api.get("/persons")).ids == ["1", "2"]


async def test_pages_beyond_a_value_of_another_type_are_read(api: Api, database: Database) -> None:
    await database.computers.insert_many({"_id": one, "serial": f"S{one}"} for one in range(1, 5))
    invalid = {"_id": 5, "serial": True}  # after all texts
    await database.computers.insert_one(invalid, bypass_document_validation=True)
    path = "/computers?sort=-serial&page[size]=2"
    assert is_refused(await api.get(path))
    computer = GRAPH["computer"]
    cursor = Cursors("computer", parse_sort("-serial", computer, GRAPH)).encode(("S4", 4))
    pages = await api.pages(f"{path}&page[after]={cursor}")
    assert [page.ids for page in pages] == [["3", "2"], ["1"]]


@pytest.mark.parametrize("most", [0, 10_000])
async def test_an_invalid_foreign_key_is_met_where_owners_are_sorted_or_filtered(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(listings, "MAX_BATCH", most)
    for name in ("_MAX_IDS", "_MAX_SORTED"):
        monkeypatch.setattr(related_reads, name, most)
    await store(database, "computers", {"person": [2]})
    for query in ("sort=owner.last_name", "filter[owner.last_name]=Hopper"):
        assert is_refused(await api.get(f"/computers?{query}&page[size]=2")), query
    for foreign_key in ([2], {"id": 2}):
        change = {"$set": {"person": foreign_key}}
        await database.computers.update_one({"_id": 2}, change, bypass_document_validation=True)
        assert (await api.get("/persons?filter[computers.serial]=S")).ids[0] == "1"


async def test_a_record_that_mongodb_refuses_is_a_clear_error(
    api: Api, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """For example because a later version of the service has set the validator."""
    person = await api.person()
    schema = {"required": ["team"], "properties": {"email": {"minLength": 9}}}
    await database.command("collMod", "persons", validator={"$jsonSchema": schema})
    data = new("person", **NAMES, email="a@b.org")
    assert is_refused(await api.post("/persons", data))
    assert "The record persons/2 is not valid" in caplog.text
    assert "refuses email, team" in caplog.text
    assert "Traceback" not in caplog.text
    assert (await api.patch(f"/persons/{person}", data)).status == 200  # it was invalid before
    assert (await api.get("/persons")).ids == [person]
