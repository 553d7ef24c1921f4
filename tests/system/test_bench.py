"""scripts/bench: that it measures what it says, and fails where it cannot."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmark import load, table
from benchmark.client import Request
from benchmark.processes import BenchmarkError, all_cores
from benchmark.samples import Part, Results, Sample
from benchmark.works import TITLES, Work

ROOT = Path(__file__).parents[2]

PNG = b"\x89PNG\r\n\x1a\n"

Serve = Callable[[], Awaitable[str]]

TINY = ("--rounds", "1", "--seconds", "1", "--connections", "2", "--persons", "200")


@pytest.fixture(autouse=True)
def _wrk() -> None:
    if shutil.which("wrk") is None:
        reason = "NO WRK: the benchmark is not run"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


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


def descendants(process: int) -> list[int]:
    """Return the processes that one has started, and those that they have."""
    found = [process]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found[1:]


def alive(processes: Iterable[int]) -> list[int]:
    return [one for one in processes if Path(f"/proc/{one}").exists()]


@pytest.fixture
def serve(aiohttp_server: Callable[[web.Application], Awaitable[TestServer]]) -> Serve:
    """Start a server that knows one person."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    async def start() -> str:
        app = web.Application()
        app.router.add_get("/persons/1", answer)
        return str((await aiohttp_server(app)).make_url("/"))

    return start


async def measure(url: str, directory: Path, *paths: str) -> load.Figures:
    """Load a server with requests of these paths for a second."""
    file = directory / "requests"
    file.write_text("".join(f"GET\t{path}\t\n" for path in paths))
    work = Work("read", TITLES["read"], file, Request("GET", paths[0]))
    return await load.measure(url, work, load.Load(2, 1, 1, all_cores()))


async def test_it_writes_a_table_with_each_work_and_pictures(tmp_path: Path) -> None:
    parts = ("--parts", "servers", "growth", "--works", "read", "replace")
    async with benchmark(*parts, "--output", tmp_path) as process:
        output, errors = await asyncio.wait_for(process.communicate(), timeout=60)
    assert (process.returncode, errors) == (0, b"")
    tables = (tmp_path / "benchmark.md").read_text()
    assert tables in output.decode()
    measured = {row[0]: row[2:] for row in rows(tables) if row[1] == "2"}
    assert measured.keys() == {TITLES["read"], TITLES["replace"]}
    assert all(float(cell.replace(",", "")) > 0 for row in measured.values() for cell in row)
    lists = [row[:2] for row in rows(tables) if row[0].startswith("`/persons") and row[1] == "200"]
    assert lists == [["`/persons`", "200"], ["`/persons?include=computers`", "200"]]
    for name in ("benchmark.png", "growth.png"):
        assert (tmp_path / name).read_bytes().startswith(PNG)


async def test_an_interrupt_ends_all_that_it_has_started(tmp_path: Path) -> None:
    async with benchmark("--output", tmp_path) as process:
        assert process.stdout
        await asyncio.wait_for(process.stdout.readline(), timeout=60)
        started = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, errors = await asyncio.wait_for(process.communicate(), timeout=60)
    assert (process.returncode, errors) == (130, b"registry: interrupted\n")
    assert len(started) >= 4  # mongod and three servers
    assert alive(started) == []


async def test_a_server_that_refuses_all_ends_the_run(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"^read one person, 2 connections .*'status': [1-9]"):
        await measure(await serve(), tmp_path, "/persons/none")


async def test_refused_requests_are_counted_and_shown(serve: Serve, tmp_path: Path) -> None:
    figures = await measure(await serve(), tmp_path, "/persons/1", "/persons/none")
    assert figures.failed
    results = Results("here", [Sample(Part.GROWTH, "2 persons", "read", 2, figures)])
    assert f"({figures.failed:,} failed)" in table.tables(results)


def test_the_readme_has_a_place_for_the_tables() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    before, begin, rest = readme.partition("<!-- benchmark -->\n")
    _, end, after = rest.partition("<!-- end of benchmark -->")
    assert table.inserted(readme, "| new |\n") == f"{before}{begin}\n| new |\n\n{end}{after}"
