"""The metrics and the health checks that a running service shows."""

import asyncio
import re
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from registry.settings import Settings
from registry.storage.bulkheads import Bulkheads
from tests.conftest import Serve
from tests.support import Api, bulkheads
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]

REQUESTS = "registry_http_request_duration_seconds"


@pytest.fixture
def api(api_on_runner: Api) -> Api:
    """The service on its runner, which counts requests."""
    return api_on_runner


async def scrape(api: Api) -> dict[str, float]:
    """Return the values of all samples by their name and labels."""
    lines = (await api.fetch("/metrics")).text.splitlines()
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


async def test_the_documentation_lists_every_metric_with_its_type_labels_and_meaning(
    api: Api,
) -> None:
    text = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) ?\| (.*) \|$", text, re.MULTILINE)
    listed = {
        name.removesuffix("_total"): (kind, set(re.findall(r"`(\w+)`", labels)), meaning)
        for name, kind, labels, meaning in rows
    }
    written = list(text_string_to_metric_families((await api.fetch("/metrics")).text))
    assert listed.keys() == {family.name for family in written}
    for family in written:
        kind, labels, meaning = listed[family.name]
        assert kind == family.type
        assert meaning == family.documentation[0].lower() + family.documentation[1:].rstrip(".")
        for shown in family.samples:
            assert shown.labels.keys() - {"le"} == labels


async def test_requests_commands_and_batches_are_counted(api: Api) -> None:
    commands = "registry_mongodb_command_duration_seconds_count"
    one = {"route": "/persons/{id}", "method": "GET", "status": "200"}
    created = {"route": "/persons", "method": "POST", "status": "201"}
    find, commit = ({"command": name, "outcome": "success"} for name in ("find", "transaction"))
    for name, labels, request in (
        (f"{REQUESTS}_count", created, api.person()),
        (f"{REQUESTS}_count", one, api.get("/persons/1")),
        (commands, find, api.get("/persons/1")),
        (f"{REQUESTS}_count", one | {"status": "404"}, api.get("/persons/99")),
        (commands, commit, api.person()),
    ):
        assert await increase(api, name, request, **labels) == 1, labels

    async def read() -> None:
        await asyncio.gather(*(api.get("/persons/1") for _ in range(20)))

    assert await increase(api, "registry_batch_size_sum", read(), batch="lookups") == 20
    waits = await increase(api, "registry_batch_wait_seconds_count", read(), batch="lookups")
    assert 1 <= waits < 20


async def test_no_text_of_a_client_becomes_a_label(api: Api) -> None:
    async def probe() -> None:
        for number in range(5):
            await api.get(f"/secret-{number}?secret=1")
            await api.request("REPORT", f"/persons/secret-{number}")

    other = {"route": "/persons/{id}", "method": "other", "status": "405"}
    assert await increase(api, f"{REQUESTS}_count", probe(), **other) == 5
    text = (await api.fetch("/metrics")).text
    assert "secret" not in text
    assert "REPORT" not in text


async def test_queues_are_shown_by_class(serve: Serve) -> None:
    api = await serve(streams=1)
    in_progress, waits = (
        sample(f"registry_bulkhead_{name}", bulkhead="streams")
        for name in ("in_progress", "waiting")
    )
    async with bulkheads(api).streams:
        bulkheads(api).measure()
        assert (await scrape(api))[in_progress] == 1
        waiting = asyncio.create_task(api.get("/persons?filter[email][contains]=x"))
        assert await eventually(lambda: bulkheads(api).streams.waiting)
        bulkheads(api).measure()
        assert (await scrape(api))[waits] == 1
    assert (await waiting).status == 200
    bulkheads(api).measure()
    samples = await scrape(api)
    assert (samples[in_progress], samples[waits]) == (0, 0)


async def test_a_service_is_live_and_ready_even_while_all_bulkheads_are_full(serve: Serve) -> None:
    api = await serve(**dict.fromkeys(Bulkheads.__slots__, 1), queue_seconds=0.001)
    async with AsyncExitStack() as stack:
        for is_full in (False, True):
            for path, method in product(("/health/live", "/health/ready"), ("GET", "HEAD")):
                sent = {"Host": "pod.cluster.example"}  # under any host
                response = await api.fetch(path, method, **sent)
                assert response.status == 200
                assert response.headers["Content-Type"].startswith("application/json")
                assert response.text == ('{"status": "ok"}' if method == "GET" else "")
            assert (await api.get("/persons/1")).status == (503 if is_full else 404)
            if not is_full:
                for name in Bulkheads.__slots__:
                    await stack.enter_async_context(getattr(bulkheads(api), name))


@pytest.mark.parametrize(("length", "reason"), [(0, "length"), (1, "time")])
async def test_refusals_are_counted_by_reason(serve: Serve, length: int, reason: str) -> None:
    api = await serve(streams=1, queue_length=length, queue_seconds=0.001)
    labels = {"bulkhead": "streams", "reason": reason}
    async with bulkheads(api).streams:
        refused = api.get("/persons?filter[email][contains]=x")
        assert await increase(api, "registry_bulkhead_refusals_total", refused, **labels) == 1


async def test_only_the_named_metrics_are_shown(api: Api) -> None:
    text = (await api.fetch("/metrics?name[]=registry_workers")).text
    assert [family.name for family in text_string_to_metric_families(text)] == ["registry_workers"]


async def test_the_format_is_negotiated(api: Api) -> None:
    response = await api.fetch("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert response.headers["Content-Type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")
    response = await api.fetch("/metrics", "HEAD")
    assert (response.status, response.body) == (200, b"")
    assert response.headers["Content-Type"].startswith("text/plain")
    response = await api.fetch("/metrics", "OPTIONS")
    assert (response.status, response.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")


async def test_metrics_are_on_one_port_only(serve: Serve, settings: Settings) -> None:
    api = await serve(settings=replace(settings, metrics_port=0))
    assert (await api.get("/metrics")).status == 404
