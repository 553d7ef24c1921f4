"""`page`: numbered pages, cursor pages, page links, and paged includes."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from registry.jsonapi.cursors import END, Cursors
from registry.jsonapi.sorting import BY_ID, parse_sort
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import Api, Database, Response

GRAPH = Graph(RESOURCES)
END_OF_PERSONS = Cursors("person", BY_ID).encode(END)


@pytest.fixture
async def fleet(api: Api, database: Database) -> Api:
    """Persons 1 to 7; computers 1 to 5 belong to person 1, 6 and 7 to person 2, 8 to nobody."""
    await database.persons.insert_many(
        {"_id": number, "first_name": "Ann", "last_name": f"L{number}", "email": None}
        for number in range(1, 8)
    )
    await database.computers.insert_many(
        {"_id": number, "serial": f"SN-{number}", "person": owner}
        for number, owner in enumerate([1, 1, 1, 1, 1, 2, 2, None], 1)
    )
    return api


async def follow(api: Api, response: Response, name: str) -> Response:
    """Get the page that a link leads to; the link must be absolute and percent-encoded."""
    link = response.document["links"][name]
    assert link.startswith(f"{api.origin}/")
    assert "[" not in link
    page = await api.get(link.removeprefix(api.origin))
    assert page.status == 200, page.document
    assert page.document["links"]["self"] == link
    return page


def ids(response: Response) -> str:
    return " ".join(response.ids)


def page_links(response: Response) -> set[str]:
    """Return the names of the page links that are not null."""
    links = response.document["links"]
    return {name for name in ("first", "last", "prev", "next") if links.get(name) is not None}


async def test_numbered_pages_have_a_total_and_links(fleet: Api) -> None:
    first = await fleet.get("/persons?page[number]=1&page[size]=3")
    assert (ids(first), first.document["meta"]) == ("1 2 3", {"count": 3, "total": 7})
    assert page_links(first) == {"first", "last", "next"}
    assert first.document["links"]["prev"] is None
    second = await follow(fleet, first, "next")
    assert (ids(second), page_links(second)) == ("4 5 6", {"first", "last", "prev", "next"})
    third = await follow(fleet, second, "next")
    assert (ids(third), page_links(third)) == ("7", {"first", "last", "prev"})
    assert third.document["meta"] == {"count": 1, "total": 7}
    assert third.document["links"]["next"] is None
    assert ids(await follow(fleet, second, "prev")) == "1 2 3"
    assert ids(await follow(fleet, first, "last")) == "7"
    assert ids(await follow(fleet, third, "first")) == "1 2 3"


async def test_a_page_that_exactly_fits_the_remaining_resources_is_the_last(fleet: Api) -> None:
    for path in ("/persons?page[size]=7", "/persons?page[size]=7&page[number]=1"):
        response = await fleet.get(path)
        assert (ids(response), response.document["links"]["next"]) == ("1 2 3 4 5 6 7", None)


async def test_the_total_can_be_omitted(fleet: Api) -> None:
    response = await fleet.get("/persons?page[number]=2&page[size]=3&page[total]=false")
    assert (ids(response), response.document["meta"]) == ("4 5 6", {"count": 3})
    assert "last" not in response.document["links"]
    last = await follow(fleet, response, "next")
    assert (ids(last), last.document["meta"]) == ("7", {"count": 1})
    assert last.document["links"]["next"] is None


async def test_the_total_counts_only_filtered_resources(fleet: Api) -> None:
    response = await fleet.get("/persons?filter[id][gt]=2&page[number]=2&page[size]=2")
    assert (ids(response), response.document["meta"]) == ("5 6", {"count": 2, "total": 5})
    assert ids(await follow(fleet, response, "last")) == "7"
    related = await fleet.get("/persons/1/computers?filter[serial][ge]=SN-3&page[number]=1")
    assert (ids(related), related.document["meta"]) == ("3 4 5", {"count": 3, "total": 3})


async def test_a_page_number_beyond_the_end_is_empty_and_links_to_the_last_page(fleet: Api) -> None:
    response = await fleet.get("/persons?page[number]=9&page[size]=3")
    assert (response.data, response.document["meta"]) == ([], {"count": 0, "total": 7})
    assert page_links(response) == {"first", "last", "prev"}
    assert ids(await follow(fleet, response, "prev")) == "7"


@pytest.mark.parametrize("query", ["sort=id", "sort=-email", "sort=last_name,-email"])
async def test_the_largest_page_number_is_an_empty_page(fleet: Api, query: str) -> None:
    for size, number in ((1, 2**63 - 1), (1000, (2**63 - 1) // 1000 + 1)):  # skips just under 2**63
        response = await fleet.get(f"/persons?{query}&page[number]={number}&page[size]={size}")
        assert (response.status, response.data) == (200, [])
        owners = "/computers?sort=owner.email"
        response = await fleet.get(f"{owners}&page[number]={number}&page[size]={size}")
        assert (response.status, response.data) == (200, [])


@pytest.mark.parametrize("path", ["/persons?sort=-id", "/persons/1/relationships/computers?"])
async def test_meta_has_the_cursors_of_the_pages_before_and_after(fleet: Api, path: str) -> None:
    pages = [await fleet.get(f"{path}&page[size]=3")]
    while cursor := pages[-1].document["meta"]["page"]["after"]:
        pages.append(await fleet.get(f"{path}&page[size]=3&page[after]={cursor}"))
    back = [pages[-1]]
    while cursor := back[-1].document["meta"]["page"]["before"]:
        back.append(await fleet.get(f"{path}&page[size]=3&page[before]={cursor}"))
    assert len(pages) > 1
    assert [page.ids for page in pages] == [page.ids for page in reversed(back)]
    assert "page" not in (await fleet.get(f"{path}&page[number]=1")).document["meta"]


async def test_cursor_pages_have_links_and_no_total(fleet: Api) -> None:
    first = await fleet.get("/persons?page[size]=3")
    assert (ids(first), first.document["meta"]["count"]) == ("1 2 3", 3)
    assert page_links(first) == {"first", "last", "next"}
    assert first.document["links"].keys() == {"self", "first", "last", "prev", "next"}
    second = await follow(fleet, first, "next")
    assert (ids(second), page_links(second)) == ("4 5 6", {"first", "last", "prev", "next"})
    third = await follow(fleet, second, "next")
    assert (ids(third), third.document["links"]["next"]) == ("7", None)
    assert ids(await follow(fleet, third, "prev")) == "4 5 6"
    assert ids(await follow(fleet, third, "first")) == "1 2 3"
    last = await follow(fleet, first, "last")
    assert (ids(last), last.document["links"]["next"]) == ("5 6 7", None)
    before = await follow(fleet, last, "prev")
    assert ids(before) == "2 3 4"
    assert ids(await follow(fleet, before, "next")) == "5 6 7"
    top = await follow(fleet, before, "prev")
    assert (ids(top), top.document["links"]["prev"]) == ("1", None)


async def test_cursors_at_either_end_return_empty_pages_with_a_link_back(fleet: Api) -> None:
    response = await fleet.get(f"/persons?page[size]=3&page[after]={END_OF_PERSONS}")
    assert (response.data, response.document["links"]["next"]) == ([], None)
    assert ids(await follow(fleet, response, "prev")) == "5 6 7"
    cursor = Cursors("person", BY_ID).encode((7,))
    response = await fleet.get(f"/persons?page[size]=3&page[after]={cursor}")
    assert (response.data, response.document["links"]["next"]) == ([], None)
    assert ids(await follow(fleet, response, "prev")) == "5 6 7"
    cursor = Cursors("person", BY_ID).encode((1,))
    response = await fleet.get(f"/persons?page[size]=3&page[before]={cursor}")
    assert (response.data, response.document["links"]["prev"]) == ([], None)
    assert ids(await follow(fleet, response, "next")) == "1 2 3"


@pytest.mark.parametrize(
    ("path", "totals"),
    [
        ("/persons?page[size]=3", {}),
        (f"/persons?page[before]={END_OF_PERSONS}", {}),
        (f"/persons?page[after]={END_OF_PERSONS}", {}),
        ("/persons?page[number]=1", {"total": 0}),
        ("/persons?page[number]=1&page[total]=false", {}),
        ("/computers?sort=owner.last_name&page[size]=1", {}),
        ("/computers?sort=owner.last_name&page[number]=4", {"total": 0}),
        ("/persons?include=computers&page[size]=1&page[computers][size]=1", {}),
    ],
)
async def test_an_empty_collection_has_empty_pages(
    api: Api, path: str, totals: dict[str, int]
) -> None:
    response = await api.get(path)
    assert (response.status, response.data) == (200, [])
    response.document["meta"].pop("page", None)
    assert response.document["meta"] == {"count": 0, **totals}
    assert response.document["links"]["next"] is None


async def test_default_and_maximum_page_sizes_are_settings(
    serve: Serve, settings: Settings, database: Database
) -> None:
    api = await serve(settings=replace(settings, page_size=2))
    await database.persons.insert_many(
        {"_id": number, "first_name": "A", "last_name": "B"} for number in range(1, 8)
    )
    assert ids(await api.get("/persons?page[number]=1")) == "1 2"
    assert ids(await api.get(f"/persons?page[before]={END_OF_PERSONS}")) == "6 7"
    assert ids(await api.get("/persons?page[size]=4")) == "1 2 3 4"
    assert len((await api.get("/persons")).data) == 7


@pytest.mark.parametrize("size", ["1001", "1000000000", "9" * 30, "9" * 4400])
@pytest.mark.parametrize("parameter", ["page[size]", "page[computers][size]"])
async def test_a_page_size_above_the_maximum_is_rejected_as_the_cursor_profile_specifies(
    api: Api, parameter: str, size: str
) -> None:
    response = await api.get(f"/persons?include=computers&{parameter}={size}")
    (error,) = response.document["errors"]
    assert (error["status"], error["code"]) == ("400", "page_too_large")
    assert error["source"] == {"parameter": parameter}
    assert error["meta"] == {"page": {"maxSize": 1000}}
    profile = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination"
    assert error["links"] == {"type": f"{profile}/max-size-exceeded"}


async def test_a_range_between_two_cursors_is_rejected_as_the_cursor_profile_specifies(
    api: Api,
) -> None:
    response = await api.get(f"/persons?page[after]={END_OF_PERSONS}&page[before]={END_OF_PERSONS}")
    (error,) = response.document["errors"]
    assert error["status"] == "400"
    profile = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination"
    assert error["links"] == {"type": f"{profile}/range-pagination-not-supported"}


@pytest.mark.parametrize("sort", ["id", "-id", "email", "-email", "last_name,-first_name"])
async def test_a_cursor_need_not_match_a_stored_resource(fleet: Api, sort: str) -> None:
    order = parse_sort(sort, GRAPH["person"], GRAPH)
    is_by_id = order[0].stored_name == "_id"
    for value in (-1, 0, 2**63 - 1, None) if is_by_id else ("Hopper", "", "9", None):
        position = [1 if key.stored_name == "_id" and not is_by_id else value for key in order]
        cursor = Cursors("person", order).encode(tuple(position))
        for member in ("after", "before"):
            response = await fleet.get(f"/persons?sort={sort}&page[{member}]={cursor}")
            assert response.status == 200, value


async def test_page_links_start_with_the_public_url(serve: Serve, settings: Settings) -> None:
    api = await serve(settings=replace(settings, public_url="https://registry.example.com"))
    await api.person()
    await api.person()
    for page in ("page[number]=1&page[size]=1", "page[size]=1"):
        links = (await api.get(f"/persons?{page}")).document["links"]
        assert links.pop("prev") is None
        assert links.keys() == {"self", "first", "last", "next"}
        expected = "https://registry.example.com/persons?"
        assert all(link.startswith(expected) for link in links.values()), links


Write = Callable[[Database, random.Random], Awaitable[object]]


@pytest.mark.parametrize("link", ["next", "prev"])
@pytest.mark.parametrize("sort", ["id", "last_name", "-email", "last_name,-first_name,email"])
async def test_unmodified_resources_appear_exactly_once_during_concurrent_writes(
    api: Api, database: Database, sort: str, link: str
) -> None:
    rng = random.Random(sort + link)  # noqa: S311 - the same writes in each run

    def person(number: int) -> dict[str, Any]:
        names = {name: rng.choice("abc") for name in ("first_name", "last_name")}
        return {
            "_id": number,
            "email": rng.choice([None, "a@b.example"]),
            "full_name": " ".join(names.values()),
            **names,
        }

    await database.persons.insert_many(person(number) for number in range(100, 180))
    mutable = set(rng.sample(range(100, 180), 40))
    visited: list[int] = []
    response = await api.get(f"/persons?sort={sort}&page[size]=3")
    response = response if link == "next" else await follow(api, response, "last")
    for number in rng.sample(range(1, 1000), 900):
        visited += [int(id_) for id_ in response.ids]
        modified = {"_id": {"$in": rng.sample(sorted(mutable), 3)}}
        await database.persons.update_many(
            modified, {"$set": {"last_name": rng.choice("abcd"), "email": None}}
        )
        # The last resource visited is the position of the cursor.
        await database.persons.delete_one({"_id": {"$in": [*mutable & set(visited[-3:])]}})
        if not await database.persons.find_one({"_id": number}):
            await database.persons.insert_one(person(number))
        if response.document["links"][link] is None:
            break
        response = await follow(api, response, link)
    else:
        pytest.fail("the links form a cycle")
    unmodified = set(range(100, 180)) - mutable
    assert sorted(number for number in visited if number in unmodified) == sorted(unmodified)


async def test_an_included_relationship_can_be_paged(fleet: Api) -> None:
    response = await fleet.get("/persons?page[size]=3&include=computers&page[computers][size]=2")
    computers = {
        resource["id"]: resource["relationships"]["computers"] for resource in response.data
    }
    linkage = {
        id_: [identifier["id"] for identifier in relationship["data"]]
        for id_, relationship in computers.items()
    }
    assert linkage == {"1": ["1", "2"], "2": ["6", "7"], "3": []}
    assert response.included == [("computer", number) for number in ("1", "2", "6", "7")]
    links = {id_: relationship["links"] for id_, relationship in computers.items()}
    path = "/persons/1/relationships/computers?page%5Bsize%5D=2"
    assert links["1"]["first"] == path
    assert links["1"]["next"].startswith(f"{path}&page%5Bafter%5D=")
    assert links["1"]["last"].startswith(f"{path}&page%5Bbefore%5D=")
    assert links["1"]["prev"] is None
    assert (links["2"]["prev"], links["2"]["next"]) == (None, None)
    assert (links["3"]["prev"], links["3"]["next"]) == (None, None)


async def test_the_next_links_of_an_included_page_visit_the_whole_relationship(
    fleet: Api,
) -> None:
    response = await fleet.get("/persons/1?include=computers&page[computers][size]=2")
    relationship = response.data["relationships"]["computers"]
    assert [identifier["id"] for identifier in relationship["data"]] == ["1", "2"]
    pages = await fleet.pages(relationship["links"]["next"])
    assert [page.ids for page in pages] == [["3", "4"], ["5"]]


async def test_the_page_size_of_an_include_path_applies_to_that_path_only(fleet: Api) -> None:
    page = "page[owner.computers][size]=3"
    response = await fleet.get(f"/computers/1?include=owner.computers.owner&{page}")
    assert response.included == [("person", "1"), ("computer", "2"), ("computer", "3")]
    owner = response.document["included"][0]
    assert len(owner["relationships"]["computers"]["data"]) == 3
    unpaged = await fleet.get("/persons/1?include=computers.owner")
    assert len(unpaged.data["relationships"]["computers"]["data"]) == 5
    assert "next" not in unpaged.data["relationships"]["computers"]["links"]


async def test_includes_of_unpaged_collections_and_of_updates_can_be_paged(fleet: Api) -> None:
    query = "include=computers&page[computers][size]=1"
    response = await fleet.get(f"/persons?{query}")
    assert response.included == [("computer", "1"), ("computer", "6")]
    assert len(response.data) == 7
    updated = await fleet.request(
        "PATCH", f"/persons/1?{query}", {"data": {"type": "person", "id": "1"}}
    )
    assert (updated.status, updated.included) == (200, [("computer", "1")])


@pytest.mark.parametrize("query", ["page[total]=true", "page[size]=1&page[total]=false"])
async def test_a_total_without_a_page_number_is_rejected_with_the_parameter_to_send(
    api: Api, query: str
) -> None:
    response = await api.get(f"/persons?{query}")
    assert "Send `page[number]=1` for the total" in response.document["errors"][0]["detail"]
