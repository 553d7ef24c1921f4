"""The metrics that a running service shows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from registry.settings import Settings
from tests.conftest import Serve
from tests.storage.test_overload import bulkheads
from tests.support import Api

REQUESTS = "registry_http_request_duration_seconds"


async def scrape(api: Api) -> dict[str, float]:
    """Return the values of all samples by their name and labels."""
    async with api.client.get("/metrics") as response:
        assert response.status == 200
        lines = (await response.text()).splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {sample: float(value) for sample, _, value in pairs}


def sample(name: str, **labels: str) -> str:
    """Return a sample as it is written."""
    pairs = (f'{key}="{labels[key]}"' for key in sorted(labels))
    return f"{name}{{{','.join(pairs)}}}"


async def increase(api: Api, name: str, act: object, **labels: str) -> float:
    """Return by how much a sample rises while a coroutine runs."""
    before = (await scrape(api)).get(sample(name, **labels), 0.0)
    await act  # type: ignore[misc] # a coroutine
    return (await scrape(api))[sample(name, **labels)] - before


async def test_requests_are_counted_by_route_method_and_status(api: Api) -> None:
    found = {"route": "/persons/{id}", "method": "GET", "status": "200"}
    id_ = await api.person()
    assert await increase(api, f"{REQUESTS}_count", api.get(f"/persons/{id_}"), **found) == 1
    missing = found | {"status": "404"}
    assert await increase(api, f"{REQUESTS}_count", api.get("/persons/99"), **missing) == 1
    created = {"route": "/persons", "method": "POST", "status": "201"}
    assert await increase(api, f"{REQUESTS}_count", api.person(), **created) == 1


async def test_no_text_of_a_client_becomes_a_label(api: Api) -> None:
    async def probe() -> None:
        for number in range(5):
            await api.get(f"/secret-{number}?secret=1")
            await api.request("REPORT", f"/persons/secret-{number}")

    other = {"route": "/persons/{id}", "method": "other", "status": "405"}
    assert await increase(api, f"{REQUESTS}_count", probe(), **other) == 5
    async with api.client.get("/metrics") as response:
        text = await response.text()
    assert "secret" not in text
    assert "REPORT" not in text


async def test_a_batch_counts_once_with_its_size(api: Api) -> None:
    id_ = await api.person()

    async def read() -> None:
        await asyncio.gather(*(api.get(f"/persons/{id_}") for _ in range(20)))

    assert await increase(api, "registry_batch_size_sum", read(), batch="lookups") == 20
    assert (
        1 <= await increase(api, "registry_batch_wait_seconds_count", read(), batch="lookups") < 20
    )


async def test_the_commands_of_requests_are_counted(api: Api) -> None:
    count, person = "registry_mongodb_command_duration_seconds_count", api.person()
    assert await increase(api, count, person, command="insert", outcome="success") == 1
    found = {"command": "find", "outcome": "success"}
    assert await increase(api, count, api.get("/persons/1"), **found) == 1
    removed = api.request("DELETE", "/persons/1")
    assert await increase(api, count, removed, command="transaction", outcome="success") == 1


async def test_queues_are_shown_by_class(serve: Serve) -> None:
    api = await serve(streams=1)
    in_progress, waits = (
        sample(f"registry_bulkhead_{name}", bulkhead="streams")
        for name in ("in_progress", "waiting")
    )
    async with bulkheads(api).streams:
        assert (await scrape(api))[in_progress] == 1
        waiting = asyncio.create_task(api.get("/persons"))
        while not bulkheads(api).streams._waiting:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)
        assert (await scrape(api))[waits] == 1
    assert (await waiting).status == 200
    samples = await scrape(api)
    assert (samples[in_progress], samples[waits]) == (0, 0)


@pytest.mark.parametrize(("length", "reason"), [(0, "length"), (1, "time")])
async def test_refusals_are_counted_by_reason(serve: Serve, length: int, reason: str) -> None:
    api = await serve(streams=1, queue_length=length, queue_seconds=0.001)
    labels = {"bulkhead": "streams", "reason": reason}
    async with bulkheads(api).streams:
        refused = api.get("/persons")
        assert await increase(api, "registry_bulkhead_refusals_total", refused, **labels) == 1


async def test_the_format_is_negotiated(api: Api) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with api.client.get("/metrics", headers=accept) as response:
        assert response.content_type == "application/openmetrics-text"
        assert (await response.text()).endswith("# EOF\n")
    async with api.client.head("/metrics") as response:
        assert (response.status, await response.text()) == (200, "")
        assert response.content_type == "text/plain"
    async with api.client.options("/metrics") as response:
        assert (response.status, response.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")


async def test_metrics_are_on_one_port_only(serve: Serve, settings: Settings) -> None:
    api = await serve(settings=replace(settings, metrics_port=0))
    assert (await api.get("/metrics")).status == 404
