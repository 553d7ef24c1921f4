"""Indexes of large collections are built while the service is ready."""

import asyncio
import logging
from functools import partial
from typing import Any

import pytest

from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.resources import RESOURCES
from registry.storage import indexes
from registry.storage.indexes import build_indexes
from tests.conftest import Serve
from tests.mongods import Client, mongod_with_fail_points
from tests.support import Database, complete_record
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("_new_database")

GRAPH = Graph(RESOURCES)
PERSON = GRAPH["person"]

FIELDS = {"_id", "email", "first_name", "full_name", "last_name"}


async def fill(database: Database, count: int) -> None:
    await database.persons.insert_many(
        complete_record({"_id": number, "first_name": "Grace", "last_name": f"Hopper {number}"})
        for number in range(1, count + 1)
    )


async def indexed_fields(database: Database) -> set[str]:
    information = await database.persons.index_information()
    return {index["key"][0][0] for index in information.values()}


async def are_building(client: Client, count: int) -> bool:
    """Return whether so many clients wait for indexes of persons."""
    command = {"command.createIndexes": "persons", "connectionId": {"$exists": True}}
    stages: list[dict[str, Any]] = [{"$currentOp": {}}, {"$match": command}]
    return len(await client.admin.aggregate(stages).to_list(None)) == count


async def test_a_large_collection_is_completed_while_the_service_is_ready(
    database: Database, serve: Serve
) -> None:
    await fill(database, 20)
    api = await serve(catch_up=False, small_collection=1)
    assert (await api.get("/persons/1")).status == 200
    assert (await api.get("/persons?filter[last_name]=Hopper 7")).ids == ["7"]
    assert (await api.get("/persons?filter[full_name]=Grace Hopper 7")).ids == ["7"]
    assert (await api.get("/persons?filter[last_name][contains]=PER 7&page[size]=1")).ids == ["7"]
    await api.repository.catch_up()
    assert await indexed_fields(database) == FIELDS
    assert await database.persons.count_documents({"full_name": None}) == 0


async def test_queries_of_a_type_without_indexes_count_as_heavy(
    database: Database, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(indexes, "build_indexes", wait)
    await database.computers.insert_many(
        complete_record({"_id": number, "serial": "S"}) for number in (1, 2)
    )
    await database.assignments.insert_many(
        {"_id": number, "since": None, "until": None} for number in (1, 2)
    )
    await fill(database, 10)
    api = await serve(
        catch_up=False, small_collection=1, heavy_requests=1, queue_length=0, queue_seconds=0.001
    )
    async with api.repository.bulkheads.heavy_requests:
        assert (await api.get("/persons?page[size]=2")).status == 200
        assert (await api.get("/persons?page[size]=2&sort=-id")).status == 200
        assert (await api.get("/persons?page[size]=2&sort=last_name")).status == 503
        assert (await api.get("/persons?page[size]=2&filter[email]=a")).status == 503


async def test_indexes_are_built_by_processes_that_start_together(
    database: Database, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "registry")
    await fill(database, 1_000)
    apis = await asyncio.gather(*(serve(catch_up=False, small_collection=1) for _ in range(2)))
    for api in apis:
        await api.repository.catch_up()
    assert await indexed_fields(database) == FIELDS
    assert "Checking the indexes of persons" in caplog.text
    assert "The indexes of persons are complete" in caplog.text


async def test_an_index_under_another_name_is_used(database: Database, serve: Serve) -> None:
    await database.persons.create_index([("last_name", 1), ("_id", 1)], name="own")
    await serve()
    assert "own" in await database.persons.index_information()
    assert await indexed_fields(database) >= FIELDS


@pytest.mark.slow
async def test_a_build_that_another_process_aborts_is_begun_again(mongodb_uri: str) -> None:
    async with mongod_with_fail_points(mongodb_uri) as client:
        database = client.registry
        await fill(database, 10)
        hold = partial(client.admin.command, "configureFailPoint", "hangAfterStartingIndexBuild")
        await hold(mode="alwaysOn")
        builds = list[asyncio.Task[None]]()
        for number in (1, 2):
            builds.append(asyncio.create_task(build_indexes(database, PERSON)))
            assert await eventually(partial(are_building, client, number))
        aborted, completed = builds
        aborted.cancel()
        await asyncio.wait([aborted])
        assert not completed.done()
        await hold(mode="off")
        await completed
        assert await indexed_fields(database) == FIELDS


async def test_a_build_that_fails_is_logged_and_repeated(
    database: Database,
    serve: Serve,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await fill(database, 10)
    key = [("email", 1), ("first_name", 1)]
    await database.persons.create_index(key, name="email_1__id_1")
    api = await serve(catch_up=False, small_collection=1, index_retry_seconds=0.01)
    while "Queries stay slower" not in caplog.text:
        assert (await api.get("/persons/1")).status == 200
    assert "email_1__id_1" in caplog.text
    assert (await api.get("/persons?sort=email")).status == 200
    await database.persons.drop_index("email_1__id_1")
    await api.repository.catch_up()
    assert await indexed_fields(database) == FIELDS


async def test_a_build_with_a_defect_is_logged_and_repeated(
    database: Database,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = [KeyError("a defect")]

    async def fail_once(database: Database, resource: ResourceType) -> None:
        if failures and resource.type == "person":
            raise failures.pop()
        await build_indexes(database, resource)

    monkeypatch.setattr(indexes, "build_indexes", fail_once)
    await fill(database, 10)
    await serve(small_collection=1, index_retry_seconds=0.01)
    assert "KeyError: 'a defect'" in caplog.text
    assert await indexed_fields(database) == FIELDS
