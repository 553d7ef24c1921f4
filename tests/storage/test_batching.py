"""Requests in flight share a round trip, and none of them suffers from it."""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Sequence
from contextlib import suppress
from weakref import ref

import pytest

from registry.http.app_keys import GRAPH, REPOSITORY
from registry.jsonapi.pagination import NumberedPage, Window
from registry.jsonapi.query import Query
from registry.jsonapi.sorting import Key
from registry.storage.batching import Batcher, Coalescer
from registry.storage.errors import Unavailable
from tests.support import Api, CommandLog, Database


class Trips:
    """A database that answers when it is told to."""

    def __init__(self) -> None:
        self.taken: list[list[int]] = []
        self.go = asyncio.Event()
        self.failure: Exception | None = None

    async def send(self, items: Sequence[int]) -> list[int | Exception]:
        self.taken.append(list(items))
        await self.go.wait()
        if self.failure:
            raise self.failure
        return [ValueError(item) if item < 0 else item * 10 for item in items]


async def asking(shared: Batcher[int, int], *items: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(shared.load(item)) for item in items]
    await asyncio.sleep(0.01)
    return tasks


async def test_what_is_asked_during_a_trip_leaves_with_the_next() -> None:
    trips = Trips()
    shared = Batcher(trips.send, max_batch_size=3)
    tasks = await asking(shared, 1) + await asking(shared, 2, 3, 4, 5)
    assert trips.taken == [[1]]
    trips.go.set()
    assert await asyncio.gather(*tasks) == [10, 20, 30, 40, 50]
    assert trips.taken == [[1], [2, 3, 4], [5]]


async def passes_between_trips(most: int) -> int:
    """Return how often the loop goes round after a trip until three who wait leave."""
    trips = Trips()
    shared = Batcher(trips.send, max_batch_size=most)
    tasks = await asking(shared, 1) + await asking(shared, 2, 3, 4)
    trips.go.set()
    passes = 0
    while len(trips.taken) < 2:
        await asyncio.sleep(0)
        passes += 1
    await asyncio.gather(*tasks)
    return passes


async def test_a_trip_that_is_full_waits_for_no_others() -> None:
    assert await passes_between_trips(most=3) < await passes_between_trips(most=4)


async def test_an_idle_service_adds_no_delay() -> None:
    trips = Trips()
    trips.go.set()
    for item in (1, 2):
        assert await Batcher(trips.send, max_batch_size=3).load(item) == item * 10
    assert trips.taken == [[1], [2]]


async def test_who_gives_up_harms_no_other() -> None:
    trips = Trips()
    shared = Batcher(trips.send, max_batch_size=9)
    tasks = await asking(shared, 1, 2) + await asking(shared, 3, 4)
    tasks[0].cancel()
    tasks[2].cancel()
    trips.go.set()
    assert [await tasks[1], await tasks[3]] == [20, 40]
    assert trips.taken == [[1, 2], [4]]


async def test_an_error_reaches_all_that_shared_it_and_no_other() -> None:
    trips = Trips()
    shared = Batcher(trips.send, max_batch_size=9)
    tasks = await asking(shared, 1, 2)
    trips.failure = Unavailable()
    trips.go.set()
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in errors] == [Unavailable, Unavailable]
    trips.failure = None
    assert await shared.load(3) == 30


async def test_one_that_fails_leaves_the_others() -> None:
    trips = Trips()
    trips.go.set()
    shared = Batcher(trips.send, max_batch_size=9)
    first, second, third = await asking(shared, 1, -2, 3)
    assert [await first, await third] == [10, 30]
    with pytest.raises(ValueError, match="-2"):
        await second


async def test_several_trips_are_under_way_where_they_may() -> None:
    trips = Trips()
    shared = Batcher(trips.send, max_batch_size=1, max_in_flight=2)
    tasks = await asking(shared, 1, 2, 3)
    assert trips.taken == [[1], [2]]
    trips.go.set()
    assert await asyncio.gather(*tasks) == [10, 20, 30]


@pytest.mark.parametrize(("asked", "sizes"), [(7, [7]), (100, [50, 50])])
async def test_what_is_asked_at_once_is_shared_out_among_trips_that_are_worth_it(
    asked: int, sizes: list[int]
) -> None:
    trips = Trips()
    shared = Batcher(trips.send, max_batch_size=999, max_in_flight=2)
    tasks = await asking(shared, *range(asked))
    assert [len(taken) for taken in trips.taken] == sizes
    trips.go.set()
    assert await asyncio.gather(*tasks) == [item * 10 for item in range(asked)]


async def test_a_second_trip_begins_when_as_many_wait_as_it_takes() -> None:
    trips = Trips()
    shared = Batcher(trips.send, max_batch_size=3, max_in_flight=2)
    tasks = await asking(shared, 1) + await asking(shared, 2, 3)
    assert trips.taken == [[1]]
    tasks += await asking(shared, 4)
    assert trips.taken == [[1], [2, 3, 4]]
    trips.go.set()
    assert await asyncio.gather(*tasks) == [10, 20, 30, 40]


class Page:
    """A page of a collection, as a key: two of the same number are equal."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Page) and other.number == self.number

    def __hash__(self) -> int:
        return hash(self.number)


class Pages:
    """Pages of a database that answers when it is told to."""

    def __init__(self) -> None:
        self.shared = Coalescer[int](max_batch_size=3)
        self.trips = {number: Trips() for number in (1, 2)}
        self.asked: list[ref[Page]] = []

    async def asking(self, *numbers: int) -> list[asyncio.Task[int]]:
        tasks = [asyncio.create_task(self.ask(number)) for number in numbers]
        await asyncio.sleep(0.01)
        return tasks

    async def ask(self, number: int) -> int:
        async def find() -> int:
            (found,) = await self.trips[number].send([number])
            assert isinstance(found, int)
            return found

        page = Page(number)
        self.asked.append(ref(page))
        return await self.shared.load(page, find)


async def test_equal_questions_share_a_trip_that_begins_after_all_of_them() -> None:
    pages = Pages()
    tasks = await pages.asking(1) + await pages.asking(1, 1, 1, 1)
    assert pages.trips[1].taken == [[1]]
    pages.trips[1].go.set()
    assert await asyncio.gather(*tasks) == [10] * 5
    assert pages.trips[1].taken == [[1], [1], [1]]


async def test_different_questions_never_wait_for_each_other() -> None:
    pages = Pages()
    pages.trips[2].go.set()
    waiting = await pages.asking(1, 1)
    assert await pages.ask(2) == 20
    pages.trips[1].go.set()
    assert await asyncio.gather(*waiting) == [10, 10]


async def test_who_gives_up_an_equal_question_harms_no_other() -> None:
    pages = Pages()
    tasks = await pages.asking(1, 1) + await pages.asking(1, 1)
    tasks[0].cancel()
    tasks[2].cancel()
    pages.trips[1].go.set()
    assert [await tasks[1], await tasks[3]] == [10, 10]


async def test_an_error_reaches_each_that_shared_it_by_its_own_way_and_no_other() -> None:
    pages = Pages()
    tasks = await pages.asking(1, 1, 1)
    pages.trips[1].failure = Unavailable()
    pages.trips[1].go.set()
    ways = set()
    for task in tasks:
        with pytest.raises(Unavailable) as caught:
            await task
        ways.add(tuple(traceback.extract_tb(caught.tb).format()))
    assert len(ways) == 1, "one has the way of another before its own"
    pages.trips[1].failure = None
    assert await pages.ask(1) == 10


async def test_nothing_is_kept_of_questions_that_nobody_asks_any_more() -> None:
    pages = Pages()
    tasks = await pages.asking(1, 1, 2) + await pages.asking(1, 2, 2)
    for task in (tasks[0], tasks[1], tasks[3]):
        task.cancel()
    pages.trips[2].failure = Unavailable()
    for trips in pages.trips.values():
        trips.go.set()
    for task in tasks:
        with suppress(Unavailable, asyncio.CancelledError):
            await task
    await asyncio.sleep(0.01)
    del task, tasks
    pages.trips[2].failure = None  # it remembers where it was raised
    gc.collect()
    assert [page() for page in pages.asked] == [None] * 6


@pytest.mark.covers("r.shared")
async def test_reads_in_flight_share_their_queries(api: Api, commands: CommandLog) -> None:
    for number in range(5):
        await api.computer(f"SN-{number}", owner=await api.person())
    commands.take("find")
    answers = await asyncio.gather(
        *(api.get(f"/computers/{1 + number % 6}?include=owner") for number in range(60))
    )
    assert [answer.status for answer in answers] == [200, 200, 200, 200, 200, 404] * 10
    for answer in answers:
        if answer.status == 200:
            assert answer.included == [("person", answer.id)]
    assert len(commands.take("find")) < 60


@pytest.mark.covers("r.shared")
async def test_writes_in_flight_share_their_trips(
    api: Api, database: Database, commands: CommandLog
) -> None:
    ids = await asyncio.gather(*(api.person(f"F{number}") for number in range(60)))
    assert len(set(ids)) == 60
    assert len(commands.take("insert")) < 40
    for identifier, first in zip(ids, range(60), strict=True):
        stored = await database.persons.find_one({"_id": int(identifier)})
        assert stored is not None
        assert stored["first_name"] == f"F{first}"
    change = {"type": "person", "attributes": {"last_name": "New"}}
    answers = await asyncio.gather(
        *(api.patch(f"/persons/{number}", change) for number in range(1, 71))
    )
    assert [answer.status for answer in answers] == [200] * 60 + [404] * 10
    assert len(commands.take("update")) < 60


@pytest.mark.covers("r.shared")
async def test_every_client_reads_its_own_writes(api: Api) -> None:
    async def client(name: str) -> None:
        identifier = await api.person(name)
        for turn in range(10):
            attributes = {"last_name": f"{name}-{turn}"}
            body = {"type": "person", "attributes": attributes}
            changed = await api.patch(f"/persons/{identifier}", body)
            read = await api.get(f"/persons/{identifier}")
            for answer in (changed, read):
                assert answer.data["attributes"]["full_name"] == f"{name} {name}-{turn}"

    await asyncio.gather(*(client(f"N{number}") for number in range(25)))


@pytest.mark.covers("r.shared")
async def test_equal_pages_in_flight_share_their_query(api: Api, commands: CommandLog) -> None:
    for number in range(5):
        await api.person(f"F{number}", f"L{number}")
    paths = [
        f"/persons?sort=-last_name&filter[last_name][gt]=L1&page[size]=2{more}"
        for more in ("", "&fields[person]=email", "&include=computers")
    ]
    commands.take("find")
    answers = await asyncio.gather(*(api.get(path) for path in paths * 20))
    for answer in answers:
        assert (answer.status, [one["id"] for one in answer.data]) == (200, ["5", "4"])
    assert commands.take("find").count("persons") < 60


def listed(api: Api, query: Query) -> asyncio.Task[Window]:
    """Ask for a page, past HTTP."""

    async def ask() -> Window:
        app = api.client.app
        assert app is not None
        assert query.page is not None
        listing = await app[REPOSITORY].listing(app[GRAPH]["person"], query)
        return await listing.window(query.page)

    return asyncio.create_task(ask())


@pytest.mark.covers("r.shared")
async def test_pages_asked_for_at_once_are_one_query_for_all_that_are_equal(
    api: Api, commands: CommandLog
) -> None:
    for _ in range(5):
        await api.person()
    commands.take("all")
    queries = [
        Query(order=(Key("_id", descending),), page=NumberedPage(number, 2, total=False))
        for descending in (False, True)
        for number in (2, 3)
    ]
    tasks = [listed(api, query) for query in queries * 15]
    for task in tasks[: len(queries) * 5]:
        task.cancel()
    windows = await asyncio.gather(*tasks[len(queries) * 5 :])
    ids = [[record["_id"] for record in window.records] for window in windows]
    assert ids == [[3, 4], [5], [3, 2], [1]] * 10
    assert commands.take("find") == ["persons"] * len(queries)


@pytest.mark.covers("r.shared")
async def test_every_client_finds_in_a_page_what_it_has_written(
    api: Api, database: Database
) -> None:
    # A query takes so long that writes are made while it is under way.
    await database.persons.insert_many(
        {"_id": 1_000_000 + number, "first_name": "Grace", "last_name": "Hopper"}
        for number in range(20_000)
    )
    pages = [
        f"/persons?filter[first_name][contains]=da&{page}"
        for page in ("page[size]=100", "page[number]=1&page[size]=100")
    ]

    async def client(name: str, page: str) -> None:
        for turn in range(5):
            created = await api.person("Ada", f"{name}-{turn}")
            assert created in [one["id"] for one in (await api.get(page)).data]
            change = {"type": "person", "attributes": {"first_name": "Ada", "last_name": name}}
            await api.patch(f"/persons/{created}", change)
            found = {one["id"]: one["attributes"] for one in (await api.get(page)).data}
            assert found[created]["last_name"] == name

    async def reader(page: str) -> None:
        while True:
            await api.get(page)

    readers = [asyncio.create_task(reader(page)) for page in pages]
    await asyncio.gather(*(client(f"N{number}", pages[number % 2]) for number in range(20)))
    for task in readers:
        task.cancel()
    await asyncio.wait(readers)


@pytest.mark.covers("r.shared")
async def test_two_changes_of_one_resource_at_once_are_both_made(api: Api) -> None:
    await api.person()
    changes = [{"first_name": "Ada"}, {"last_name": "Lovelace"}, {"email": "ada@example.com"}] * 5
    answers = await asyncio.gather(
        *(api.patch("/persons/1", {"type": "person", "attributes": one}) for one in changes)
    )
    assert all(answer.status == 200 for answer in answers)
    read = (await api.get("/persons/1")).data["attributes"]
    assert (read["full_name"], read["email"]) == ("Ada Lovelace", "ada@example.com")


@pytest.mark.covers("r.shared")
@pytest.mark.parametrize("key", [[1], [1, 2], {"id": 1}, "1", 1.5])
async def test_a_key_of_another_tool_that_is_no_id_harms_nobody(
    api: Api, database: Database, key: object
) -> None:
    await api.person()
    await api.computer(owner="1")
    await database.computers.insert_one({"_id": 9, "serial": "SN-9", "person": key})
    paths = ["/persons?include=computers", "/computers?include=owner", "/computers/9?include=owner"]
    paths += ["/computers/9/owner", "/computers/9/relationships/owner", "/computers/1/owner"]
    answers = await asyncio.gather(*(api.get(path) for path in paths))
    assert [answer.status for answer in answers] == [200] * len(paths)
    assert answers[0].included == [("computer", "1")]
    assert [answers[3].data, answers[4].data] == [None, None]
    assert answers[5].id == "1"
