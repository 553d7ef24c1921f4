"""`sort`: each order held against the same one in Python, as a whole and page by page."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import pytest

from registry.jsonapi.sorting import sort_names
from registry.model.graph import Graph
from registry.resources import RESOURCES
from tests.support import MEDIA_TYPE, Api, Database

GRAPH = Graph(RESOURCES)
NAMES = {resource.collection: sort_names(resource, GRAPH) for resource in GRAPH.values()}

# Spaces, prefixes, NUL, cases, and characters whose order by UTF-16 is another than by code point.
WORDS = ["Ann", "Ann Marie", "Anna", "ann", "Marie", "Änn", "An", "Ann\0", "\uffff", "😀", "", " "]
EMAILS = [None, "a@example.com", "ab@example.com", "B@example.com"]

People = dict[int, dict[str, Any]]
Resources = list[dict[str, Any]]


@pytest.fixture
async def people(database: Database) -> People:
    """Persons that agree in many fields, as other tools may have stored them too."""
    chance = random.Random(1)  # noqa: S311 - the same persons at each run
    stored: Resources = [
        {
            "_id": number,
            "first_name": chance.choice(WORDS),
            "last_name": chance.choice(WORDS),
            **({} if chance.random() < 0.2 else {"email": chance.choice(EMAILS)}),
        }
        for number in chance.sample(range(1, 10**6), 30)
    ]
    await database.persons.insert_many(stored)
    return {
        one["_id"]: {
            **one,
            "id": one["_id"],
            "full_name": f"{one['first_name']} {one['last_name']}",
            "email": one.get("email"),
        }
        for one in stored
    }


@pytest.fixture
async def resources(database: Database, people: People) -> dict[str, Resources]:
    """All resources of each collection, with what they can be sorted by.

    Some computers are owned, some are not, and the owners of some are gone.
    """
    chance = random.Random(2)  # noqa: S311 - the same computers at each run
    owners = [*chance.sample(sorted(people), 6), 1, 10**6, None]
    stored: Resources = [
        {
            "_id": number,
            "serial": chance.choice(WORDS),
            **({} if chance.random() < 0.1 else {"person": chance.choice(owners)}),
        }
        for number in chance.sample(range(1, 10**6), 30)
    ]
    await database.computers.insert_many(stored)
    computers = [
        {
            "id": one["_id"],
            "serial": one["serial"],
            "owner": one.get("person"),
            **{
                f"owner.{name}": people.get(one.get("person", 0), {}).get(name)
                for name in NAMES["persons"]
            },
        }
        for one in stored
    ]
    return {"persons": list(people.values()), "computers": computers}


def ordered(resources: Resources, sort: str) -> list[str]:
    """Return the ids in the order that `sort` asks for, as Python knows it."""
    keys = sort.split(",")
    found = list(resources)
    for key in reversed([*keys, "-id" if keys[-1].startswith("-") else "id"]):
        name = key.removeprefix("-")
        found.sort(
            key=lambda one: (0,) if one[name] is None else (1, one[name]),
            reverse=key.startswith("-"),
        )
    return [str(one["id"]) for one in found]


async def walk(api: Api, path: str, step: str, size: int) -> list[list[str]]:
    """Return the ids on each page, from this one on by the links of this name."""
    pages: list[list[str]] = []
    link: str | None = path
    while link is not None:
        answer = await api.get(link.removeprefix(str(api.client.make_url("/")).rstrip("/")))
        assert answer.status == 200, answer.document
        pages.append([one["id"] for one in answer.data])
        assert answer.document["meta"] == {"count": len(pages[-1])}
        assert len(pages) < 100, "the links lead round in circles"
        link = answer.document["links"][step]
    assert all(len(page) == size for page in pages[:-1])
    return pages


async def check(api: Api, collection: str, sort: str, expected: list[str], size: int) -> None:
    """Hold the whole collection, and all walks through its pages, against the ids."""
    path = f"/{collection}?sort={sort}"
    assert [one["id"] for one in (await api.get(path)).data] == expected, sort
    forwards = await walk(api, f"{path}&page[size]={size}", "next", size)
    assert [one for page in forwards for one in page] == expected, sort
    last = (await api.get(f"{path}&page[size]={size}")).document["links"]["last"]
    backwards = await walk(api, last, "prev", size)
    assert [one for page in reversed(backwards) for one in page] == expected, sort


FIELDS = [(collection, name) for collection, names in NAMES.items() for name in names]

PAIRS = [("last_name", "first_name"), ("email", "last_name"), ("last_name", "id")]


def several(collection: str) -> Iterator[str]:
    """Yield orders by more than one field."""
    chance = random.Random(3)  # noqa: S311 - the same orders at each run
    names = NAMES[collection]
    for _ in range(12):
        keys = chance.sample(names, chance.randint(2, 4))
        yield ",".join(chance.choice(["", "-"]) + key for key in keys)
    for first, second in PAIRS if collection == "persons" else ():
        for signs in product(["", "-"], repeat=2):
            yield f"{signs[0]}{first},{signs[1]}{second}"


@pytest.mark.covers("i.sorting", "i.paging")
@pytest.mark.parametrize(("collection", "name"), FIELDS)
async def test_sorting_by_a_field_uses_code_point_order_with_nulls_first(
    api: Api, resources: dict[str, Resources], collection: str, name: str
) -> None:
    for sort in (name, f"-{name}"):
        await check(api, collection, sort, ordered(resources[collection], sort), size=4)


@pytest.mark.covers("i.sorting", "i.paging")
@pytest.mark.parametrize("collection", list(NAMES))
async def test_sorting_by_several_fields_breaks_ties_by_id(
    api: Api, resources: dict[str, Resources], collection: str
) -> None:
    for sort in several(collection):
        await check(api, collection, sort, ordered(resources[collection], sort), size=7)


@pytest.mark.covers("i.sorting")
@pytest.mark.parametrize("name", ["last_name", "email", "id"])
async def test_descending_order_is_the_reverse_of_ascending_order(
    api: Api, resources: dict[str, Resources], name: str
) -> None:
    upwards = [one["id"] for one in (await api.get(f"/persons?sort={name}")).data]
    downwards = [one["id"] for one in (await api.get(f"/persons?sort=-{name}")).data]
    assert upwards == downwards[::-1]
    assert len(upwards) == len(resources["persons"])


@pytest.mark.covers("i.sorting")
@pytest.mark.parametrize("sort", ["serial", "-owner.last_name,serial", "id", "-owner"])
async def test_numbered_pages_follow_the_sort_order(
    api: Api, resources: dict[str, Resources], sort: str
) -> None:
    expected = ordered(resources["computers"], sort)
    found: list[str] = []
    for number in range(1, 6):
        answer = await api.get(f"/computers?sort={sort}&page[number]={number}&page[size]=7")
        found += [one["id"] for one in answer.data]
        assert answer.document["meta"]["total"] == len(expected)
    assert found == expected


@pytest.mark.covers("i.sorting", "i.related_routes")
@pytest.mark.parametrize("sort", ["", "-id", "serial", "-serial,id", "-owner.last_name"])
async def test_the_computers_of_a_person_can_be_sorted_and_paged(
    api: Api, database: Database, resources: dict[str, Resources], sort: str
) -> None:
    owner = next(one["owner"] for one in resources["computers"] if one["owner.id"] is not None)
    await database.computers.update_many({"_id": {"$mod": [2, 0]}}, {"$set": {"person": owner}})
    owned = [one for one in resources["computers"] if one["owner"] == owner or not one["id"] % 2]
    order = "id" if sort == "-owner.last_name" else sort or "id"
    expected = ordered(owned, order)
    if sort == "-owner.last_name":
        expected.reverse()  # all are equal but for their ids
    path = f"/persons/{owner}/computers?sort={sort}"
    assert [one["id"] for one in (await api.get(path)).data] == expected
    pages = await walk(api, f"{path}&page[size]=4", "next", 4)
    assert [one for page in pages for one in page] == expected
    linkage = f"/persons/{owner}/relationships/computers?sort={sort}&page[size]=1000"
    async with api.client.get(linkage) as response:
        found = await response.json(content_type=MEDIA_TYPE)
    assert found["data"] == [{"type": "computer", "id": one} for one in expected]


@pytest.mark.covers("i.sorting")
async def test_sort_fields_are_not_added_to_the_response(
    api: Api, resources: dict[str, Resources]
) -> None:
    assert resources
    answer = await api.get("/computers?sort=owner.last_name,serial&fields[computer]=&page[size]=5")
    assert all(one.keys() == {"type", "id", "attributes", "links"} for one in answer.data)
    assert all(one["attributes"] == {} for one in answer.data)


@pytest.mark.covers("i.sorting")
async def test_sort_and_include_can_be_combined(api: Api, resources: dict[str, Resources]) -> None:
    answer = await api.get("/computers?sort=-owner.email,-serial&include=owner")
    expected = ordered(resources["computers"], "-owner.email,-serial")
    assert [one["id"] for one in answer.data] == expected
    emails = {
        one["id"]: one["attributes"]["email"] or ""
        for one in answer.document["included"]
        if one["type"] == "person"
    }
    owners = [one["relationships"]["owner"]["data"] for one in answer.data]
    shown = [emails[owner["id"]] if owner else "" for owner in owners]
    assert all(first >= second for first, second in pairwise(shown))


@pytest.mark.covers("i.sorting")
@pytest.mark.parametrize(
    "path",
    [
        *["/persons?sort=password", "/computers?sort=owner.password", "/persons?sort=$natural"],
        *["/persons?sort=computers", "/persons?sort=last_name,,id", "/persons?sort=%00"],
        *["/persons?sort=last_name,-last_name", "/persons?sort=%ff", "/computers?sort=owner."],
        *["/persons/1?sort=id", "/computers/1/owner?sort=id"],
    ],
)
async def test_an_invalid_sort_is_refused(api: Api, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status, answer.errors) == (400, [(400, "sort")])
