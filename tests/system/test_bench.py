"""scripts/bench prints tables, and fails when the servers do."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from benchmark.load import Request, measure
from benchmark.processes import Server
from benchmark.workloads import COMPARED
from tests.programs import required_program
from tests.system.service import ROOT, descendants, has_exited

pytestmark = pytest.mark.slow

TIMEOUT = 600
"""Seconds for a run of the benchmark; 30 are usual on an idle machine, 190 on a busy one."""

TINY = ("--seconds", "1", "--persons", "200", "400")


@pytest.fixture(autouse=True)
def _wrk() -> None:
    required_program("wrk")


@asynccontextmanager
async def benchmark(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
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


async def test_tables_show_each_workload_of_the_selected_parts() -> None:
    async with benchmark("--parts", "servers", "growth") as process:
        output, errors = await asyncio.wait_for(process.communicate(), timeout=TIMEOUT)
    # Goals may be missed on a busy machine.
    assert process.returncode == 0 or errors.endswith(b"goals are missed: see the tables\n"), errors
    tables = rows(output.decode())
    rates = {row[0]: row[1:5] for row in tables if row[0] in COMPARED and len(row) == 10}
    assert rates.keys() == set(COMPARED)
    assert all(float(cell.replace(",", "")) > 0 for row in rates.values() for cell in row)
    assert ["workload", "200 persons", "400 persons", "last / first", "goal"] in tables


async def test_an_interrupt_stops_all_processes_that_it_started() -> None:
    async with benchmark() as process:
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


async def test_requests_that_fail_are_counted(aiohttp_server: AiohttpServer) -> None:
    url = str((await aiohttp_server(web.Application())).make_url("/"))
    metrics = await measure(Server(url, os.getpid()), [Request("GET", "/unknown")], 2, 1)
    assert metrics.rate == 0
    assert metrics.failed > 0
