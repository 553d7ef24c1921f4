"""Concurrent clients of the service, whose requests and responses are recorded."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import ClientError, ClientSession, TCPConnector
from yarl import URL

from tests.consistency.checker import Rules
from tests.consistency.history import Call, Identity
from tests.support import MEDIA_TYPE

OPERATIONS = f'{MEDIA_TYPE}; ext="https://jsonapi.org/ext/atomic"'

UNCHANGED = 1100
"""Computers that no client changes, so many that the whole collection takes several queries."""


@dataclass(frozen=True)
class Fleet:
    """The resources that clients read and write, by what they do with them.

    coded: with the computers that the name of each says. replaced: a person whose links are
    replaced at its relationship, and the computers. together: changed by one request.
    in_turn: changed one after another. tagged: changed with `If-Match`. persons, computers:
    their links are changed from both sides.
    """

    coded: dict[str, list[str]]
    replaced: tuple[str, list[str]]
    together: list[Identity]
    in_turn: list[str]
    tagged: list[str]
    persons: list[str]
    computers: list[str]

    @property
    def rules(self) -> Rules:
        return Rules(self.coded, frozenset({self.replaced[0]}), [frozenset(self.together)])


class Client:
    """A client with connections of its own, that waits for each response."""

    def __init__(self, origin: str, history: list[Call], number: int) -> None:
        self.random = random.Random(number)  # noqa: S311 - which requests are sent
        self._origin = origin
        self._history = history
        # A new connection may lead to another worker.
        connector = TCPConnector(force_close=number % 2 == 0)
        self._session = ClientSession(connector=connector)

    async def close(self) -> None:
        await self._session.close()

    async def get(self, url: str, paging: int | None = None) -> Call:
        return await self.request("GET", url, paging=paging)

    async def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        if_match: str | None = None,
        paging: int | None = None,
    ) -> Call:
        """Send a request and record it."""
        headers = {"Content-Type": OPERATIONS if url == "/operations" else MEDIA_TYPE}
        if if_match:
            headers["If-Match"] = if_match
        target = URL(self._origin + url, encoded=True)
        content = orjson.dumps(body) if body else None
        start = time.monotonic()
        status, tag, received = None, None, b""
        try:
            async with self._session.request(
                method, target, data=content, headers=headers
            ) as response:
                received = await response.read()
                status, tag = response.status, response.headers.get("ETag")
        except ClientError:
            status = None
        end = time.monotonic()
        document = orjson.loads(received) if received and status else None
        outcome = None if status == 503 else status
        call = Call(start, end, method, url, outcome, body, document, tag, if_match, paging)
        self._history.append(call)
        return call


_numbers = itertools.count(1)


def marker(code: int | None = None) -> str:
    """Return a value that no other write has, with the code of a set of computers."""
    number = next(_numbers)
    return str(number) if code is None else f"{number}-{code}"


def _resource(identity: Identity, attributes: Any = None, **links: Any) -> dict[str, Any]:
    relationships = {name: {"data": data} for name, data in links.items()}
    return {
        "type": identity[0],
        "id": identity[1],
        **({"attributes": attributes} if attributes else {}),
        **({"relationships": relationships} if relationships else {}),
    }


def _computers(ids: Sequence[str]) -> list[dict[str, str]]:
    return [{"type": "computer", "id": id_} for id_ in ids]


def _attributes(kind: str) -> dict[str, str]:
    if kind == "computer":
        return {"serial": marker()}
    return {"first_name": "-", "last_name": marker(0)}


async def prepare(client: Client) -> Fleet:
    """Create the fleet; half of the computers have higher ids than the unchanged ones."""

    async def add(kind: str, count: int) -> list[str]:
        data = [{"type": kind, "attributes": _attributes(kind)} for _ in range(count)]
        operations = [{"op": "add", "data": one} for one in data]
        ids: list[str] = []
        for at in range(0, count, 1000):  # the maximum of one request
            body = {"atomic:operations": operations[at : at + 1000]}
            call = await client.request("POST", "/operations", body)
            assert call.succeeded, call
            ids += [one["id"] for one in call.primary]
        return ids

    persons, before = await add("person", 40), await add("computer", 12)
    await add("computer", UNCHANGED)
    after = await add("computer", 12)
    computers = [id_ for pair in zip(before, after, strict=True) for id_ in pair]
    fleet = Fleet(
        coded={persons[0]: computers[0:4], persons[1]: computers[4:8]},
        replaced=(persons[2], computers[8:12]),
        together=[("person", persons[3]), *(("computer", one) for one in computers[12:14])],
        in_turn=computers[14:18],
        tagged=persons[4:6],
        persons=persons[6:9],
        computers=computers[18:24],
    )
    await _change_together(client, fleet)  # their markers are equal from now on
    return fleet


Step = Callable[[Client, Fleet], Awaitable[None]]


async def _change_coded(client: Client, fleet: Fleet) -> None:
    person = client.random.choice([*fleet.coded])
    code = client.random.randrange(16)
    owned = [one for bit, one in enumerate(fleet.coded[person]) if code >> bit & 1]
    data = _resource(("person", person), {"last_name": marker(code)}, computers=_computers(owned))
    include = client.random.choice(["", "?include=computers", "?include=computers.owner"])
    await client.request("PATCH", f"/persons/{person}{include}", {"data": data})


async def _replace(client: Client, fleet: Fleet) -> None:
    person, computers = fleet.replaced
    owned = client.random.sample(computers, client.random.randrange(len(computers) + 1))
    path = f"/persons/{person}/relationships/computers"
    await client.request("PATCH", path, {"data": _computers(owned)})
    related = f"/persons/{person}/computers?include=owner"
    await client.get(client.random.choice([path, f"{path}?include=computers.owner", related]))


async def _change_together(client: Client, fleet: Fleet) -> None:
    value = marker()
    objects = [
        _resource(one, {"last_name" if one[0] == "person" else "serial": value})
        for one in fleet.together
    ]
    operations = [{"op": "update", "data": data} for data in objects]
    await client.request("POST", "/operations", {"atomic:operations": operations})


async def _change_in_turn(client: Client, fleet: Fleet) -> None:
    for id_ in fleet.in_turn:
        data = _resource(("computer", id_), {"serial": marker()})
        await client.request("PATCH", f"/computers/{id_}", {"data": data})


async def _rename(client: Client, fleet: Fleet) -> None:
    """Change attributes, and show links that others change."""
    person = client.random.choice(fleet.persons)
    data = _resource(("person", person), {"last_name": marker(0)})
    await client.request("PATCH", f"/persons/{person}?include=computers.owner", {"data": data})


async def _move(client: Client, fleet: Fleet) -> None:
    """Change links from either side."""
    person, computer = client.random.choice(fleet.persons), client.random.choice(fleet.computers)
    linkage = f"/persons/{person}/relationships/computers"
    owned = client.random.sample(fleet.computers, 2)
    match client.random.randrange(5):
        case 0 | 1:
            owner = client.random.choice([None, {"type": "person", "id": person}])
            data = _resource(("computer", computer), {"serial": marker()}, owner=owner)
            url = f"/computers/{computer}?include=owner.computers"
            await client.request("PATCH", url, {"data": data})
        case 2:
            data = _resource(("person", person), computers=_computers(owned))
            url = f"/persons/{person}?include=computers.owner"
            await client.request("PATCH", url, {"data": data})
        case 3:
            await client.request("POST", linkage, {"data": _computers(owned)})
        case 4:
            await client.request("DELETE", linkage, {"data": _computers(owned)})


async def _create_and_delete(client: Client, fleet: Fleet) -> None:
    owner = {"type": "person", "id": client.random.choice(fleet.persons)}
    computer = _resource(("computer", ""), _attributes("computer"), owner=owner)
    created = await client.request("POST", "/computers?include=owner.computers", {"data": computer})
    identifiers = _computers(client.random.sample(fleet.computers, 1))
    if created.target:
        identifiers += _computers([created.target[1]])
    person = _resource(("person", ""), _attributes("person"), computers=identifiers)
    kept = await client.request("POST", "/persons?include=computers", {"data": person})
    for call in (kept, created):
        if call.target:
            path = f"/{call.target[0]}s/{call.target[1]}"
            await client.request("DELETE", path)
            await client.get(path)


async def _change_tagged(client: Client, fleet: Fleet) -> None:
    person = client.random.choice(fleet.tagged)
    read = await client.get(f"/persons/{person}")
    data = _resource(("person", person), {"last_name": marker(0)})
    await client.request("PATCH", f"/persons/{person}", {"data": data}, if_match=read.tag)


async def _read(client: Client, fleet: Fleet) -> None:
    coded, group = client.random.choice([*fleet.coded]), [*fleet.coded, *fleet.persons]
    person = client.random.choice([*group, *group, fleet.replaced[0], *fleet.tagged])
    pool = [*fleet.coded[coded], *fleet.computers, *fleet.in_turn]
    computer = client.random.choice(pool)
    paths = [
        f"/persons/{person}",
        f"/persons/{person}?include=computers",
        f"/persons/{person}?include=computers.owner",
        f"/persons/{coded}?include=computers",
        f"/persons/{person}/relationships/computers",
        f"/persons/{person}/relationships/computers?include=computers.owner",
        f"/persons/{person}/computers?include=owner",
        f"/computers/{computer}",
        f"/computers/{computer}?include=owner",
        f"/computers/{computer}?include=owner.computers",
        "/persons?include=computers",
        "/persons?include=computers.owner",
        "/persons?page[number]=1&page[size]=1000&include=computers",
        "/persons?sort=last_name",
    ]
    await client.get(client.random.choice(paths))


async def _read_whole(client: Client, fleet: Fleet) -> None:  # noqa: ARG001 - a Step
    url = client.random.choice(["/computers", "/computers?include=owner"])
    await client.get(url)


_pagings = itertools.count()


async def _page_through(client: Client, fleet: Fleet) -> None:  # noqa: ARG001 - a Step
    order, paging = client.random.choice(["", "&sort=last_name", "&sort=-id"]), next(_pagings)
    url = f"/persons?page[size]=7{order}"
    while url:
        page = await client.get(url, paging)
        if not page.succeeded:
            break
        url = (page.document["links"]["next"] or "").partition("/persons")[2]
        url = url and f"/persons{url}"


CLIENTS: Sequence[tuple[Step, int, int]] = (
    (_change_coded, 4, 50),
    (_replace, 2, 20),
    (_change_together, 1, 25),
    (_change_in_turn, 1, 20),
    (_rename, 2, 40),
    (_move, 3, 40),
    (_create_and_delete, 2, 10),
    (_change_tagged, 3, 25),
    (_read, 6, 60),
    (_read_whole, 1, 20),
    (_page_through, 2, 5),
)
"""What each client does, how many do it, and how many times."""


async def record(origin: str, scale: int) -> tuple[list[Call], Rules]:
    """Run all clients; return the history of their requests, and the rules of the writers."""
    history: list[Call] = []
    first = Client(origin, history, 0)
    fleet = await prepare(first)
    steps = [(step, times * scale) for step, count, times in CLIENTS for _ in range(count)]
    clients = [Client(origin, history, number) for number, _ in enumerate(steps, 1)]

    async def run(client: Client, step: Step, times: int) -> None:
        for _ in range(times):
            await step(client, fleet)

    await asyncio.gather(*(run(one, *step) for one, step in zip(clients, steps, strict=True)))
    for client in (first, *clients):
        await client.close()
    return history, fleet.rules
