"""`page`: numbered pages, pages by cursor, the links between them, and included pages."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from registry.jsonapi.pagination import END, Cursors
from registry.jsonapi.sorting import BY_ID, parse_sort
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import MEDIA_TYPE, Answer, Api, Database, says

GRAPH = Graph(RESOURCES)
END_OF_PERSONS = Cursors("person", BY_ID).make(END)


@pytest.fixture
async def seven(api: Api, database: Database) -> Api:
    """Persons 1 to 7, of whom 1 has computers 1 to 5, 2 has 6 and 7, and nobody has 8."""
    await database.persons.insert_many(
        {"_id": number, "first_name": "Ann", "last_name": f"L{number}", "email": None}
        for number in range(1, 8)
    )
    await database.computers.insert_many(
        {"_id": number, "serial": f"SN-{number}", "person": owner}
        for number, owner in enumerate([1, 1, 1, 1, 1, 2, 2, None], 1)
    )
    return api


def origin(api: Api) -> str:
    return str(api.client.make_url("/")).rstrip("/")


async def follow(api: Api, answer: Answer, name: str) -> Answer:
    """Get the page that a link leads to; the link has to be absolute, with nothing to encode."""
    link = answer.document["links"][name]
    assert link.startswith(f"{origin(api)}/")
    assert "[" not in link
    found = await api.get(link.removeprefix(origin(api)))
    assert found.status == 200, found.document
    assert found.document["links"]["self"] == link
    return found


def ids(answer: Answer) -> str:
    return " ".join(one["id"] for one in answer.data)


def present(answer: Answer) -> set[str]:
    """The links that lead to other pages."""
    links = answer.document["links"]
    return {name for name in ("first", "last", "prev", "next") if links.get(name) is not None}


@says("i.paging", "4.7.members")
async def test_numbered_pages_are_counted_and_linked(seven: Api) -> None:
    first = await seven.get("/persons?page[number]=1&page[size]=3")
    assert (ids(first), first.document["meta"]) == ("1 2 3", {"count": 3, "total": 7})
    assert present(first) == {"first", "last", "next"}
    assert first.document["links"]["prev"] is None
    second = await follow(seven, first, "next")
    assert (ids(second), present(second)) == ("4 5 6", {"first", "last", "prev", "next"})
    third = await follow(seven, second, "next")
    assert (ids(third), present(third)) == ("7", {"first", "last", "prev"})
    assert third.document["meta"] == {"count": 1, "total": 7}
    assert third.document["links"]["next"] is None
    assert ids(await follow(seven, second, "prev")) == "1 2 3"
    assert ids(await follow(seven, first, "last")) == "7"
    assert ids(await follow(seven, third, "first")) == "1 2 3"


@says("i.paging")
async def test_a_page_that_just_holds_the_rest_is_the_last(seven: Api) -> None:
    for path in ("/persons?page[size]=7", "/persons?page[size]=7&page[number]=1"):
        answer = await seven.get(path)
        assert (ids(answer), answer.document["links"]["next"]) == ("1 2 3 4 5 6 7", None)


@says("i.paging")
async def test_the_total_can_be_left_out(seven: Api) -> None:
    answer = await seven.get("/persons?page[number]=2&page[size]=3&page[total]=false")
    assert (ids(answer), answer.document["meta"]) == ("4 5 6", {"count": 3})
    assert "last" not in answer.document["links"]
    following = await follow(seven, answer, "next")
    assert (ids(following), following.document["meta"]) == ("7", {"count": 1})
    assert following.document["links"]["next"] is None


@says("i.paging")
async def test_the_total_counts_what_a_filter_lets_through(seven: Api) -> None:
    answer = await seven.get("/persons?filter[id][gt]=2&page[number]=2&page[size]=2")
    assert (ids(answer), answer.document["meta"]) == ("5 6", {"count": 2, "total": 5})
    assert ids(await follow(seven, answer, "last")) == "7"
    owned = await seven.get("/persons/1/computers?filter[serial][ge]=SN-3&page[number]=1")
    assert (ids(owned), owned.document["meta"]) == ("3 4 5", {"count": 3, "total": 3})


@says("i.paging")
async def test_a_numbered_page_beyond_the_end_is_empty_and_leads_back(seven: Api) -> None:
    answer = await seven.get("/persons?page[number]=9&page[size]=3")
    assert (answer.data, answer.document["meta"]) == ([], {"count": 0, "total": 7})
    assert present(answer) == {"first", "last", "prev"}
    assert ids(await follow(seven, answer, "prev")) == "7"


@says("i.paging")
@pytest.mark.parametrize("query", ["sort=id", "sort=-email", "sort=last_name,-email"])
async def test_the_farthest_page_that_can_be_named_is_empty(seven: Api, query: str) -> None:
    for size, number in ((1, 2**63 - 1), (1000, (2**63 - 1) // 1000 + 1)):
        answer = await seven.get(f"/persons?{query}&page[number]={number}&page[size]={size}")
        assert (answer.status, answer.data) == (200, [])
        owners = "/computers?sort=owner.email"
        answer = await seven.get(f"{owners}&page[number]={number}&page[size]={size}")
        assert (answer.status, answer.data) == (200, [])


@says("i.paging")
async def test_pages_by_cursor_are_linked_and_not_counted(seven: Api) -> None:
    first = await seven.get("/persons?page[size]=3")
    assert (ids(first), first.document["meta"]) == ("1 2 3", {"count": 3})
    assert present(first) == {"first", "last", "next"}
    assert first.document["links"].keys() == {"self", "first", "last", "prev", "next"}
    second = await follow(seven, first, "next")
    assert (ids(second), present(second)) == ("4 5 6", {"first", "last", "prev", "next"})
    third = await follow(seven, second, "next")
    assert (ids(third), third.document["links"]["next"]) == ("7", None)
    assert ids(await follow(seven, third, "prev")) == "4 5 6"
    assert ids(await follow(seven, third, "first")) == "1 2 3"
    last = await follow(seven, first, "last")
    assert (ids(last), last.document["links"]["next"]) == ("5 6 7", None)
    before = await follow(seven, last, "prev")
    assert ids(before) == "2 3 4"
    assert ids(await follow(seven, before, "next")) == "5 6 7"
    top = await follow(seven, before, "prev")
    assert (ids(top), top.document["links"]["prev"]) == ("1", None)


@says("i.paging")
async def test_nothing_follows_the_end_and_before_it_is_the_last_page(seven: Api) -> None:
    answer = await seven.get(f"/persons?page[size]=3&page[after]={END_OF_PERSONS}")
    assert (answer.data, answer.document["links"]["next"]) == ([], None)
    assert ids(await follow(seven, answer, "prev")) == "5 6 7"
    cursor = Cursors("person", BY_ID).make((7,))
    answer = await seven.get(f"/persons?page[size]=3&page[after]={cursor}")
    assert (answer.data, answer.document["links"]["next"]) == ([], None)
    assert ids(await follow(seven, answer, "prev")) == "5 6 7"
    cursor = Cursors("person", BY_ID).make((1,))
    answer = await seven.get(f"/persons?page[size]=3&page[before]={cursor}")
    assert (answer.data, answer.document["links"]["prev"]) == ([], None)
    assert ids(await follow(seven, answer, "next")) == "1 2 3"


@says("i.paging")
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
    answer = await api.get(path)
    assert (answer.status, answer.data) == (200, [])
    assert answer.document["meta"] == {"count": 0, **totals}
    assert answer.document["links"]["next"] is None


@says("i.paging")
async def test_the_sizes_are_settings(serve: Serve, settings: Settings, database: Database) -> None:
    api = await serve(settings=replace(settings, page_size=2, largest_page=4))
    await database.persons.insert_many(
        {"_id": number, "first_name": "A", "last_name": "B"} for number in range(1, 8)
    )
    assert ids(await api.get("/persons?page[number]=1")) == "1 2"
    assert ids(await api.get(f"/persons?page[before]={END_OF_PERSONS}")) == "6 7"
    assert ids(await api.get("/persons?page[size]=4")) == "1 2 3 4"
    assert len((await api.get("/persons")).data) == 7
    refused = await api.get("/persons?page[size]=5")
    assert (refused.status, refused.errors) == (400, [(400, "page[size]")])


@says("i.paging")
@pytest.mark.parametrize("size", ["1001", "1000000000", "9" * 30, "9" * 4400])
@pytest.mark.parametrize("parameter", ["page[size]", "page[computers][size]"])
async def test_a_page_that_is_too_large_is_refused_as_the_profile_says(
    api: Api, parameter: str, size: str
) -> None:
    answer = await api.get(f"/persons?include=computers&{parameter}={size}")
    (error,) = answer.document["errors"]
    assert (error["status"], error["code"]) == ("400", "page_too_large")
    assert error["source"] == {"parameter": parameter}
    assert error["meta"] == {"page": {"maxSize": 1000}}
    profile = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination"
    assert error["links"] == {"type": f"{profile}/max-size-exceeded"}


@says("i.paging")
async def test_a_page_between_two_cursors_is_refused_as_the_profile_says(api: Api) -> None:
    answer = await api.get(f"/persons?page[after]={END_OF_PERSONS}&page[before]={END_OF_PERSONS}")
    (error,) = answer.document["errors"]
    assert error["status"] == "400"
    profile = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination"
    assert error["links"] == {"type": f"{profile}/range-pagination-not-supported"}


def cursor_of(type_name: str, sort: str, *position: Any) -> str:
    return Cursors(type_name, parse_sort(sort, GRAPH[type_name], GRAPH)).make(position)


@says("i.paging", "d.bad_parameters")
@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        *((f"page[size]={size}", "page[size]") for size in ("0", "-1", "", "1.5", "x", "%00")),
        *((f"page[number]={number}", "page[number]") for number in ("0", "-1", "9" * 40, "%ff")),
        ("page[size]", "page[size]"),
        ("page[number]=9223372036854775807&page[size]=2", "page[number]"),
        *(
            (f"page[{member}]={cursor}", f"page[{member}]")
            for member in ("after", "before")
            for cursor in [
                *["", "x", "%ff", "%00", "Hopper", "'", "{}", "W10", "W3t9LDFd", "bnVsbA"],
                cursor_of("computer", "id", 1),
                cursor_of("person", "-id", 1),
                cursor_of("person", "last_name", "Hopper", 1),
                cursor_of("person", "id", {"$gt": 0}),
                cursor_of("person", "id", [1]),
                cursor_of("person", "id", 1, 2),
                cursor_of("person", "id", True),
                cursor_of("person", "id", 2**64 - 1),
            ]
        ),
        (f"page[number]=1&page[after]={END_OF_PERSONS}", "page[number]"),
        ("page[total]=true", "page[total]"),
        ("page[number]=1&page[total]=1", "page[total]"),
        ("page[size]=1&page[size]=1", "page[size]"),
        ("page=1", "page"),
        ("page[]=1", "page[]"),
        ("page[offset]=1", "page[offset]"),
        ("page[size][x]=1", "page[size][x]"),
        ("page[Size]=1", "page[Size]"),
    ],
)
async def test_a_page_that_has_no_meaning_is_refused(api: Api, query: str, parameter: str) -> None:
    answer = await api.get(f"/persons?{query}")
    assert (answer.status, answer.errors) == (400, [(400, parameter)])


@says("i.paging")
@pytest.mark.parametrize("sort", ["id", "-id", "email", "-email", "last_name,-first_name"])
async def test_a_cursor_of_values_that_are_nowhere_is_a_place_all_the_same(
    seven: Api, sort: str
) -> None:
    order = parse_sort(sort, GRAPH["person"], GRAPH)
    for value in ("Hopper", "", "9", -1, 0, 2**63 - 1, None):
        cursor = Cursors("person", order).make((value,) * len(order))
        for member in ("after", "before"):
            answer = await seven.get(f"/persons?sort={sort}&page[{member}]={cursor}")
            assert answer.status == 200, value


@says("i.paging")
@pytest.mark.parametrize("path", ["/persons/1", "/computers/1/owner"])
async def test_what_is_no_collection_has_no_pages(seven: Api, path: str) -> None:
    answer = await seven.get(f"{path}?page[size]=1")
    assert (answer.status, answer.errors) == (400, [(400, "page[size]")])


@says("i.paging", "4.7.url")
@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("page[size]=2&sort=-id&include=computers", "sort=-id&include=computers"),
        ("&&page%5Bsize%5D=2&&&sort=-id&&include=&", "sort=-id&include="),
        ("filter[email]=%2B+%C3%A9,null&page[size]=2", "filter%5Bemail%5D=%2B+%C3%A9,null"),
        (
            "page[size]=2&filter[last_name][ne]=a%26b+c%3D",
            "filter%5Blast_name%5D%5Bne%5D=a%26b+c%3D",
        ),
        ("fields[person]=&page[size]=2", "fields%5Bperson%5D="),
        (
            "include=computers&page[computers][size]=1&page[size]=2",
            "include=computers&page%5Bcomputers%5D%5Bsize%5D=1",
        ),
    ],
)
async def test_links_keep_every_other_parameter_as_it_was_sent(
    seven: Api, query: str, kept: str
) -> None:
    answer = await seven.get(f"/persons?{query}")
    assert answer.status == 200, answer.document
    links = answer.document["links"]
    assert links["first"] == f"{origin(seven)}/persons?{kept}&page%5Bsize%5D=2"
    for name in ("last", "next"):
        assert links[name].startswith(f"{links['first']}&page%5B")
        assert len((await follow(seven, answer, name)).data) == 2


@says("i.paging", "d.collection_self")
async def test_links_begin_with_the_public_url(serve: Serve, settings: Settings) -> None:
    api = await serve(settings=replace(settings, public_url="https://registry.example.com/api"))
    await api.person()
    await api.person()
    for page in ("page[number]=1&page[size]=1", "page[size]=1"):
        links = (await api.get(f"/persons?{page}")).document["links"]
        assert links.pop("prev") is None
        expected = "https://registry.example.com/api/persons?"
        assert all(link.startswith(expected) for link in links.values()), links


Write = Callable[[Database, random.Random], Awaitable[object]]


@says("i.paging")
@pytest.mark.parametrize("step", ["next", "prev"])
@pytest.mark.parametrize("sort", ["id", "last_name", "-email", "last_name,-first_name,email"])
async def test_what_nobody_touches_is_met_once_while_others_write(
    api: Api, database: Database, sort: str, step: str
) -> None:
    chance = random.Random(sort + step)  # noqa: S311 - the same writes at each run

    def person(number: int) -> dict[str, Any]:
        names = {name: chance.choice("abc") for name in ("first_name", "last_name")}
        return {
            "_id": number,
            "email": chance.choice([None, "a@b.example"]),
            "full_name": " ".join(names.values()),
            **names,
        }

    await database.persons.insert_many(person(number) for number in range(100, 180))
    touched = set(chance.sample(range(100, 180), 40))
    new, met = iter(chance.sample(range(1, 1000), 900)), []
    answer = await api.get(f"/persons?sort={sort}&page[size]=3")
    answer = answer if step == "next" else await follow(api, answer, "last")
    while True:
        met += [int(one["id"]) for one in answer.data]
        victims = {"_id": {"$in": chance.sample(sorted(touched), 3)}}
        await database.persons.update_many(
            victims, {"$set": {"last_name": chance.choice("abcd"), "email": None}}
        )
        # The last that was met is where the cursor is.
        await database.persons.delete_one({"_id": {"$in": [*touched & set(met[-3:])]}})
        number = next(new)
        if not await database.persons.find_one({"_id": number}):
            await database.persons.insert_one(person(number))
        if answer.document["links"][step] is None:
            break
        answer = await follow(api, answer, step)
    untouched = set(range(100, 180)) - touched
    assert sorted(one for one in met if one in untouched) == sorted(untouched)


@says("i.include_pages")
async def test_an_included_relationship_can_be_bounded(seven: Api) -> None:
    answer = await seven.get("/persons?page[size]=3&include=computers&page[computers][size]=2")
    computers = {one["id"]: one["relationships"]["computers"] for one in answer.data}
    linked = {number: [one["id"] for one in some["data"]] for number, some in computers.items()}
    assert linked == {"1": ["1", "2"], "2": ["6", "7"], "3": []}
    assert answer.included == [("computer", number) for number in ("1", "2", "6", "7")]
    links = {number: some["links"] for number, some in computers.items()}
    linkage = "/persons/1/relationships/computers?page%5Bsize%5D=2"
    assert links["1"]["first"] == linkage
    assert links["1"]["next"].startswith(f"{linkage}&page%5Bafter%5D=")
    assert links["1"]["last"].startswith(f"{linkage}&page%5Bbefore%5D=")
    assert links["1"]["prev"] is None
    assert (links["2"]["prev"], links["2"]["next"]) == (None, None)
    assert (links["3"]["prev"], links["3"]["next"]) == (None, None)


@says("i.include_pages", "i.linkage_routes")
async def test_the_links_of_an_included_page_lead_through_the_whole_relationship(
    seven: Api,
) -> None:
    answer = await seven.get("/persons/1?include=computers&page[computers][size]=2")
    relationship = answer.data["relationships"]["computers"]
    found, link = [one["id"] for one in relationship["data"]], relationship["links"]["next"]
    while link is not None:
        async with seven.client.get(link.removeprefix(origin(seven))) as response:
            document = await response.json(content_type=MEDIA_TYPE)
        found += [one["id"] for one in document["data"]]
        link = document["links"]["next"]
    assert found == ["1", "2", "3", "4", "5"]


@says("i.include_pages")
async def test_a_bound_holds_for_its_path_alone(seven: Api) -> None:
    bound = "page[owner.computers][size]=3"
    answer = await seven.get(f"/computers/1?include=owner.computers.owner&{bound}")
    assert answer.included == [("person", "1"), ("computer", "2"), ("computer", "3")]
    owner = answer.document["included"][0]
    assert len(owner["relationships"]["computers"]["data"]) == 3
    whole = await seven.get("/persons/1?include=computers.owner")
    assert len(whole.data["relationships"]["computers"]["data"]) == 5
    assert "next" not in whole.data["relationships"]["computers"]["links"]


@says("i.include_pages")
async def test_a_bound_of_an_unpaged_collection_and_of_a_written_resource(seven: Api) -> None:
    query = "include=computers&page[computers][size]=1"
    answer = await seven.get(f"/persons?{query}")
    assert answer.included == [("computer", "1"), ("computer", "6")]
    assert len(answer.data) == 7
    changed = await seven.request(
        "PATCH", f"/persons/1?{query}", {"data": {"type": "person", "id": "1"}}
    )
    assert (changed.status, changed.included) == (200, [("computer", "1")])


@says("i.include_pages")
@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/persons?page[computers][size]=1", "page[computers][size]"),
        ("/persons?include=&page[computers][size]=1", "page[computers][size]"),
        ("/persons?include=computers&page[owner][size]=1", "page[owner][size]"),
        ("/persons?include=computers&page[computer][size]=1", "page[computer][size]"),
        ("/persons?include=computers&page[computers.][size]=1", "page[computers.][size]"),
        ("/persons?include=computers&page[][size]=1", "page[][size]"),
        ("/persons?include=computers&page[computers][number]=1", "page[computers][number]"),
        ("/persons?include=computers&page[computers]=1", "page[computers]"),
        (
            "/persons?include=computers.owner&page[computers.owner][size]=1",
            "page[computers.owner][size]",
        ),
        ("/persons?include=computers&page[computers][size]=0", "page[computers][size]"),
        ("/persons?include=computers&page[computers][size]=x", "page[computers][size]"),
        ("/computers?include=owner&page[owner][size]=1", "page[owner][size]"),
        ("/computers?include=owner&page[owner.computers][size]=1", "page[owner.computers][size]"),
        ("/persons/1/computers?include=owner&page[computers][size]=1", "page[computers][size]"),
    ],
)
async def test_a_bound_of_what_is_not_included_or_not_many_is_refused(
    seven: Api, path: str, parameter: str
) -> None:
    answer = await seven.get(path)
    assert (answer.status, answer.errors) == (400, [(400, parameter)])


@says("i.paging", "i.related_routes")
async def test_related_resources_and_their_linkage_have_pages(seven: Api) -> None:
    first = await seven.get("/persons/1/computers?page[size]=2&sort=-serial&include=owner")
    assert (ids(first), first.included) == ("5 4", [("person", "1")])
    second = await follow(seven, first, "next")
    assert ids(second) == "3 2"
    assert ids(await follow(seven, await follow(seven, second, "next"), "prev")) == "3 2"
    numbered = await seven.get("/persons/1/computers?page[number]=3&page[size]=2")
    assert (ids(numbered), numbered.document["meta"]) == ("5", {"count": 1, "total": 5})
    linkage = "/persons/1/relationships/computers?page[number]=3&page[size]=2"
    async with seven.client.get(linkage) as response:
        document = await response.json(content_type=MEDIA_TYPE)
    assert document["data"] == [{"type": "computer", "id": "5"}]
    assert document["meta"] == {"count": 1, "total": 5}
    previous = dict(parse_qsl(urlsplit(document["links"]["prev"]).query))
    assert previous == {"page[number]": "2", "page[size]": "2"}
    assert document["links"]["prev"].startswith(f"{origin(seven)}/persons/1/relationships/")


@pytest.mark.parametrize("query", ["page[total]=true", "page[size]=1&page[total]=false"])
async def test_a_total_without_a_page_number_is_refused_with_the_parameter_to_send(
    api: Api, query: str
) -> None:
    answer = await api.get(f"/persons?{query}")
    assert "Send `page[number]=1` for the total" in answer.document["errors"][0]["detail"]
