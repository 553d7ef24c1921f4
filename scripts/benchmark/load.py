"""The load: wrk with the requests of a work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import orjson

from benchmark.processes import BenchmarkError
from benchmark.works import Work

_SCRIPT = Path(__file__).with_name("requests.lua")

_FAILURES = ("connect", "read", "write", "timeout", "status")


@dataclass(frozen=True)
class Figures:
    """What wrk measured: requests a second, and the times of half and 99 % of them in ms."""

    rate: float
    p50: float
    p99: float


async def measure(
    url: str, work: Work, connections: int, seconds: float, seed: int, cores: Collection[int]
) -> Figures:
    """Load a server with a work, from one thread on these cores.

    The same seed picks the same requests. Raises BenchmarkError if one fails.
    """
    process = await asyncio.create_subprocess_exec(
        *("wrk", "--threads", "1", "--connections", str(connections)),
        *("--duration", f"{ceil(seconds)}s", "--timeout", "120s", "--script", str(_SCRIPT), url),
        *("--", str(work.file), str(seed)),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        os.sched_setaffinity(process.pid, cores)
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    found = orjson.loads(output.splitlines()[-1] if process.returncode == 0 else b"{}")
    if not found or not found["requests"] or any(found[name] for name in _FAILURES):
        raise BenchmarkError(
            f"{work.title}, {connections} connections, {url}: failures in {output.decode()}"
        )
    return Figures(
        1e6 * found["requests"] / found["microseconds"], found["p50"] / 1e3, found["p99"] / 1e3
    )
