"""The health checks of a running service."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from registry.storage.bulkheads import Bulkheads
from tests.conftest import Serve
from tests.support import Api

PATHS = ["/health/live", "/health/ready"]


async def check(api: Api, method: str, path: str) -> tuple[int, str, str]:
    async with api.client.request(method, path) as response:
        return response.status, response.headers["Content-Type"], await response.text()


async def test_a_service_with_a_primary_is_live_and_ready(api: Api) -> None:
    for path in PATHS:
        status, media_type, text = await check(api, "GET", path)
        assert (status, text) == (200, '{"status": "ok"}')
        assert media_type.partition(";")[0] == "application/json"
        assert await check(api, "HEAD", path) == (200, media_type, "")


async def test_a_service_is_ready_while_all_bulkheads_are_full(serve: Serve) -> None:
    api = await serve(**dict.fromkeys(Bulkheads.__slots__, 1), queue_seconds=0.001)
    bulkheads = api.repository.bulkheads
    async with AsyncExitStack() as stack:
        for name in bulkheads.__slots__:
            await stack.enter_async_context(getattr(bulkheads, name))
        assert (await api.get("/persons/1")).status == 503
        assert (await check(api, "GET", "/health/ready"))[0] == 200


@pytest.mark.parametrize("path", PATHS)
async def test_a_check_is_answered_under_any_host(api: Api, path: str) -> None:
    async with api.client.get(path, headers={"Host": "pod.cluster.example"}) as response:
        assert response.status == 200
