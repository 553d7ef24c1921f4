"""The plans of typical requests: each is served by an index, or counts as heavy.

The requests are generated from the declarations, so that none is forgotten for a new type or
attribute; further ones are in MORE.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, product
from typing import Any

import pytest

from registry.jsonapi.filtering import filter_operators
from registry.jsonapi.pagination import BY_ID, Cursors, parse_sort, sort_names
from registry.model.graph import Graph
from registry.model.resource_field import ResourceField
from registry.model.resource_type import ResourceType
from registry.resources import RESOURCES
from tests.conftest import Serve
from tests.storage.profiling import profiled
from tests.support import Api, CommandLog, Database, bulkheads, complete_record

GRAPH = Graph(RESOURCES)

COUNT, SIZE = 1_500, 5

START = datetime(2026, 3, 15, tzinfo=UTC)

BOUND = 60
"""Index keys or documents that a cheap page may examine: a multiple of its size, and of the values
that it is filtered by, but not of the collection."""

PAGES = (f"&page[size]={SIZE}", f"&page[number]=3&page[size]={SIZE}&page[total]=false")

MORE = [
    'persons?filter=[{"or":[{"name":"last_name","op":"eq","val":"last_name 7"},'
    '{"name":"email","op":"in","val":["email 7","email 8"]}]}]',
    'persons?filter=[{"or":[{"name":"last_name","op":"contains","val":"7"},'
    '{"name":"email","op":"prefix","val":"email 7"}]}]',
    'persons?filter=[{"not":{"name":"email","op":"eq","val":"email 7"}}]&sort=email',
    "persons?filter[last_name]=last_name 7&filter[email][contains]=7&sort=-first_name",
    "persons?filter[last_name]=last_name 7&sort=first_name,-email",
    "persons?sort=last_name,-email",
    "computers?filter[owner]=3,4,null&filter[serial][prefix]=serial",
    "persons/7/computers?sort=serial",
    "persons/7/relationships/computers?",
    "persons?sort=-updated_at",
    "persons?sort=updated_by,-last_name",
    "persons?filter[updated_by]=ci",
    "persons?filter[created_at][ge]=2026-01-01T00:00:00Z&sort=created_at",
    "assignments?filter[at]=2026-03-15T00:00:07Z",
    "assignments?filter[serial]=serial 7&sort=-until",
    "persons/7/assignments?filter[at]=2026-03-15T00:00:07Z",
    "computers/7/assignments?sort=-since",
    "computers?sort=owner,-serial",  # begins with nulls
]
"""Requests that combine conditions and sort keys, each without its page."""


def stored_value(name: str, attribute: ResourceField, number: int) -> Any:
    if attribute.kind.stored_type is datetime:
        return START + timedelta(seconds=number)
    return f"{name} {number}"


def filters(field: ResourceField) -> Iterator[str]:
    is_id = field.kind.stored_type is int
    record = {field.name: stored_value(field.name, field, 7)}
    value = 7 if is_id else field.field.serialize(field.name, record)
    for operator in filter_operators(field):
        text = {"in": f"{value},{value}", "null": "true"}.get(operator, value)
        yield f"filter[{field.name}][{operator}]={text}"


def requests_of(resource: ResourceType) -> Iterator[str]:
    stored = resource.filterable
    indexed = [field for field in stored.values() if field.is_indexed]
    for field in indexed:
        for condition in filters(field):
            for sort in ("", f"&sort={field.name}", f"&sort=-{field.name}"):
                yield f"{resource.collection}?{condition}{sort}"
    for name in sort_names(resource, GRAPH):
        if name in stored and not stored[name].is_indexed:
            continue
        yield f"{resource.collection}?sort={name}"
        if name != "id":
            yield f"{resource.collection}?sort=-{name},id"


REQUESTS = [
    f"/{request}{page}"
    for request in chain(*map(requests_of, GRAPH.values()), MORE)
    for page in PAGES
]


CHEAP = [
    "",
    "sort=serial",
    "sort=-serial",
    "sort=serial,id",
    "sort=-id",
    "filter[serial]=a",
    "filter[owner]=1",
    "filter[owner]=1,null",
    "filter[id]=1,2,3",
    "filter[id][gt]=1",
    "filter[serial][prefix]=a&sort=serial",
    "filter[serial][ge]=a&filter[serial][lt]=b&sort=-serial",
    'filter=[{"and":[{"name":"serial","op":"eq","val":"a"}]}]',
]

HEAVY = [
    "sort=serial,-id",
    "sort=owner,serial",
    "sort=owner.last_name",
    "filter[serial]=a&filter[owner]=1",
    "filter[serial]=a&sort=owner",
    f"filter[id]={','.join(map(str, range(101)))}&sort=serial",
    f"filter[owner]={','.join(map(str, range(1, 102)))}",
    'filter=[{"or":[{"name":"serial","op":"eq","val":"a"}]}]&sort=serial',
    'filter=[{"or":[{"name":"serial","op":"eq","val":"a"}]}]&filter[owner]=1',
    'filter=[{"or":[{"name":"serial","op":"eq","val":"a"},{"name":"owner","op":"ne","val":1}]}]',
    'filter=[{"or":[{"name":"serial","op":"eq","val":"a"},{"name":"owner","op":"in","val":[1,2]}]}]',
    'filter=[{"not":{"name":"serial","op":"eq","val":"a"}}]',
    'filter=[{"or":[{"name":"serial","op":"eq","val":"a"},{"name":"created_by","op":"eq","val":"a"}]}]',
]


@pytest.fixture
async def stored(database: Database, serve: Serve) -> Api:
    """A service that refuses heavy requests while one runs; all values are distinct."""
    for resource in GRAPH.values():
        await database[resource.collection].insert_many(
            {
                "_id": number,
                **{
                    name: stored_value(name, attribute, number * 7919 % COUNT)
                    for name, attribute in resource.attributes.items()
                },
                **{link.foreign_key: number for link in resource.links},
                "version": 1,
            }
            for number in range(1, COUNT + 1)
        )
    api = await serve(heavy_requests=1, queue_length=0, queue_seconds=0.001)
    for resource in GRAPH.values():  # loads the index of ids
        await api.get(f"/{resource.collection}?page[number]=1&page[size]=1")
    return api


async def test_every_request_is_served_by_an_index_or_counts_as_heavy(
    stored: Api, database: Database
) -> None:
    wrong = []
    async with bulkheads(stored).heavy_requests:
        for request in REQUESTS:
            async with profiled(
                database, *(resource_type.collection for resource_type in GRAPH.values())
            ) as profile:
                response = await stored.get(request)
            assert response.status in {200, 503}, request
            is_cheap = not profile.scans_collection and profile.examined <= BOUND
            if response.status == 200 and not is_cheap:
                wrong.append(request)
    assert wrong == []


async def test_a_query_is_cheap_only_if_one_index_serves_it(serve: Serve) -> None:
    api = await serve(heavy_requests=1, queue_length=0, queue_seconds=0.001)
    async with bulkheads(api).heavy_requests:
        for status, queries in ((200, CHEAP), (503, HEAVY)):
            for query in queries:
                response = await api.get(f"/computers?{query}&page[size]=1")
                assert response.status == status, query


@pytest.mark.parametrize("sort", ["", "&sort=-id", "&sort=first_name", "&sort=last_name"])
async def test_a_search_for_text_examines_the_keys_of_one_index(
    stored: Api, database: Database, sort: str
) -> None:
    path = f"/persons?filter[last_name][contains]=ME 77&page[size]={2 * SIZE}{sort}"
    async with profiled(database, "persons") as profile:
        first = await stored.get(path)
    assert len(first.ids) == 2 * SIZE
    assert profile.total("docsExamined") <= 11, "last_name 77, 770 to 779"
    assert profile.total("keysExamined") <= COUNT
    cursor = first.document["links"]["next"].partition("page%5Bafter%5D=")[2]
    assert len((await stored.get(f"{path}&page[after]={cursor}")).ids) == 1


async def test_a_search_for_text_among_few_does_not_examine_an_index_of_texts(
    stored: Api, database: Database
) -> None:
    for few in ("[id]=7,8", "[full_name]=full_name 7", "[email][prefix]=email 7"):
        async with profiled(database, "persons") as profile:
            await stored.get(
                f"/persons?filter{few}&filter[last_name][contains]=7&page[size]={SIZE}"
            )
        assert profile.total("keysExamined") < COUNT // 5


ORDERS = [
    *(f"persons {name}" for name in ("id", "first_name", "last_name", "full_name", "email")),
    *(f"computers {name}" for name in ("id", "serial", "owner")),
    *(f"persons last_name,{name}" for name in ("first_name", "-first_name", "-id")),
    "persons full_name,email",
]


@pytest.fixture
async def similar(api: Api, database: Database) -> Api:
    """Groups of 5 share a last name, half have no e-mail; one person owns half the computers."""
    numbers = range(1, COUNT + 1)
    await database.persons.insert_many(
        complete_record(
            {
                "_id": number,
                "first_name": f"First {number % 7}{number}",
                "last_name": f"Last {number % (COUNT // 5):04}",
                "email": f"{number * 7919 % COUNT}@example.com" if number % 2 else None,
            }
        )
        for number in numbers
    )
    await database.computers.insert_many(
        complete_record(
            {
                "_id": number,
                "serial": f"SN-{number * 7919 % COUNT}",
                "person": COUNT if number % 2 else number % 300 or None,
            }
        )
        for number in numbers
    )
    await api.get("/persons?sort=full_name&page[size]=1")  # stores the full names
    return api


async def test_a_late_page_costs_no_more_than_the_first(similar: Api, database: Database) -> None:
    for ordered, direction in product(ORDERS, ("", "-")):
        collection, names = ordered.split()
        sort = ",".join(f"{direction}{name}".replace("--", "") for name in names.split(","))
        resource = GRAPH[collection.removesuffix("s")]
        order = parse_sort(sort, resource, GRAPH)
        fields = [(key.stored_name, -1 if key.descending else 1) for key in order]
        stored = await database[collection].find(sort=fields).to_list(None)
        for place in (COUNT // 4, COUNT // 2, COUNT - 2 * SIZE):
            position = tuple(stored[place].get(key.stored_name) for key in order)
            cursor = Cursors(resource.type, order).encode(position)
            after, before = stored[place + 1 : place + 1 + SIZE], stored[place - SIZE : place]
            for member, expected in (("after", after), ("before", before)):
                path = f"/{collection}?sort={sort}&page[size]={SIZE}&page[{member}]={cursor}"
                async with profiled(database, collection) as profile:
                    response = await similar.get(path)
                assert [int(id_) for id_ in response.ids] == [wanted["_id"] for wanted in expected]
                assert profile.examined <= 5 * SIZE, path


async def test_a_page_of_many_members_costs_as_much_as_its_size(
    similar: Api, database: Database
) -> None:
    middle = Cursors("computer", BY_ID).encode((COUNT // 2,))
    for path in (
        f"/persons/{COUNT}/computers?page[size]={SIZE}&page[after]={middle}",
        f"/persons/{COUNT}/computers?page[size]={SIZE}&page[before]={middle}",
        f"/persons/{COUNT}/relationships/computers?page[size]={SIZE}&page[after]={middle}",
        f"/persons/{COUNT}?include=computers&page[computers][size]={SIZE}",
    ):
        async with profiled(database, "persons", "computers") as profile:
            response = await similar.get(path)
        assert len(response.included if "include" in path else response.ids) == SIZE
        assert profile.examined <= 5 * SIZE, path


async def test_a_page_arrives_in_one_batch(similar: Api, commands: CommandLog) -> None:
    for path in ("/persons?page[size]=500", "/computers?sort=owner.email&page[size]=500"):
        commands.take("all")
        assert len((await similar.get(path)).data) == 500
        assert commands.take("getMore") == []
