"""A client that sends single requests, to check their responses and to time them."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from statistics import quantiles

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    TCPConnector,
    hdrs,
)
from yarl import URL

from benchmark.processes import BenchmarkError, Server
from registry.protocol import EXTENSION, media_type

_PAUSE_SECONDS = 0.01
"""Between repeated requests, so that they measure the latency and not the throughput."""


@dataclass(frozen=True)
class Request:
    """A request. path: percent-encoded; body: empty if there is none."""

    method: str
    path: str
    body: bytes = b""

    @property
    def content_type(self) -> str:
        """The media type of the body, as in requests.lua."""
        return media_type(EXTENSION if self.path == "/operations" else None)


@dataclass(frozen=True)
class Download:
    """The duration of a request and the size of its response body."""

    seconds: float
    bytes: int


@dataclass(frozen=True)
class Latencies:
    """The latency of requests in milliseconds. failed: those without a response of status 2xx."""

    p50: float
    p99: float
    failed: int


class Client:
    """A client of one server.

    Its methods, except `repeat`, raise BenchmarkError unless the status is 2xx.
    """

    def __init__(self, url: str, session: ClientSession) -> None:
        self.url = url
        self._session = session

    async def send(self, request: Request) -> bytes:
        """Return the body of the response."""
        async with self._response(request) as response:
            return await response.read()

    async def download(self, request: Request) -> Download:
        """Read the response in chunks without keeping them."""
        started, length = time.perf_counter(), 0
        async with self._response(request) as response:
            async for chunk in response.content.iter_any():
                length += len(chunk)
        return Download(time.perf_counter() - started, length)

    async def repeat(self, requests: Sequence[Request], seconds: float) -> Latencies:
        """Send the requests one after another, again and again; return their latencies."""
        latencies, failed, end = list[float](), 0, time.perf_counter() + seconds
        for request in cycle(requests):
            started = time.perf_counter()
            try:
                await self.send(request)
            except BenchmarkError:
                failed += 1
            latencies.append(1e3 * (time.perf_counter() - started))
            # At least two, of which there are percentiles.
            if len(latencies) > 1 and time.perf_counter() >= end:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        percentiles = quantiles(latencies, n=100, method="inclusive")
        return Latencies(percentiles[49], percentiles[98], failed)

    @asynccontextmanager
    async def _response(self, request: Request) -> AsyncIterator[ClientResponse]:
        headers = {"Accept-Encoding": "identity", "Content-Type": request.content_type}
        url = URL(f"{self.url}{request.path}", encoded=True)
        try:
            async with self._session.request(
                request.method, url, data=request.body or None, headers=headers
            ) as response:
                if not response.ok:
                    text = (await response.text())[:500]
                    raise BenchmarkError(f"{request.method} {url}: {response.status} {text}")
                yield response
        except ClientError as error:
            raise BenchmarkError(f"{request.method} {url}: {error}") from error


@asynccontextmanager
async def open_client(server: Server) -> AsyncIterator[Client]:
    """Open a client of the server, without a time limit."""
    headers, connector = {}, TCPConnector()
    if server.access is not None:
        headers[hdrs.AUTHORIZATION] = f"Bearer {server.access.token}"
        connector = TCPConnector(ssl=ssl.create_default_context(cafile=server.access.authority))
    async with ClientSession(
        connector=connector, headers=headers, timeout=ClientTimeout(total=None)
    ) as session:
        yield Client(server.url, session)
