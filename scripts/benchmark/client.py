"""A client that sends single requests: to check answers, and to read long ones."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout
from yarl import URL

from benchmark.processes import BenchmarkError
from registry.jsonapi.content_negotiation import MEDIA_TYPE


@dataclass(frozen=True)
class Request:
    """A request; no body, no bytes."""

    method: str
    path: str
    body: bytes = b""


@dataclass(frozen=True)
class Reading:
    """How long a request took, and the length of its answer."""

    seconds: float
    bytes: int


class Client:
    """A client of one server. Its methods raise BenchmarkError if the answer is no success."""

    def __init__(self, url: str, session: ClientSession) -> None:
        self.url = url
        self._session = session

    async def send(self, request: Request) -> bytes:
        """Return the body of the answer."""
        async with self._answer(request) as response:
            return await response.read()

    async def read(self, request: Request) -> Reading:
        """Read the answer piece by piece and forget it."""
        started, length = time.perf_counter(), 0
        async with self._answer(request) as response:
            async for piece in response.content.iter_any():
                length += len(piece)
        return Reading(time.perf_counter() - started, length)

    @asynccontextmanager
    async def _answer(self, request: Request) -> AsyncIterator[ClientResponse]:
        headers = {"Accept-Encoding": "identity", "Content-Type": MEDIA_TYPE}
        # The path is encoded as it has to be.
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
async def client_of(url: str) -> AsyncIterator[Client]:
    """Open a client."""
    async with ClientSession(timeout=ClientTimeout(total=None)) as session:
        yield Client(url, session)
