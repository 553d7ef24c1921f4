"""Requests: single ones, and many at a time by wrk."""

import asyncio
import os
import ssl
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from subprocess import PIPE
from tempfile import NamedTemporaryFile
from typing import Any

import orjson
from aiohttp import ClientSession, ClientTimeout, hdrs
from yarl import URL

from benchmark.processes import CORES, BenchmarkError, Server
from registry.protocol import MEDIA_TYPE

_SCRIPT = Path(__file__).with_name("requests.lua")

_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Request:
    """A request. path: percent-encoded; body: empty if there is none."""

    method: str
    path: str
    body: bytes = b""


@dataclass(frozen=True)
class Metrics:
    """Throughput and latency.

    rate: successful requests per second; p50, p99: latency percentiles in milliseconds;
    failed: the number of requests that got no response or one with an error status.
    """

    rate: float
    p50: float
    p99: float
    failed: int = 0


async def send(server: Server, request: Request) -> bytes:
    """Return the body of the response. Raises BenchmarkError unless the status is 2xx."""
    headers = {"Accept-Encoding": "identity"}
    if request.body:
        headers[hdrs.CONTENT_TYPE] = MEDIA_TYPE
    if server.token:
        headers[hdrs.AUTHORIZATION] = f"Bearer {server.token}"
    tls = ssl.create_default_context(cafile=server.authority) if server.authority else True
    url = URL(f"{server.url}{request.path}", encoded=True)
    async with (
        ClientSession(timeout=ClientTimeout(total=None)) as session,
        session.request(
            request.method, url, data=request.body or None, headers=headers, ssl=tls
        ) as response,
    ):
        if not response.ok:
            text = (await response.text())[:500]
            raise BenchmarkError(f"{request.method} {url}: {response.status} {text}")
        return await response.read()


async def measure(
    server: Server, requests: list[Request], connections: int, seconds: float
) -> Metrics:
    """Put the server under load for some seconds, or longer if it has not answered by then."""
    report = await _run_wrk(server, requests, connections, seconds)
    succeeded = report["requests"] - report["status"]
    failed = sum(report[name] for name in ("connect", "read", "write", "timeout", "status"))
    if not succeeded and not failed:
        return await measure(server, requests, connections, 2 * seconds)
    rate = 1e6 * succeeded / report["microseconds"]
    return Metrics(rate, report["p50"] / 1e3, report["p99"] / 1e3, failed)


async def _run_wrk(
    server: Server, requests: list[Request], connections: int, seconds: float
) -> dict[str, Any]:
    """Return what requests.lua reports."""
    with NamedTemporaryFile("wb", suffix=".requests") as file:
        file.writelines(
            b"%b\t%b\t%b\n" % (request.method.encode(), request.path.encode(), request.body)
            for request in requests
        )
        file.flush()
        process = await asyncio.create_subprocess_exec(
            *("wrk", "--threads", "1", "--connections", str(connections)),
            *("--duration", f"{ceil(seconds)}s", "--timeout", f"{_TIMEOUT_SECONDS}s"),
            *("--script", str(_SCRIPT), server.url, "--", file.name),
            *([server.token] if server.token else []),
            stdout=PIPE,
            start_new_session=True,
        )
        try:
            os.sched_setaffinity(process.pid, CORES[-1:])
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        raise BenchmarkError(f"wrk failed: {output.decode()}")
    report: dict[str, Any] = orjson.loads(output.splitlines()[-1])
    return report
