"""The load: wrk with the requests of a work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import orjson

from benchmark.processes import BenchmarkError
from benchmark.works import Work

_SCRIPT = Path(__file__).with_name("requests.lua")

_TIMEOUT_SECONDS = 120

_FAILURES = ("connect", "read", "write", "timeout", "status")


@dataclass(frozen=True)
class Figures:
    """What wrk measured: requests a second, and the times of half and 99 % of them in ms.

    failed: how many were refused or not answered; they are not in the rate.
    """

    rate: float
    p50: float
    p99: float
    failed: int = 0


@dataclass(frozen=True)
class Load:
    """How to load a server. seconds: for how long, or longer until there is an answer.

    seed: the same one picks the same requests. cores: of the one thread that sends them.
    """

    connections: int
    seconds: float
    seed: int
    cores: Collection[int]


async def measure(url: str, work: Work, load: Load) -> Figures:
    """Load a server with a work. Raises BenchmarkError if no request succeeds."""
    found = await _run(url, work, load)
    done = found["requests"] - found["status"]
    failed = sum(found[name] for name in _FAILURES)
    if not done and failed:
        raise BenchmarkError(f"{work.title}, {load.connections} connections at {url}: {found}")
    if not done:
        return await measure(url, work, replace(load, seconds=2 * load.seconds))
    rate = 1e6 * done / found["microseconds"]
    return Figures(rate, found["p50"] / 1e3, found["p99"] / 1e3, failed)


async def _run(url: str, work: Work, load: Load) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *("wrk", "--threads", "1", "--connections", str(load.connections)),
        *("--duration", f"{ceil(load.seconds)}s", "--timeout", f"{_TIMEOUT_SECONDS}s"),
        *("--script", str(_SCRIPT), url, "--", str(work.file), str(load.seed)),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        os.sched_setaffinity(process.pid, load.cores)
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise BenchmarkError(f"wrk has failed: {output.decode()}")
    found: dict[str, Any] = orjson.loads(output.splitlines()[-1])
    return found
