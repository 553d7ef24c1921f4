"""Requests whose database or client is gone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from registry.mongod import embedded
from registry.settings import Settings
from tests.conftest import Serve
from tests.storage.waiting import eventually
from tests.support import Api, Database, open_cursors


@pytest.mark.slow
async def test_the_service_responds_503_when_its_database_is_gone(
    serve: Serve, settings: Settings, tmp_path: Path
) -> None:
    own = replace(settings, data_dir=tmp_path)
    async with embedded.mongod(own) as uri:
        api = await serve(settings=replace(own, mongodb_uri=uri))
        await api.person()
    responses = await asyncio.gather(
        api.get("/persons"),
        api.get("/persons/1"),
        api.post("/computers", {"type": "computer", "attributes": {"serial": "SN-1"}}),
        api.patch("/persons/1", {"type": "person", "attributes": {"first_name": "G"}}),
        api.set_computers("1"),
    )
    for response in responses:
        assert response.status == 503
        assert response.document["errors"][0]["code"] == "unavailable"
        assert int(response.headers["Retry-After"]) > 0


async def test_a_disconnected_client_ends_its_query(api: Api, database: Database) -> None:
    await database.computers.insert_many(
        {"_id": number, "serial": "x" * 255, "person": None} for number in range(1, 60_001)
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(b"GET /computers HTTP/1.1\r\nHost: h\r\n\r\n")
    await reader.readexactly(1_000)
    assert await eventually(partial(has_open_cursors, database, 1))
    writer.close()
    assert await eventually(partial(has_open_cursors, database, 0))


async def has_open_cursors(database: Database, count: int) -> bool:
    return await open_cursors(database) == count
