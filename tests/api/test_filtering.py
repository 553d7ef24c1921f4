"""`filter`: by related attributes however many match, by external records, and its time limit."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from registry.settings import Settings
from registry.storage.mongo.read_commands import ReadCommands, ReadResult
from tests.conftest import Serve
from tests.consistency import strategies
from tests.consistency.model import Condition, Model, Query
from tests.storage.limits import limited
from tests.support import Api, Database, complete_record, set_counters


@pytest.fixture(params=["few", "several", "many"])
def number_of_related(request: pytest.FixtureRequest) -> Iterator[None]:
    """The records that count as few: all, some or none, each of which is another way to read."""
    if request.param == "few":
        yield
        return
    most = {"several": 5, "many": 0}[request.param]
    ids = {"MAX_IDS": most, "_MAX_TOTAL_IDS": most}
    records = {"_MAX_SORTED": most, "MAX_BATCH": 7, "RECORDS_PER_RESULT": 2}
    with limited(**ids, **records, _EXTRA_TARGETS=most // 2):
        yield


@pytest.fixture
async def api(serve: Serve) -> Api:
    """A service that streams short lists, in small chunks."""
    return await serve(few_records=2, chunk=3)


@pytest.fixture
async def stored(api: Api, database: Database) -> Model:
    """Persons with several computers or none; some lack an e-mail, as after external writes."""
    rng, model = random.Random(4), Model()  # noqa: S311 - the same resources in each run
    for id_ in range(1, 41):
        names = {name: rng.choice(strategies.TEXTS) for name in ("first_name", "last_name")}
        email = {"email": address} if (address := rng.choice(strategies.EMAILS)) else {}
        await database.persons.insert_one(complete_record({"_id": id_, **names, **email}))
        model.create(("person", id_), names | email)
    for id_ in range(1, 31):
        serial, owner = rng.choice(strategies.TEXTS), rng.choice([1, 2, 3, 4, 5, 6, None])
        await database.computers.insert_one(
            complete_record({"_id": id_, "serial": serial, "person": owner})
        )
        model.create(("computer", id_), {"serial": serial})
        model.replace(("computer", id_), [owner] if owner else [])
    await set_counters(database)
    await api.get("/persons?sort=full_name&page[size]=1")  # stores the full names
    return model


@pytest.mark.usefixtures("number_of_related")
@hypothesis_settings(max_examples=30, derandomize=True)
@given(data=st.data())
async def test_queries_match_the_model(api: Api, stored: Model, data: st.DataObject) -> None:
    type_name = data.draw(strategies.types)
    drawn = data.draw(strategies.collection_queries(type_name, [1, 2, 6]))
    query = Query(sort=drawn.sort, conditions=drawn.conditions, combined=drawn.combined)
    owner = data.draw(st.sampled_from([None, 1, 6])) if type_name == "computer" else None
    await check_pages(api, stored, type_name, query, owner)


ORDERS_BY_OWNER = [
    *(("owner.first_name",), ("-owner.first_name",), ("owner.id",), ("-owner.id",)),
    *(("owner.last_name", "owner.first_name"), ("-owner.last_name", "-owner.email")),
    *(("owner.first_name", "-owner.id"), ("-owner.first_name", "-owner.id", "serial")),
]
"""Orders that a loop over owners serves, and in the end some that it does not."""

OF_OWNERS: list[Condition | None] = [
    None,
    {"name": "owner.last_name", "op": "ge", "val": "a"},
]
OF_COMPUTERS: list[Condition | None] = [
    {"name": "serial", "op": "ge", "val": "a"},
    {"name": "owner", "op": "eq", "val": None},
    {"name": "owner", "op": "in", "val": [1, 2, None]},
]


@pytest.mark.usefixtures("number_of_related")
@pytest.mark.parametrize(
    "conditions", [OF_OWNERS, pytest.param(OF_COMPUTERS, marks=pytest.mark.slow)]
)
async def test_orders_by_owner_match_the_model(
    api: Api, stored: Model, conditions: list[Condition | None]
) -> None:
    for sort in ORDERS_BY_OWNER:
        for condition in conditions:
            query = Query(sort=sort, combined=(condition,) if condition else ())
            await check_pages(api, stored, "computer", query)


async def check_pages(
    api: Api, stored: Model, type_name: str, query: Query, owner: int | None = None
) -> None:
    """Compare a collection, and its pages in both directions, with the model."""
    within = [id_ for _, id_ in stored.members(("person", owner))] if owner else None
    path = f"/persons/{owner}/computers" if owner else f"/{type_name}s"
    expected = [str(id_) for id_ in stored.select(type_name, query, within)]
    assert (await api.get(query.url(path))).ids == expected
    for number in (1, 2):
        page = await api.get(query.url(path, {"number": number, "size": 4}))
        assert page.ids == expected[number * 4 - 4 : number * 4]
        assert page.document["meta"]["total"] == len(expected)
    pages = await api.pages(query.url(path, {"size": 4}))
    assert [id_ for page in pages for id_ in page.ids] == expected
    last = pages[0].document["links"]["last"].removeprefix(api.origin)
    backwards = await api.pages(last, "prev")
    assert [id_ for page in reversed(backwards) for id_ in page.ids] == expected


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
    names = {resource["attributes"]["last_name"] for resource in response.document["included"]}
    assert names == {"Liskov"}
    assert (await api.get("/computers?filter[owner.last_name]=Liskov")).ids == []


async def test_a_query_over_its_time_limit_is_stopped(
    serve: Serve, settings: Settings, database: Database
) -> None:
    api = await serve(settings=replace(settings, query_seconds=0.001))
    numbers = range(1, 20_001)
    await database.persons.insert_many(
        complete_record(
            {
                "_id": number,
                "first_name": f"{number * 7919 % 20_000}",
                "last_name": "H",
                "full_name": "",
            }
        )
        for number in numbers
    )
    await database.computers.insert_many(
        complete_record({"_id": number, "serial": f"{number}", "person": number})
        for number in numbers
    )
    await set_counters(database)
    found, numbered = "/persons?filter[last_name][contains]=z", "&page[number]=1"
    by_owner = "/computers?sort=owner.last_name,serial"
    for url in (
        *(found, f"{found}&page[size]=10", f"{found}{numbered}", f"{found}&include=computers"),
        *(f"{found}{numbered}&page[total]=false", f"{found}&sort=first_name&page[size]=10"),
        *(
            "/persons?sort=last_name,first_name&page[size]=10",
            by_owner,
            f"{by_owner}&page[size]=10",
        ),
        *("/persons?sort=email&page[number]=1000&page[size]=10",),
        f"{by_owner}&page[number]=2&page[total]=false",
    ):
        response = await api.get(url)
        assert (response.status, response.headers["Retry-After"]) == (503, "5"), url
        assert response.code == "query_timeout"
        assert "0.001 s" in response.document["errors"][0]["detail"]
    assert len((await api.get("/persons")).data) == 20_000


async def test_ids_are_compared_with_any_integer(api: Api) -> None:
    for _ in range(2):
        await api.person()
    await api.computer(owner="2")
    await api.computer()
    huge = ("9" * 19, "1" + "0" * 30, str(2**63))
    expected = {"gt": False, "ge": False, "lt": True, "le": True, "eq": False, "ne": True}
    for (number, is_greater), (name, matches) in product(
        [
            *((text, True) for text in huge),
            *((f"-{text}", False) for text in ("1", str(2**63), *huge)),
            ("0", False),
        ],
        expected.items(),
    ):
        every = matches if is_greater or name in {"eq", "ne"} else not matches
        for collection, field, ids in (
            ("persons", "id", ["1", "2"] * every),
            # Null is not equal to any integer, and neither less nor greater.
            ("computers", "owner", (["1", "2"] if name == "ne" else ["1"]) * every),
        ):
            in_json = f'[{{"name":"{field}","op":"{name}","val":{number}}}]'
            for query in (f"filter[{field}][{name}]={number}", f"filter={quote(in_json)}"):
                response = await api.get(f"/{collection}?{query}")
                assert (response.status, response.ids) == (200, ids), query
