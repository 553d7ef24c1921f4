"""Writers that record which of their writes were acknowledged, and followers of the change feed.

Each writer changes only records of its own, one request after another, so that what the database
may contain follows from the responses: the effect of each acknowledged write, and of each other one
entirely or not at all. What a follower has got is what the database contains.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson
from aiohttp import ClientConnectorError, ClientError, ClientSession, ClientTimeout

from tests.feed import Stream
from tests.support import MEDIA_TYPE, Database, check_document, new, to_many, to_one

_PAUSE_SECONDS = 0.05

NO_RESPONSE = 0
"""The status of a request whose connection broke."""


@dataclass(frozen=True)
class Reply:
    """The status of a response, and its document unless it has no body."""

    status: int
    document: Any = None

    @property
    def is_acknowledged(self) -> bool:
        return self.status in {200, 201, 204}

    @property
    def id(self) -> str:
        """The id of the resource, nothing if the request has failed."""
        identifier: str = self.document["data"]["id"] if self.is_acknowledged else ""
        return identifier


class Client:
    """A client of the service at a URL, whose process or database may be lost at any time.

    seconds: within which every request has to be done.
    """

    def __init__(self, session: ClientSession, url: str, seconds: float = 60.0) -> None:
        self._session = session
        self._url = url
        self._timeout = ClientTimeout(seconds)

    async def send(self, method: str, path: str, data: Any = None, **headers: str) -> Reply:
        """Send a request. It succeeds, or the response is 503, or none arrives.

        Raises TimeoutError.
        """
        body = None if data is None else orjson.dumps({"data": data})
        while (reply := await self._exchange(method, path, body, headers)) is None:  # noqa: ASYNC110 - no event
            await asyncio.sleep(_PAUSE_SECONDS)
        if reply.document is not None:
            check_document(reply.document)
        expected = reply.is_acknowledged or reply.status in {503, NO_RESPONSE}
        assert expected, (method, path, data, reply)
        return reply

    async def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Reply | None:
        """Return None if the request was not sent, because no service accepts connections."""
        url = self._url + path
        try:
            async with self._session.request(
                method, url, data=body, headers=headers, timeout=self._timeout
            ) as response:
                content = await response.read()
        except ClientConnectorError:
            return None
        except ClientError:
            return Reply(NO_RESPONSE)
        if method == "DELETE" and response.status == 404:
            # aiohttp has sent it again because its connection broke, perhaps after its effect.
            return Reply(NO_RESPONSE)
        return Reply(response.status, orjson.loads(content) if content else None)

    async def create(self, name: str) -> Reply:
        return await self.send("POST", "/persons", person(name))

    async def create_once(self, path: str, data: Any, key: str) -> Reply:
        """Repeat a creation with its idempotency key until it is acknowledged."""
        while not (reply := await self.send("POST", path, data, **{"Idempotency-Key": key})).id:  # noqa: ASYNC110 - no event
            await asyncio.sleep(_PAUSE_SECONDS)
        return reply

    @asynccontextmanager
    async def changes(self, position: str) -> AsyncIterator[Stream]:
        """Yield the change feed after a position; it has no events if it is refused."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": position}
        async with self._session.get(
            f"{self._url}/changes", headers=headers, timeout=ClientTimeout(sock_connect=5)
        ) as response:
            if response.status != 200:
                await response.read()
            yield Stream(response)

    async def position(self) -> str:
        """Return the present position in the change feed."""
        async with self._session.get(f"{self._url}/changes") as response:
            return response.headers["Registry-Position"]

    async def rename(self, id_: str, name: str) -> Reply:
        return await self.send("PATCH", f"/persons/{id_}", person(name))


Connect = Callable[..., Client]


@asynccontextmanager
async def clients() -> AsyncIterator[Connect]:
    """Yield `Client` without its first argument."""
    async with ClientSession(headers={"Content-Type": MEDIA_TYPE}) as session:
        yield partial(Client, session)


def person(name: str) -> dict[str, Any]:
    """Return the resource object of a person, two of whose attributes are this name."""
    return new("person", first_name=name, last_name=name)


def computer(serial: str, owner: str) -> dict[str, Any]:
    """Return the resource object of a computer that a person owns."""
    return new("computer", {"owner": to_one(owner)}, serial=serial)


class Ledger:
    """The ids of the resources whose creation was acknowledged, by name or serial."""

    def __init__(self) -> None:
        self.ids: dict[str, dict[str, str]] = {"person": {}, "computer": {}}

    def acknowledge(self, key: str, reply: Reply) -> None:
        """Add a new resource; no other may ever have had its id, not even one that is deleted."""
        ids = self.ids[reply.document["data"]["type"]]
        assert reply.id not in ids.values(), f"the id of {key} was acknowledged before"
        ids[key] = reply.id


@dataclass(frozen=True)
class _State:
    """The records of a writer: the name of its person, serials of computers, other persons."""

    name: str
    owned: frozenset[str] = frozenset()
    unowned: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


class Writer:
    """Writes through one service and reads through another until it is stopped.

    label: the prefix of its names and serials. repeats: whether it repeats creations, with keys,
    until they are acknowledged. complete_cycles: how often it has written in each way, and each
    write was acknowledged.
    """

    def __init__(
        self, label: str, ledger: Ledger, writing: Client, reading: Client, *, repeats: bool
    ) -> None:
        self._label = label
        self._repeats = repeats
        self._ledger = ledger
        self._writing = writing
        self._reading = reading
        self._number = 0
        self._id = ""
        self._states: set[_State] = set()
        self._created: list[tuple[str, Any, str, Reply]] = []
        self.complete_cycles = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Create a person, and change it and its computers until told to stop."""
        name = self._next_name()
        reply = await self._writing.create(name)
        self._ledger.acknowledge(name, reply)
        self._id, self._states = reply.id, {_State(name)}
        while not stop.is_set():
            self.complete_cycles += await self._cycle()

    async def check(self, database: Database) -> None:
        """Compare the database, and more repetitions, with the responses."""
        for *request, reply in self._created:
            assert await self._reading.create_once(*request) == reply
        query = {"$regex": f"^{self._label}-"}
        persons = await database.persons.find({"first_name": query}).to_list(None)
        computers = await database.computers.find({"serial": query}).to_list(None)
        for resource in persons:
            assert resource["last_name"] == resource["first_name"]
            assert resource["full_name"] == f"{resource['first_name']} {resource['first_name']}"
        names = {str(resource["_id"]): resource["first_name"] for resource in persons}
        serials = {str(resource["_id"]): resource["serial"] for resource in computers}
        own = names.pop(self._id)
        for kind, stored in (("person", names), ("computer", serials)):
            assert len(set(stored.values())) == len(stored), "a resource was created twice"
            for id_, key in stored.items():
                assert self._ledger.ids[kind].get(key, id_) == id_
        owners = {resource["serial"]: resource["person"] for resource in computers}
        owned = frozenset(serial for serial in owners if owners[serial] == int(self._id))
        unowned = frozenset(serial for serial in owners if owners[serial] is None)
        assert len(owned | unowned) == len(owners)
        assert _State(own, owned, unowned, frozenset(names.values())) in self._states

    async def _cycle(self) -> bool:
        """Write once in each way; return whether all writes were acknowledged."""
        name, kept, deleted, other, renamed = (self._next_name() for _ in range(5))
        ids = self._ledger.ids["computer"]

        def own(serial: str) -> Callable[[_State], _State]:
            return lambda before: replace(before, owned=before.owned | {serial})

        def replace_computers(before: _State) -> _State:
            unowned = (before.owned | before.unowned) - owned
            return replace(before, name=renamed, owned=owned, unowned=unowned)

        def delete(before: _State) -> _State:
            owned, unowned = before.owned - {deleted}, before.unowned - {deleted}
            return replace(before, owned=owned, unowned=unowned)

        written = [
            await self._write(
                lambda before: replace(before, name=name), "PATCH", self._path, person(name)
            )
        ]
        for serial in (kept, deleted):
            data = computer(serial, self._id)
            written.append(await self._write(own(serial), "POST", "/computers", data))
        owned = frozenset({kept} & ids.keys())
        linkage = to_many(*(ids[serial] for serial in owned))
        data = person(renamed) | {"relationships": {"computers": linkage}}
        written += [
            await self._write(replace_computers, "PATCH", self._path, data),
            await self._write(
                lambda before: replace(before, others=before.others | {other}),
                *("POST", "/persons", person(other)),
            ),
        ]
        if deleted in ids:
            written.append(await self._write(delete, "DELETE", f"/computers/{ids[deleted]}"))
        return all(written)

    async def _write(
        self, effect: Callable[[_State], _State], method: str, path: str, data: Any = None
    ) -> bool:
        """Send a request that writes; then read the person with its computers.

        Returns whether it was acknowledged.
        """
        key = next(iter(data["attributes"].values())) if method == "POST" else ""
        if self._repeats and key:
            reply = await self._writing.create_once(path, data, key)
            self._created.append((path, data, key, reply))
        else:
            reply = await self._writing.send(method, path, data)
        if key and reply.is_acknowledged:
            self._ledger.acknowledge(key, reply)
        after = set(map(effect, self._states))
        self._states = after if reply.is_acknowledged else self._states | after
        shown = await self._reading.send("GET", f"{self._path}?include=computers")
        if shown.is_acknowledged:
            assert _shown(shown.document) in {(state.name, state.owned) for state in self._states}
        return reply.is_acknowledged

    @property
    def _path(self) -> str:
        return f"/persons/{self._id}"

    def _next_name(self) -> str:
        self._number += 1
        return f"{self._label}-{self._number}"


def _shown(document: Any) -> tuple[str, frozenset[str]]:
    """Return the name and the serials of the computers in the document of a person."""
    serials = (resource["attributes"]["serial"] for resource in document["included"])
    return document["data"]["attributes"]["last_name"], frozenset(serials)


Resources = dict[tuple[str, str], dict[str, Any]]
"""The attributes of resources, and the owner of computers, by type and id."""


class Follower:
    """Applies the changes of a service from a position on, however often its connection ends.

    resources: what is stored at this position, and later what the changes make of it.
    """

    def __init__(self, client: Client, position: str, resources: Resources) -> None:
        self._client = client
        self._position = position
        self.resources = resources

    async def run(self) -> None:
        """Follow until it is cancelled."""
        while True:
            with suppress(ClientError, TimeoutError, EOFError):
                await self._follow()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _follow(self) -> None:
        """Apply whole transactions until the connection ends."""
        changes: list[Any] = []
        async with self._client.changes(self._position) as stream:
            while True:
                event = await stream.next()
                if event.name == "message":
                    changes.append(event.data)
                if event.id:
                    for change in changes:
                        self._apply(change)
                    changes, self._position = [], event.id

    def _apply(self, change: Any) -> None:
        data = change.get("data") or change["ref"]
        identity = data["type"], data["id"]
        assert (change["op"] == "add") == (identity not in self.resources), change
        if change["op"] == "remove":
            del self.resources[identity]
            return
        owner = data.get("relationships", {}).get("owner")
        linked = {"owner": owner["data"] and owner["data"]["id"]} if owner else {}
        stored = self.resources.setdefault(identity, {"owner": None})
        stored |= data.get("attributes", {}) | linked


async def stored_resources(database: Database) -> Resources:
    """Return what is stored, as followers know it."""
    stored: Resources = {}
    async for person in database.persons.find():
        names = {name: person[name] for name in ("first_name", "last_name", "email")}
        stored["person", str(person["_id"])] = {"owner": None} | names
    async for computer in database.computers.find():
        owner = computer["person"] and str(computer["person"])
        stored["computer", str(computer["_id"])] = {"owner": owner, "serial": computer["serial"]}
    return stored
