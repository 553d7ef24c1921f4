"""`filter`: compared with filtering in Python, for unpaged collections and page by page."""

from __future__ import annotations

import json
import operator
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from registry.compound import stream
from registry.settings import Settings
from registry.storage.mongo.read_commands import ReadCommands, ReadResult
from registry.storage.reads import joined_reads, listings
from tests.conftest import LIMITS, Serve
from tests.support import Api, Database

# Prefixes of each other, mixed case, patterns, and text that could be mistaken for operators.
WORDS = ["Ann", "Ann Marie", "Anna", "ann", "null", "Ä", "a.b", "axb", "$ne", '{"$gt":""}', "😀"]
EMAILS = [None, "a@example.com", "ab@example.com", "B@example.com"]

Resources = list[dict[str, Any]]


@pytest.fixture
async def persons(database: Database) -> Resources:
    """Persons with many equal values; some lack an e-mail, as after external writes."""
    rng = random.Random(4)  # noqa: S311 - the same persons in each run
    stored: Resources = [
        {
            "_id": number,
            "first_name": rng.choice(WORDS),
            "last_name": rng.choice(WORDS),
            **({} if rng.random() < 0.2 else {"email": rng.choice(EMAILS)}),
        }
        for number in range(1, 41)
    ]
    await database.persons.insert_many(stored)
    return [
        {
            "id": record["_id"],
            "email": record.get("email"),
            "first_name": record["first_name"],
            "last_name": record["last_name"],
            "full_name": f"{record['first_name']} {record['last_name']}",
        }
        for record in stored
    ]


@pytest.fixture
async def computers(database: Database) -> Resources:
    """Owned and unowned computers; some owners do not exist."""
    rng = random.Random(5)  # noqa: S311 - the same computers in each run
    stored: Resources = [
        {"_id": number, "serial": rng.choice(WORDS), "person": rng.choice([7, 8, 70, None])}
        for number in range(1, 31)
    ]
    await database.computers.insert_many(stored)
    return [
        {"id": record["_id"], "serial": record["serial"], "owner": record["person"]}
        for record in stored
    ]


def if_not_null(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison that null never satisfies."""
    return lambda stored, value: stored is not None and compare(stored, value)


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": if_not_null(operator.lt),
    "le": if_not_null(operator.le),
    "gt": if_not_null(operator.gt),
    "ge": if_not_null(operator.ge),
    "in": lambda stored, values: stored in values,
    "prefix": if_not_null(str.startswith),
    "contains": if_not_null(lambda stored, text: text.lower() in stored.lower()),
    "null": lambda stored, null: (stored is None) == null,
}


def format_value(value: Any) -> str:
    """Return a value in the notation of query parameters."""
    if isinstance(value, list):
        return ",".join(map(format_value, value))
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def conditions(resources: Resources, rng: random.Random) -> Iterator[tuple[str, str, Any]]:
    """Yield a condition (name, operator, value) for each field and operator, most with matches."""
    for name in resources[0]:
        values = [resource[name] for resource in resources if resource[name] is not None]
        for op in OPERATORS:
            value: Any = rng.choice(values)
            if op in {"prefix", "contains"}:
                if name in {"id", "owner"}:
                    continue
                value = value[: rng.randint(1, len(value))]
            elif op == "in":
                value = [value, *rng.sample(values, 2)]
            elif op == "null":
                value = rng.random() < 0.5
            yield name, op, value


async def check(api: Api, collection: str, query: str, expected: list[str]) -> None:
    """Check the ids of the whole collection and of its pages of 4, and the total."""
    path = f"/{collection}?{query}"
    response = await api.get(path)
    assert response.status == 200, response.document
    assert response.ids == expected, query
    numbered = await api.get(f"{path}&page[number]=1&page[size]=4")
    assert numbered.ids == expected[:4], query
    assert numbered.document["meta"]["total"] == len(expected), query
    pages = await api.pages(f"{path}&page[size]=4")
    assert [id_ for page in pages for id_ in page.ids] == expected, query


def matching(resources: Resources, *conditions: tuple[str, str, Any]) -> list[str]:
    return [
        str(resource["id"])
        for resource in resources
        if all(OPERATORS[op](resource[name], value) for name, op, value in conditions)
    ]


@pytest.mark.parametrize(
    ("query", "equivalent"),
    [
        ("filter[owner]=7", [("owner", "eq", 7)]),
        ("filter[owner]=null", [("owner", "eq", None)]),
        ("filter[owner]=7,null", [("owner", "in", [7, None])]),
        ("filter[owner][ne]=7", [("owner", "ne", 7)]),
        ("filter[id]=1,2,3", [("id", "in", [1, 2, 3])]),
        ("filter[id]=99", [("id", "eq", 99)]),
        ("filter[id]=", [("id", "in", [])]),
        ("filter[serial]=", [("serial", "eq", "")]),
        ("filter[serial]=Ann,ann", [("serial", "in", ["Ann", "ann"])]),
        ("filter[serial]=null", [("serial", "eq", "null")]),
        ("filter[serial][eq]=$ne", [("serial", "eq", "$ne")]),
        ('filter[serial]={"$gt":""}', [("serial", "eq", '{"$gt":""}')]),
        ("filter[serial][contains]=A.B", [("serial", "contains", "a.b")]),
        (
            "filter[serial][prefix]=A&filter[owner]=7",
            [("serial", "prefix", "A"), ("owner", "eq", 7)],
        ),
        ("filter=[]", []),
        ("filter=[]&filter[owner]=8", [("owner", "eq", 8)]),
    ],
)
async def test_short_filter_forms_match_the_equivalent_conditions(
    api: Api, computers: Resources, query: str, equivalent: list[tuple[str, str, Any]]
) -> None:
    await check(api, "computers", query, matching(computers, *equivalent))


class Related:
    """Persons and computers, and conditions on them in the JSON notation, evaluated in Python."""

    def __init__(self, persons: Resources, computers: Resources) -> None:
        self.resources = {"persons": persons, "computers": computers}

    def linked(self, resource: dict[str, Any]) -> Resources:
        """Return the owner of a computer if it exists, or the computers of a person."""
        persons, computers = self.resources["persons"], self.resources["computers"]
        if "owner" in resource:
            return [person for person in persons if person["id"] == resource["owner"]]
        return [computer for computer in computers if computer["owner"] == resource["id"]]

    def satisfies(self, resource: dict[str, Any], condition: dict[str, Any]) -> bool:
        match condition:
            case {"and": parts}:
                return all(self.satisfies(resource, part) for part in parts)
            case {"or": parts}:
                return any(self.satisfies(resource, part) for part in parts)
            case {"not": part}:
                return not self.satisfies(resource, part)
            case {"op": "has" | "any", "val": part}:
                return any(self.satisfies(other, part) for other in self.linked(resource))
        path, _, name = condition["name"].rpartition(".")
        compare = OPERATORS[condition["op"]]
        compared = self.linked(resource) if path else [resource]
        return any(compare(one[name], condition["val"]) for one in compared)

    def matching(self, collection: str, *conditions: dict[str, Any]) -> list[str]:
        return [
            str(resource["id"])
            for resource in self.resources[collection]
            if all(self.satisfies(resource, condition) for condition in conditions)
        ]

    def comparisons(self, collection: str, rng: random.Random) -> list[dict[str, Any]]:
        """Return a condition on the attributes of a collection for each field and operator."""
        found = conditions(self.resources[collection], rng)
        return [{"name": name, "op": op, "val": value} for name, op, value in found]

    def related(self, collection: str, rng: random.Random) -> list[dict[str, Any]]:
        """Return a condition on related attributes, written as a path, for each field."""
        relationship, other = RELATED[collection]
        return [
            {**condition, "name": f"{relationship}.{condition['name']}"}
            for condition in self.comparisons(other, rng)
            if condition["name"] != "owner"
        ]

    def tree(self, collection: str, rng: random.Random, depth: int = 2) -> dict[str, Any]:
        """Return a combination of conditions, most of which are on related resources."""
        kind = rng.choice(["and", "or", "not", "related", "own", "path"] if depth else ["path"])
        relationship, other = RELATED[collection]
        if kind in {"and", "or"}:
            return {kind: [self.tree(collection, rng, depth - 1) for _ in range(rng.randint(1, 3))]}
        if kind == "not":
            return {"not": self.tree(collection, rng, depth - 1)}
        if kind == "own":
            return rng.choice(self.comparisons(collection, rng))
        if kind == "path":
            return rng.choice(self.related(collection, rng))
        inner = [one for one in self.comparisons(other, rng) if one["name"] != "owner"]
        val = rng.choice([{"and": []}, {"or": rng.sample(inner, 2)}, {"not": inner[0]}, inner[-1]])
        return {"name": relationship, "op": "has" if relationship == "owner" else "any", "val": val}


RELATED = {"persons": ("computers", "computers"), "computers": ("owner", "persons")}


@pytest.fixture
async def related(persons: Resources, computers: Resources, database: Database) -> Related:
    """Persons with several computers and without any, computers with and without an owner."""
    rng = random.Random(9)  # noqa: S311 - the same owners in each run
    for computer in computers:
        computer["owner"] = rng.choice([1, 2, 3, 4, 5, 6, 70, None])
        change = {"$set": {"person": computer["owner"]}}
        await database.computers.update_one({"_id": computer["id"]}, change)
    return Related(persons, computers)


@pytest.fixture(params=["few", "several", "many"])
def number_of_related(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records that count as few: all, some or none, each of which is another way to read."""
    if request.param == "few":
        return
    most = {"several": 5, "many": 0}[request.param]
    monkeypatch.setattr(joined_reads, "MAX_IDS", most)
    monkeypatch.setattr(listings, "MAX_BATCH", 0)
    monkeypatch.setattr(listings, "_MAX_IDS", most)
    monkeypatch.setattr(joined_reads, "MAX_BATCH", 7)
    monkeypatch.setattr(joined_reads, "_MAX_SORTED", most)
    for module in (listings, stream):
        monkeypatch.setattr(module, "CHUNK", 3)


async def check_backwards(api: Api, path: str, expected: list[str]) -> None:
    """Check the pages of 4 from the last to the first."""
    first = await api.get(f"{path}&page[size]=4")
    last = first.document["links"]["last"].removeprefix(api.origin)
    pages = await api.pages(last, "prev")
    assert [id_ for page in reversed(pages) for id_ in page.ids] == expected, path


@pytest.mark.usefixtures("number_of_related")
async def test_conditions_on_related_attributes_are_combined_in_any_order_and_page(
    api: Api, related: Related
) -> None:
    rng = random.Random(11)  # noqa: S311 - the same conditions in each run
    numbers_of_matches = set()
    for collection in RELATED:
        for _ in range(8):
            parts = [related.tree(collection, rng) for _ in range(rng.randint(1, 2))]
            query = f"filter={quote(json.dumps(parts), safe='')}"
            expected = related.matching(collection, *parts)
            numbers_of_matches.add(len(expected))
            await check(api, collection, query, expected)
            await check_backwards(api, f"/{collection}?{query}&sort=-id", expected[::-1])
            second = await api.get(f"/{collection}?{query}&page[number]=2&page[size]=4")
            assert second.ids == expected[4:8], query
    assert len(numbers_of_matches) > 8


@pytest.mark.usefixtures("number_of_related")
async def test_filters_by_related_attributes_work_with_all_other_parameters(
    api: Api, related: Related
) -> None:
    condition = {"name": "owner.first_name", "op": "ge", "val": "B"}
    expected = related.matching("computers", condition)
    owners = {one["id"]: one for one in related.resources["persons"]}
    by_name = sorted(
        (one for one in related.resources["computers"] if str(one["id"]) in expected),
        key=lambda one: (owners[one["owner"]]["last_name"], one["id"]),
    )
    query = "filter[owner.first_name][ge]=B&sort=owner.last_name&include=owner&fields[computer]="
    await check(api, "computers", query, [str(one["id"]) for one in by_name])
    response = await api.get(f"/computers?{query}")
    assert {id_ for _, id_ in response.included} == {str(one["owner"]) for one in by_name}
    for person in (1, 2, 6):
        owned = related.matching("computers", {"name": "owner", "op": "eq", "val": person})
        ids = [id_ for id_ in owned if id_ in expected]
        await check(api, f"persons/{person}/computers", "filter[owner.first_name][ge]=B", ids)
        linkage = await api.get(
            f"/persons/{person}/relationships/computers?filter[owner.first_name][ge]=B"
        )
        assert linkage.ids == ids


async def test_two_parameters_on_a_to_many_relationship_may_match_different_resources(
    api: Api,
) -> None:
    await api.person()
    await api.person()
    for serial, owner in (("A-1", "1"), ("B-2", "1"), ("A-2", "2")):
        await api.computer(serial, owner)
    prefix = {"name": "serial", "op": "prefix", "val": "A"}
    suffix = {"name": "serial", "op": "contains", "val": "2"}
    query = "filter[computers.serial][prefix]=A&filter[computers.serial][contains]=2"
    assert (await api.get(f"/persons?{query}")).ids == ["1", "2"]
    same = [{"name": "computers", "op": "any", "val": {"and": [prefix, suffix]}}]
    assert (await api.get(f"/persons?filter={quote(json.dumps(same))}")).ids == ["2"]


async def test_a_dangling_foreign_key_links_no_owner(api: Api, database: Database) -> None:
    await database.computers.insert_many(
        [{"_id": 1, "serial": "A", "person": 70}, {"_id": 2, "serial": "B"}]
    )
    await api.computer("C", await api.person())
    owner = {"name": "owner", "op": "has", "val": {"and": []}}
    for condition, ids in ((owner, ["3"]), ({"not": owner}, ["1", "2"])):
        response = await api.get(f"/computers?filter={quote(json.dumps([condition]))}")
        assert response.ids == ids
    assert (await api.get("/computers?filter[owner]=70")).ids == ["1"]
    assert (await api.get("/computers?filter[owner.id]=70")).ids == []
    assert (await api.get("/computers?filter[owner.email]=null")).ids == ["3"]


async def test_computed_attributes_that_external_writers_left_out_are_compared(
    api: Api, database: Database
) -> None:
    await database.persons.insert_one({"_id": 1, "first_name": "Ada", "last_name": "Byron"})
    await api.computer(owner="1")
    assert (await api.get("/computers?filter[owner.full_name]=Ada Byron")).ids == ["1"]


@pytest.mark.usefixtures("number_of_related")
@pytest.mark.parametrize("page", ["", "&page[size]=2", "&page[number]=1&page[size]=2"])
async def test_related_attributes_are_those_at_the_time_of_the_document(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    for first in ("Ada", "Alan", "Grace"):
        await api.computer(first, await api.person(first, "Liskov"))
    run, is_first = ReadCommands.run, True

    async def run_then_write(*arguments: Any) -> ReadResult:
        nonlocal is_first
        found = await run(*arguments)
        if is_first:
            is_first = False
            await database.persons.update_many({}, {"$set": {"last_name": "Hopper"}})
            await database.computers.update_many({}, {"$set": {"person": None}})
        return found

    monkeypatch.setattr(ReadCommands, "run", run_then_write)
    response = await api.get(f"/computers?filter[owner.last_name]=Liskov&include=owner{page}")
    assert response.ids == (["1", "2"] if page else ["1", "2", "3"])
    names = {one["attributes"]["last_name"] for one in response.document["included"]}
    assert names == {"Liskov"}
    assert (await api.get("/computers?filter[owner.last_name]=Liskov")).ids == []


async def test_a_request_target_over_its_limit_is_rejected(api: Api) -> None:
    response = await api.get(f"/persons?filter={'x' * LIMITS.target_bytes}")
    assert (response.status, response.document["errors"][0]["code"]) == (400, "malformed_request")


@pytest.fixture
async def impatient_api(serve: Serve, settings: Settings, database: Database) -> Api:
    """The service with a query time limit of 1 ms, and enough persons to exceed it."""
    api = await serve(settings=replace(settings, query_seconds=0.001))
    await database.persons.insert_many(
        {
            "_id": number,
            "first_name": f"{number * 7919 % 20_000}",
            "last_name": "Hopper",
            "full_name": "",
            "email": None,
        }
        for number in range(1, 20_001)
    )
    await database.computers.insert_many(
        {"_id": number, "serial": f"{number}", "person": number} for number in range(1, 20_001)
    )
    return api


async def test_a_query_that_exceeds_its_time_limit_is_stopped_and_reported(
    impatient_api: Api,
) -> None:
    for url in (
        "/persons?filter[last_name][contains]=z",
        "/persons?filter[last_name][contains]=z&page[size]=10",
        "/persons?filter[last_name][contains]=z&page[number]=1",
        "/persons?filter[last_name][contains]=z&page[number]=1&page[total]=false",
        "/persons?filter[last_name][contains]=z&sort=first_name&page[size]=10",
        "/persons?filter[last_name][contains]=z&include=computers",
        "/persons?sort=last_name,first_name&page[size]=10",
        "/persons?sort=email&page[number]=1000&page[size]=10",
        "/computers?sort=owner.last_name,serial",
        "/computers?sort=owner.last_name,serial&page[size]=10",
        "/computers?sort=owner.last_name,serial&page[number]=2&page[total]=false",
    ):
        response = await impatient_api.get(url)
        assert (response.status, response.headers["Retry-After"]) == (503, "5"), url
        (error,) = response.document["errors"]
        assert error["code"] == "query_timeout"
        assert "0.001 s" in error["detail"]
    assert len((await impatient_api.get("/persons")).data) == 20_000
    for query, count in (
        ("filter[id]=7,8", 2),
        ("filter[first_name]=7,8", 2),
        ("filter[first_name][prefix]=1999", 10),
    ):  # an index serves them
        for _ in range(20):  # a busy machine may exceed 1 ms now and then
            response = await impatient_api.get(f"/persons?{query}&page[size]=10")
            if response.status == 200:
                break
        assert len(response.data) == count


async def test_ids_are_compared_with_any_integer(api: Api) -> None:
    for _ in range(2):
        await api.person()
    await api.computer(owner="2")
    await api.computer()
    huge = ("9" * 19, "1" + "0" * 30, str(2**63))
    expected = {"gt": False, "ge": False, "lt": True, "le": True, "eq": False, "ne": True}
    for number, is_greater in [
        *((text, True) for text in huge),
        *((f"-{text}", False) for text in ("1", str(2**63), *huge)),
        ("0", False),
    ]:
        for name, matches in expected.items():
            every = matches if is_greater or name in {"eq", "ne"} else not matches
            await _check_ids(api, "persons", "id", name, number, ["1", "2"] * every)
            # Null is not equal to any integer, and neither less nor greater.
            owned = ["1", "2"] if name == "ne" else ["1"]
            await _check_ids(api, "computers", "owner", name, number, owned * every)


async def _check_ids(
    api: Api, collection: str, field: str, name: str, number: str, ids: list[str]
) -> None:
    """Compare in both notations."""
    in_json = f'[{{"name":"{field}","op":"{name}","val":{number}}}]'
    for query in (f"filter[{field}][{name}]={number}", f"filter={quote(in_json)}"):
        response = await api.get(f"/{collection}?{query}")
        assert (response.status, response.ids) == (200, ids), query
