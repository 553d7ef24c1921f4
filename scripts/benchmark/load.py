"""The load generator: wrk, with the requests of a workload."""

import asyncio
import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import orjson

from benchmark.processes import BenchmarkError
from benchmark.workloads import Workload

_SCRIPT = Path(__file__).with_name("requests.lua")

_TIMEOUT_SECONDS = 120

_FAILURES = ("connect", "read", "write", "timeout", "status")


@dataclass(frozen=True)
class Metrics:
    """The throughput and latency that wrk measured.

    rate: successful requests per second; p50, p99: latency percentiles in milliseconds;
    failed: the number of requests that got no response or one with an error status.
    """

    rate: float
    p50: float
    p99: float
    failed: int = 0


@dataclass(frozen=True)
class Load:
    """The load on a server.

    seconds: duration, extended until there is a response; seed: determines the random choice of
    requests; cores: where the single thread of wrk runs; token: an access token, if one is needed.
    """

    connections: int
    seconds: float
    seed: int
    cores: Collection[int]
    token: str | None = None


async def measure(url: str, workload: Workload, load: Load) -> Metrics:
    """Put the server at this URL under load. Raises BenchmarkError if no request succeeds."""
    report = await run(url, workload, load)
    succeeded = report["requests"] - report["status"]
    failed = sum(report[name] for name in _FAILURES)
    if not succeeded and failed:
        raise BenchmarkError(f"{workload.title}, {load.connections} connections at {url}: {report}")
    if not succeeded:
        return await measure(url, workload, replace(load, seconds=2 * load.seconds))
    rate = 1e6 * succeeded / report["microseconds"]
    return Metrics(rate, report["p50"] / 1e3, report["p99"] / 1e3, failed)


async def run(url: str, workload: Workload, load: Load) -> dict[str, Any]:
    """Put the server at this URL under load; return what requests.lua reports."""
    token = [] if load.token is None else [load.token]
    process = await asyncio.create_subprocess_exec(
        *("wrk", "--threads", "1", "--connections", str(load.connections)),
        *("--duration", f"{ceil(load.seconds)}s", "--timeout", f"{_TIMEOUT_SECONDS}s"),
        *("--script", str(_SCRIPT), url, "--", str(workload.file), str(load.seed), *token),
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
        raise BenchmarkError(f"wrk failed: {output.decode()}")
    report: dict[str, Any] = orjson.loads(output.splitlines()[-1])
    return report
