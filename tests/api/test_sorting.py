"""`sort`: compared with sorting in Python, for unpaged collections and page by page."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import pytest

from registry.jsonapi.sorting import sort_names
from registry.model.authorship import AUTHORSHIP
from registry.model.graph import Graph
from registry.resources import RESOURCES
from tests.support import Api, Database

GRAPH = Graph(RESOURCES)
NAMES = {
    resource.collection: [name for name in sort_names(resource, GRAPH) if name not in AUTHORSHIP]
    for resource in GRAPH.values()
}
"""Sort fields, except the authorship, which tests/api/test_authorship.py tests."""

# Spaces, prefixes, NUL, mixed case, and characters that sort differently in UTF-16 order.
WORDS = ["Ann", "Ann Marie", "Anna", "ann", "Marie", "Änn", "An", "Ann\0", "\uffff", "😀", "", " "]
EMAILS = [None, "a@example.com", "ab@example.com", "B@example.com"]

People = dict[int, dict[str, Any]]
Resources = list[dict[str, Any]]


@pytest.fixture
async def people(database: Database) -> People:
    """Persons by id, with many equal values; some lack an e-mail, as after external writes."""
    rng = random.Random(1)  # noqa: S311 - the same persons in each run
    stored: Resources = [
        {
            "_id": number,
            "first_name": rng.choice(WORDS),
            "last_name": rng.choice(WORDS),
            **({} if rng.random() < 0.2 else {"email": rng.choice(EMAILS)}),
        }
        for number in rng.sample(range(1, 10**6), 30)
    ]
    await database.persons.insert_many(stored)
    return {
        record["_id"]: {
            **record,
            "id": record["_id"],
            "full_name": f"{record['first_name']} {record['last_name']}",
            "email": record.get("email"),
        }
        for record in stored
    }


@pytest.fixture
async def resources(database: Database, people: People) -> dict[str, Resources]:
    """The resources of each collection with all sort fields.

    Some computers are owned, some unowned, and the owners of some do not exist.
    """
    rng = random.Random(2)  # noqa: S311 - the same computers in each run
    owners = [*rng.sample(sorted(people), 6), 1, 10**6, None]
    stored: Resources = [
        {
            "_id": number,
            "serial": rng.choice(WORDS),
            **({} if rng.random() < 0.1 else {"person": rng.choice(owners)}),
        }
        for number in rng.sample(range(1, 10**6), 30)
    ]
    await database.computers.insert_many(stored)
    computers = [
        {
            "id": record["_id"],
            "serial": record["serial"],
            "owner": record.get("person"),
            **{
                f"owner.{name}": people.get(record.get("person", 0), {}).get(name)
                for name in NAMES["persons"]
            },
        }
        for record in stored
    ]
    return {"persons": list(people.values()), "computers": computers}


def ordered(resources: Resources, sort: str) -> list[str]:
    """Return the ids in the order of `sort`, computed in Python."""
    keys, sign = sort.split(","), "-" if sort.rpartition(",")[2].startswith("-") else ""
    if keys[-1].removeprefix("-").startswith("owner."):
        keys.append(f"{sign}owner.id")
    result = list(resources)
    for key in reversed([*keys, f"{sign}id"]):
        name = key.removeprefix("-")
        result.sort(
            key=lambda resource: (0,) if resource[name] is None else (1, resource[name]),
            reverse=key.startswith("-"),
        )
    return [str(resource["id"]) for resource in result]


async def page_ids(api: Api, path: str, link: str, size: int) -> list[list[str]]:
    """Return the ids on each page, starting at a path and following the links of this name."""
    pages = await api.pages(path, link)
    for page in pages:
        assert page.document["meta"] == {"count": len(page.ids)}
    assert all(len(page.ids) == size for page in pages[:-1])
    return [page.ids for page in pages]


async def check(api: Api, collection: str, sort: str, expected: list[str], size: int) -> None:
    """Check the ids of the whole collection, and of its pages in both directions."""
    path = f"/{collection}?sort={sort}"
    assert (await api.get(path)).ids == expected, sort
    forwards = await page_ids(api, f"{path}&page[size]={size}", "next", size)
    assert [number for page in forwards for number in page] == expected, sort
    last = (await api.get(f"{path}&page[size]={size}")).document["links"]["last"]
    backwards = await page_ids(api, last, "prev", size)
    assert [number for page in reversed(backwards) for number in page] == expected, sort


FIELDS = [(collection, name) for collection, names in NAMES.items() for name in names]

PAIRS = [("last_name", "first_name"), ("email", "last_name"), ("last_name", "id")]


def multi_key_sorts(collection: str) -> Iterator[str]:
    """Yield sorts by more than one field."""
    rng = random.Random(3)  # noqa: S311 - the same orders in each run
    names = NAMES[collection]
    for _ in range(12):
        keys = rng.sample(names, rng.randint(2, 4))
        yield ",".join(rng.choice(["", "-"]) + key for key in keys)
    for first, second in PAIRS if collection == "persons" else ():
        for signs in product(["", "-"], repeat=2):
            yield f"{signs[0]}{first},{signs[1]}{second}"


@pytest.mark.parametrize(("collection", "name"), FIELDS)
async def test_sorting_by_a_field_uses_code_point_order_with_nulls_first(
    api: Api, resources: dict[str, Resources], collection: str, name: str
) -> None:
    for sort in (name, f"-{name}"):
        await check(api, collection, sort, ordered(resources[collection], sort), size=4)


@pytest.mark.parametrize("collection", list(NAMES))
async def test_sorting_by_several_fields_breaks_ties_by_id(
    api: Api, resources: dict[str, Resources], collection: str
) -> None:
    for sort in multi_key_sorts(collection):
        await check(api, collection, sort, ordered(resources[collection], sort), size=7)


@pytest.mark.parametrize("name", ["last_name", "email", "id"])
async def test_descending_order_is_the_reverse_of_ascending_order(
    api: Api, resources: dict[str, Resources], name: str
) -> None:
    ascending = (await api.get(f"/persons?sort={name}")).ids
    descending = (await api.get(f"/persons?sort=-{name}")).ids
    assert ascending == descending[::-1]
    assert len(ascending) == len(resources["persons"])


@pytest.mark.parametrize("sort", ["serial", "-owner.last_name,serial", "id", "-owner"])
async def test_numbered_pages_follow_the_sort_order(
    api: Api, resources: dict[str, Resources], sort: str
) -> None:
    expected = ordered(resources["computers"], sort)
    ids: list[str] = []
    for number in range(1, 6):
        response = await api.get(f"/computers?sort={sort}&page[number]={number}&page[size]=7")
        ids += response.ids
        assert response.document["meta"]["total"] == len(expected)
    assert ids == expected


@pytest.mark.parametrize("sort", ["", "-id", "serial", "-serial,id", "-owner.last_name"])
async def test_the_computers_of_a_person_can_be_sorted_and_paged(
    api: Api, database: Database, resources: dict[str, Resources], sort: str
) -> None:
    owner = next(
        resource["owner"] for resource in resources["computers"] if resource["owner.id"] is not None
    )
    await database.computers.update_many({"_id": {"$mod": [2, 0]}}, {"$set": {"person": owner}})
    owned = [
        resource
        for resource in resources["computers"]
        if resource["owner"] == owner or not resource["id"] % 2
    ]
    order = "id" if sort == "-owner.last_name" else sort or "id"
    expected = ordered(owned, order)
    if sort == "-owner.last_name":
        expected.reverse()  # all have the same owner, so only the ids differ
    path = f"/persons/{owner}/computers?sort={sort}"
    assert (await api.get(path)).ids == expected
    pages = await page_ids(api, f"{path}&page[size]=4", "next", 4)
    assert [number for page in pages for number in page] == expected
    linkage = f"/persons/{owner}/relationships/computers?sort={sort}&page[size]=1000"
    assert (await api.get(linkage)).data == [
        {"type": "computer", "id": number} for number in expected
    ]


@pytest.mark.usefixtures("resources")
async def test_sort_fields_are_not_added_to_the_response(api: Api) -> None:
    response = await api.get(
        "/computers?sort=owner.last_name,serial&fields[computer]=&page[size]=5"
    )
    assert len(response.data) == 5
    for resource in response.data:
        assert resource.keys() == {"type", "id", "attributes", "links"}
        assert resource["attributes"] == {}


async def test_sort_and_include_can_be_combined(api: Api, resources: dict[str, Resources]) -> None:
    response = await api.get("/computers?sort=-owner.email,-serial&include=owner")
    expected = ordered(resources["computers"], "-owner.email,-serial")
    assert response.ids == expected
    emails = {
        resource["id"]: resource["attributes"]["email"] or ""
        for resource in response.document["included"]
        if resource["type"] == "person"
    }
    owners = [resource["relationships"]["owner"]["data"] for resource in response.data]
    sorted_emails = [emails[owner["id"]] if owner else "" for owner in owners]
    assert all(first >= second for first, second in pairwise(sorted_emails))


@pytest.mark.parametrize(
    "path",
    [
        *["/persons?sort=password", "/computers?sort=owner.password", "/persons?sort=$natural"],
        *["/persons?sort=computers", "/persons?sort=last_name,,id", "/persons?sort=%00"],
        *["/persons?sort=last_name,-last_name", "/persons?sort=%ff", "/computers?sort=owner."],
        *["/persons/1?sort=id", "/computers/1/owner?sort=id"],
    ],
)
async def test_an_invalid_sort_is_rejected(api: Api, path: str) -> None:
    response = await api.get(path)
    assert (response.status, response.errors) == (400, [(400, "sort")])
