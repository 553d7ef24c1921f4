"""scripts/bench: it writes tables and a chart, and fails when the servers do."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from benchmark import load
from benchmark.client import Request
from benchmark.processes import BenchmarkError, all_cores
from benchmark.workloads import TITLES, Workload
from tests.programs import required_program
from tests.system.service import ROOT, descendants, has_exited

pytestmark = pytest.mark.slow

PNG = b"\x89PNG\r\n\x1a\n"

TIMEOUT = 600
"""Seconds for a run of the benchmark; 30 are usual on an idle machine, 190 on a busy one."""

TINY = ("--rounds", "1", "--seconds", "1", "--connections", "2", "--persons", "200")


@pytest.fixture(autouse=True)
def _wrk() -> None:
    required_program("wrk")


@asynccontextmanager
async def benchmark(*arguments: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmark", *TINY, *arguments),
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'scripts'}"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await process.communicate()


def rows(tables: str) -> list[list[str]]:
    """Return the cells of all rows of all tables."""
    lines = [line for line in tables.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


async def test_tables_show_the_selected_workloads_and_a_chart_is_written(tmp_path: Path) -> None:
    names = ("read", "replace", "delete")
    parts = ("--parts", "servers", "production", "growth", "--workloads", *names)
    async with benchmark(*parts, "--output", tmp_path) as process:
        output, errors = await asyncio.wait_for(process.communicate(), timeout=TIMEOUT)
    assert process.returncode == 0, errors
    # A server that is stopped may have requests whose client has just been.
    expected = re.compile(rb" INFO (Stopping: |Set the validator of |Upgrading |The data have )")
    assert all(expected.search(line) for line in errors.splitlines()), errors
    tables = (tmp_path / "benchmark.md").read_text()
    assert "; 1 round; at least 1 s" in tables
    assert tables in output.decode()
    in_production = [row[0] for row in rows(tables) if row[1:2] == ["64"] and len(row) == 11]
    assert in_production == [TITLES[name] for name in names]
    measured = {row[0]: row[2:] for row in rows(tables) if row[1] == "2"}
    assert measured.keys() == {TITLES[name] for name in names}
    assert all(float(cell.replace(",", "")) > 0 for row in measured.values() for cell in row)
    lists = [row[:2] for row in rows(tables) if row[0].startswith("`/persons") and row[1] == "200"]
    assert lists == [["`/persons`", "200"], ["`/persons?include=computers`", "200"]]
    assert (tmp_path / "benchmark.png").read_bytes().startswith(PNG)


async def test_an_interrupt_stops_all_processes_that_it_started(tmp_path: Path) -> None:
    async with benchmark("--output", tmp_path) as process:
        assert process.stdout
        await asyncio.wait_for(process.stdout.readline(), timeout=TIMEOUT)
        started = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, errors = await asyncio.wait_for(process.communicate(), timeout=TIMEOUT)
    assert process.returncode == 130
    assert errors.endswith(b"registry: interrupted\n")
    assert b"Traceback" not in errors
    assert len(started) >= 4  # mongod and three servers
    assert all(map(has_exited, started))


async def test_a_server_that_fails_every_request_ends_the_run(
    aiohttp_server: AiohttpServer, tmp_path: Path
) -> None:
    file, sample = tmp_path / "requests", Request("GET", "/persons/unknown")
    file.write_text("GET\t/persons/unknown\t\n")
    workload = Workload("read", TITLES["read"], file, (sample, sample))
    url = str((await aiohttp_server(web.Application())).make_url("/"))
    with pytest.raises(BenchmarkError, match=r"^read one person, 2 .*'status': [1-9]"):
        await load.measure(url, workload, load.Load(2, 1, 1, all_cores()))
