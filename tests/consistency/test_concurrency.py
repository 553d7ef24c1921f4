"""Many clients at once: their responses are those of the model, in some order of the requests."""

import asyncio
import itertools
import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Literal

import orjson
import pytest
from aiohttp import ClientSession, TCPConnector
from yarl import URL

from registry.model.graph import Graph
from registry.operations.consistency import check
from registry.resources import RESOURCES
from registry.settings import Settings
from tests.consistency.linearization import Call, Request, State, Write, explanation
from tests.consistency.model import (
    RELATIONSHIPS,
    SCALE,
    TARGETS,
    Identity,
    Model,
    Query,
    body_of,
    identifier,
    linkage_to,
    resource_path,
)
from tests.storage.writing import insert_fleet
from tests.support import ATOMIC, MEDIA_TYPE, OPERATIONS, Database
from tests.system.conftest import Start

CLIENTS, STEPS_PER_ROUND = 12, 3

MISSING = 10**15
"""An id that no resource has."""

PERSONS = range(1, 5)
UNCHANGED = range(5, 1_105)
"""Computers that no client changes, so many that the whole collection takes several queries."""
COMPUTERS = [*range(1, UNCHANGED.start), *range(UNCHANGED.stop, UNCHANGED.stop + 4)]

QUERIES = {
    "person": [
        *(Query(), Query(include=("computers",)), Query(include=("computers.owner",))),
        *(Query(fields={"person": (name,)}) for name in ("last_name", "full_name")),
    ],
    "computer": [
        *(Query(), Query(include=("owner",)), Query(include=("owner.computers",))),
        *(Query({"person": (name,)}, ("owner",)) for name in ("last_name", "full_name")),
    ],
}

WHOLE = {"number": 1, "size": 1_000}
"""A page of the whole collection, with its total."""

OPERATORS = {"create": "add", "update": "update", "delete": "remove"}

RELATIONSHIP_METHODS: dict[str, list[tuple[Literal["update", "add", "remove"], str]]] = {
    "computer": [("update", "PATCH")],
    "person": [("update", "PATCH"), ("add", "POST"), ("remove", "DELETE")],
}

_numbers = itertools.count(1)


class Client:
    """A client with connections of its own, that waits for each response.

    stored: what was stored before the round.
    """

    def __init__(self, origin: str, number: int, session: ClientSession) -> None:
        self.random = random.Random(number)  # noqa: S311 - the same in every run
        self.stored = Model()
        self.calls: list[Call] = []
        self.origin = origin
        self._session = session

    async def send(self, request: Request) -> Call:
        """Send a request and record it."""
        media_type = ATOMIC if request.url == "/operations" else MEDIA_TYPE
        start = time.monotonic()
        async with self._session.request(
            request.method,
            URL(self.origin + request.url, encoded=True),
            data=orjson.dumps(request.body) if request.body else None,
            headers={"Content-Type": media_type, **request.headers},
        ) as response:
            received = await response.read()
        end = time.monotonic()
        document = self._without_unchanged(orjson.loads(received)) if received else None
        tag = response.headers.get("ETag", "")
        call = Call(request, start, end, response.status, document, tag)
        assert call.status in {200, 201, 204, 404, 412}, call
        self.calls.append(call)
        return call

    def _without_unchanged(self, document: Any) -> Any:
        """Return a document without the unchanged computers: a collection must have all of them."""
        data = document.get("data")
        if not isinstance(data, list) or len(data) < len(UNCHANGED):
            return document
        changed = [resource for resource in data if int(resource["id"]) not in UNCHANGED]
        assert (
            len({resource["id"] for resource in data}) == len(data) == len(UNCHANGED) + len(changed)
        )
        meta = {"count": document["meta"]["count"] - len(UNCHANGED)}
        return document | {"data": changed, "meta": meta}

    def some(self, type_name: str) -> Identity:
        """Return a resource, which may not exist."""
        return type_name, self.random.choice([*self.stored.ids(type_name) * 5, MISSING])

    def some_type(self) -> str:
        return self.random.choice(["person", "computer"])

    def attributes(self, type_name: str) -> dict[str, str]:
        """Return a value that no other write has."""
        text = f"N{next(_numbers)}"
        if type_name == "computer":
            return {"serial": text}
        return {"first_name": "-", "last_name": text}

    def linkage(self, type_name: str) -> list[int]:
        count = self.random.randrange(2 if type_name == "computer" else 4)
        return [self.some(TARGETS[RELATIONSHIPS[type_name]])[1] for _ in range(count)]

    def written(self) -> Write:
        """Return a creation, an update or a deletion."""
        type_name, chosen = self.some_type(), self.random.random()
        attributes, linkage = self.attributes(type_name), self.linkage(type_name)
        if chosen < 0.2:
            return Write("create", (type_name, 0), attributes, linkage)
        identity = self.some(type_name)
        if chosen < 0.35:
            return Write("delete", identity)
        return Write("update", identity, attributes, linkage if chosen < 0.7 else None)


def request_of(write: Write, query: Query, **headers: str) -> Request:
    """Return the request of a creation, an update or a deletion."""
    identity, path = write.identity, resource_path(write.identity)
    body = body_of(identity, write.attributes, write.linkage)
    if write.verb == "create":
        path = query.url(f"/{identity[0]}s")
        return Request("POST", path, body, 201, writes=[write], query=query, headers=headers)
    if write.verb == "delete":
        return Request("DELETE", path, None, 204, identity, [write])
    updated = [identity]
    return Request(
        "PATCH", query.url(path), body, 200, identity, [write], lambda _: updated, query, headers
    )


async def write(client: Client) -> None:
    written = client.written()
    await client.send(request_of(written, client.random.choice(QUERIES[written.identity[0]])))


async def operate(client: Client) -> None:
    """Send several writes as one request."""
    operations = []
    writes = [client.written() for _ in range(client.random.randint(2, 4))]
    for write in writes:
        resource = body_of(write.identity, write.attributes, write.linkage)["data"]
        if write.verb == "create":
            del resource["id"]
        reference = (
            {"ref": identifier(write.identity)} if write.verb == "delete" else {"data": resource}
        )
        operations.append({"op": OPERATORS[write.verb], **reference})
    await client.send(Request("POST", "/operations", {OPERATIONS: operations}, writes=writes))


async def relate(client: Client) -> None:
    """Change the links of a resource at its relationship."""
    identity = client.some(client.some_type())
    verb, method = client.random.choice(RELATIONSHIP_METHODS[identity[0]])
    linkage = client.linkage(identity[0])
    path = f"{resource_path(identity)}/relationships/{RELATIONSHIPS[identity[0]]}"
    change = Write(verb, identity, {}, linkage)
    body = linkage_to(identity[0], linkage)
    await client.send(Request(method, path, body, 204, identity, [change]))


async def change_conditionally(client: Client) -> None:
    """Read a resource, and change it unless another client does."""
    identity = client.some("person")
    read = await client.send(read_of(identity, Query()))
    change = Write("update", identity, client.attributes("person"))
    await client.send(request_of(change, Query(), **{"If-Match": read.tag or '"none"'}))


def read_of(identity: Identity, query: Query) -> Request:
    """Return the request for a resource."""
    path = query.url(resource_path(identity))
    return Request("GET", path, target=identity, shown=lambda _: [identity], query=query)


async def read(client: Client) -> None:
    type_name = client.some_type()
    query = client.random.choice(QUERIES[type_name])
    await client.send(read_of(client.some(type_name), query))


async def read_related(client: Client) -> None:
    person = client.some("person")
    path, query = f"{resource_path(person)}/computers", Query()
    if client.random.random() < 0.5:
        path = f"{resource_path(person)}/relationships/computers"
    else:
        query = Query(include=("owner",))

    def shown(model: Model) -> Sequence[Identity]:
        return model.members(person)

    await client.send(Request("GET", query.url(path), target=person, shown=shown, query=query))


def collection_of(type_name: str, query: Query) -> Request:
    """Return the request for a whole collection."""

    def shown(model: Model) -> Sequence[Identity]:
        return [(type_name, id_) for id_ in model.select(type_name, query)]

    return Request("GET", query.url(f"/{type_name}s"), shown=shown, query=query)


async def read_collection(client: Client) -> None:
    type_name = client.some_type()
    queries = [*QUERIES[type_name]]
    if type_name == "person":
        queries += [Query(sort=("last_name",)), Query(include=("computers",), page=WHOLE)]
    await client.send(collection_of(type_name, client.random.choice(queries)))


async def page_through(client: Client) -> None:
    """Follow the links of cursor pages to the end."""
    url, last = "/persons?page[size]=2", 0
    while url:

        def shown(model: Model, last: int = last) -> Sequence[Identity]:
            return [("person", id_) for id_ in model.ids("person") if id_ > last][:2]

        document = (await client.send(Request("GET", url, shown=shown))).document
        last = int(document["data"][-1]["id"]) if document["data"] else last
        url = (document["links"]["next"] or "").removeprefix(client.origin)


STEPS = (
    *(write, write, write, operate, relate, relate, change_conditionally),
    *(read, read, read, read_related, read_collection, read_collection, page_through),
)
"""What clients do, more often what is here more often."""


async def stored(database: Database) -> State:
    """Store resources; return the state that has those that change."""
    await insert_fleet(database, len(PERSONS), len(UNCHANGED) + len(COMPUTERS))
    state = State(Model())
    for person in PERSONS:
        state.model.create(("person", person), {"first_name": "Ada", "last_name": "Lovelace"})
    for computer in COMPUTERS:
        state.model.create(("computer", computer), {"serial": "x"})
    return state


@pytest.mark.parametrize(
    ("workers", "rounds"),
    [("1", 8), *(pytest.param(workers, 20, marks=pytest.mark.slow) for workers in "12")],
)
async def test_concurrent_requests_are_linearizable(
    start: Start, settings: Settings, database: Database, workers: str, rounds: int
) -> None:
    state = await stored(database)
    options = {"mongodb_uri": settings.mongodb_uri, "REGISTRY_DATABASE": settings.database}
    origin = start("--workers", workers, **options).url
    async with AsyncExitStack() as stack:
        clients = []
        for number in range(CLIENTS + 1):
            # A new connection may lead to another worker.
            connector = TCPConnector(force_close=number % 2 == 0)
            session = await stack.enter_async_context(ClientSession(connector=connector))
            clients.append(Client(origin, number, session))

        async def run(client: Client) -> None:
            for step in client.random.choices(STEPS, k=STEPS_PER_ROUND):
                await step(client)

        for _ in range(rounds * SCALE):
            for client in clients:
                client.stored = state.model
                client.calls.clear()
            await asyncio.gather(*map(run, clients[1:]))
            for type_name, queries in QUERIES.items():
                await clients[0].send(collection_of(type_name, queries[1]))
            calls = [client.calls for client in clients]
            after = explanation(state, calls)
            assert after, "\n".join(map(str, [state, *itertools.chain(*calls)]))
            state = State(after.model)
    assert (await check(database, Graph(RESOURCES))).total == 0
