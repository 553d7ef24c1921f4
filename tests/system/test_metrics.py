"""The metrics of several workers, and the port of their own."""

import os
import re
import signal
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from tests.system.conftest import Start
from tests.system.service import (
    COMMAND,
    TIMEOUT,
    TWO,
    Service,
    create_persons,
    environment,
    eventually,
    run_command,
    workers_of,
)

CREATED = (
    'registry_http_request_duration_seconds_count{method="POST",route="/persons",status="201"}'
)


def scrape(url: str) -> dict[str, float]:
    with urlopen(url, timeout=TIMEOUT) as response:  # noqa: S310 - http
        lines = response.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def metrics_url(service: Service) -> str:
    """Return the URL in the line of the start, which is on the same host."""
    match = re.search(r"\. Metrics: (\S+)$", service.announcement)
    assert match
    assert urlsplit(match[1]).hostname == urlsplit(service.url).hostname
    return match[1]


def test_the_metrics_of_workers_are_added_up_and_survive_a_worker(
    start: Start, mongodb_uri: str
) -> None:
    service = start(*TWO, "--metrics-port", "0", mongodb_uri=mongodb_uri)
    url = metrics_url(service)
    create_persons(service, 40)
    assert eventually(lambda: scrape(url).get(CREATED) == 40)
    assert scrape(url)["registry_workers"] == 2
    first, _ = workers_of(service)
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: first not in workers_of(service) and len(workers_of(service)) == 2)
    assert eventually(lambda: scrape(url)["registry_workers_ready"] == 2)
    assert scrape(url)["registry_workers"] == 2
    assert scrape(url)[CREATED] == 40
    create_persons(service, 2)
    assert eventually(lambda: scrape(url)[CREATED] == 42)


@pytest.mark.slow
def test_every_worker_shows_the_sums_on_the_port_of_the_api(start: Start) -> None:
    service = start(*TWO)
    create_persons(service, 40)
    # Each on a connection of its own: some are for either worker.
    assert eventually(
        lambda: {scrape(service.url + "/metrics").get(CREATED) for _ in range(10)} == {40.0}
    )


@pytest.mark.slow
def test_the_metrics_show_the_last_backup_and_the_state_of_the_machine(
    start: Start, tmp_path: Path
) -> None:
    service = start("--metrics-port", "0", PROMETHEUS_MULTIPROC_DIR="/of/another/program")
    url, began = metrics_url(service), int(time.time())
    samples = scrape(url)
    assert samples["registry_last_backup_timestamp_seconds"] == 0
    assert samples[f'registry_disk_free_bytes{{directory="{service.data_dir / "mongodb"}"}}'] > 0
    assert samples["process_resident_memory_bytes"] > 2**24
    assert samples["process_cpu_seconds_total"] > 0
    backup = ("backup", "--data-dir", service.data_dir, tmp_path / "file")
    assert run_command([*COMMAND, *backup], environment()).returncode == 0
    name = "registry_last_backup_timestamp_seconds"
    assert eventually(lambda: scrape(url)[name] >= began)
