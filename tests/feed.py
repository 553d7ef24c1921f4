"""A follower of the change feed, as tests need it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import ClientResponse

from tests.support import Api

SECONDS = 60.0
"""How long a test waits for an event: a few milliseconds are usual on an idle machine."""


@dataclass(frozen=True)
class Event:
    """A server-sent event. name: `message` by default. id: that of this event, "" without one."""

    name: str
    id: str
    data: Any


class Stream:
    """The events of a response. position: the last id."""

    def __init__(self, response: ClientResponse) -> None:
        self.response = response
        self.position = ""

    async def next(self) -> Event:
        """Return the next event. Raises EOFError at the end."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(SECONDS):
            while line := (await self.response.content.readline()).decode():
                name, _, value = line.rstrip("\n").partition(":")
                if line == "\n" and "data" in fields:
                    event = Event(
                        fields.get("event", "message"),
                        fields.get("id", ""),
                        orjson.loads(fields["data"]),
                    )
                    self.position = event.id or self.position
                    return event
                if name:
                    fields[name] = value.removeprefix(" ")
        raise EOFError

    async def changes(self, number: int) -> list[Any]:
        """Return the operations of so many events, without positions."""
        found: list[Any] = []
        while len(found) < number:
            event = await self.next()
            if event.name == "message":
                found.append(event.data)
        return found

    async def ids(self, number: int) -> list[str]:
        """Return the ids of the resources that so many events add or update."""
        return [change["data"]["id"] for change in await self.changes(number)]


@asynccontextmanager
async def following(
    api: Api, query: str = "", after: str | None = None, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Stream]:
    """Follow the feed. after: sent as `Last-Event-ID`."""
    sent = {"Accept": "text/event-stream", **(headers or {})}
    if after is not None:
        sent["Last-Event-ID"] = after
    async with api.client.get(f"/changes{query}", headers=sent) as response:
        assert response.status == 200, await response.text()
        assert response.headers["Content-Type"] == "text/event-stream"
        stream = Stream(response)
        assert (await stream.next()).name == "position"
        yield stream
