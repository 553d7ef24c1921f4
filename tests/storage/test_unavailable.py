"""Requests whose database or client is gone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from registry.mongod import embedded
from registry.settings import Settings
from tests.conftest import Serve


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
