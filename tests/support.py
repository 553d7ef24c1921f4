"""Requests and responses of API tests, and the checks that every response has to pass."""

import asyncio
import gc
import gzip
import io
import json
import re
import socket
import struct
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from motor.motor_asyncio import AsyncIOMotorDatabase
from multidict import CIMultiDict, CIMultiDictProxy
from pymongo import monitoring

from registry.http.app_keys import REPOSITORY
from registry.http.routes import Route
from registry.http.views.site import SlashView
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.storage.bulkheads import Bulkheads
from registry.storage.counters import recount
from registry.storage.repository import Repository

MEDIA_TYPE = "application/vnd.api+json"
ATOMIC = f'{MEDIA_TYPE}; ext="https://jsonapi.org/ext/atomic"'
OPERATIONS, RESULTS = "atomic:operations", "atomic:results"
VARY = "Accept, Accept-Encoding"

MEMBER_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")
"""Only the member names that are safe in a URL, as JSON:API recommends."""

PAGE_LINKS = {"first", "last", "prev", "next"}

META_ONLY = {"jsonapi", "links", "meta"}
"""The members of a document without data."""

Database = AsyncIOMotorDatabase[dict[str, Any]]
Client = TestClient[web.Request, Any]


@dataclass(frozen=True)
class Response:
    """A response: its document is None where the body is empty."""

    status: int
    headers: CIMultiDictProxy[str]
    document: Any

    @property
    def data(self) -> Any:
        return self.document["data"]

    @property
    def id(self) -> str:
        identifier: str = self.data["id"]
        return identifier

    @property
    def ids(self) -> list[str]:
        """The ids of the primary data of a collection."""
        return [resource["id"] for resource in self.data]

    @property
    def code(self) -> str:
        """The code of the only error."""
        (error,) = self.document["errors"]
        code: str = error["code"]
        return code

    @property
    def results(self) -> list[Any]:
        """The results of atomic operations."""
        items: list[Any] = self.document[RESULTS]
        return items

    @property
    def included(self) -> list[tuple[str, str]]:
        """(type, id) of each included resource."""
        return [identity(resource) for resource in self.document["included"]]

    @property
    def errors(self) -> list[tuple[int, str]]:
        """Status and source (pointer or parameter, or "") of each error."""
        return [
            (int(error["status"]), next(iter(error.get("source", {"": ""}).values())))
            for error in (self.document or {}).get("errors", [])
        ]


@dataclass(frozen=True)
class Raw:
    """A response of any media type, without its transfer coding."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def text(self) -> str:
        """The body without its content coding."""
        is_compressed = "Content-Encoding" in self.headers
        return (gzip.decompress(self.body) if is_compressed else self.body).decode()


def declared_routes(app: web.Application) -> list[Route]:
    """Return what was declared for the paths of an application, without those of redirects."""
    handlers = (route.handler for route in app.router.routes())
    routes: list[Route] = [handler.route for handler in handlers if hasattr(handler, "route")]
    return [route for route in routes if route.view is not SlashView]


def complete_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of a test with the fields that each of its type has."""
    names = record.get("first_name", "A"), record.get("last_name", "B")
    person = {"first_name": names[0], "last_name": names[1], "full_name": " ".join(names)}
    required = {"serial": "S"} if {"serial", "person"} & record.keys() else person
    return {"version": 1, **required, **record}


def reset(writer: asyncio.StreamWriter) -> None:
    """Reset a connection: one that is only closed looks as if its client still read."""
    linger_0 = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_0)
    writer.transport.abort()


class Api:
    """A client of the running service that checks every response against JSON:API."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def app(self) -> web.Application:
        app: web.Application = self.client.app
        return app

    @property
    def repository(self) -> Repository:
        return self.app[REPOSITORY]

    @property
    def origin(self) -> str:
        """The scheme, host and port of the service."""
        return str(self.client.make_url("/")).rstrip("/")

    async def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send a document as JSON, or bytes, which an iterator may yield, unchanged.

        The media type is that of the document, unless the headers have another.
        """
        is_atomic = isinstance(body, dict) and OPERATIONS in body
        data = json.dumps(body).encode() if isinstance(body, dict | list) else body
        data = (
            io.BytesIO(data) if data and isinstance(data, bytes) else data
        )  # aiohttp warns of large bytes objects
        sent = CIMultiDict(headers or {})
        sent.setdefault("Content-Type", ATOMIC if is_atomic else MEDIA_TYPE)
        async with self.client.request(method, path, data=data, headers=sent) as response:
            content = await response.read()
        document: Any = json.loads(content) if content else None
        if content:
            has_results = RESULTS in document
            assert response.headers["Content-Type"] == (ATOMIC if has_results else MEDIA_TYPE)
            check_results(document) if has_results else check_document(document)
        assert response.headers["X-Request-ID"]
        return Response(response.status, response.headers, document)

    async def fetch(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Raw:
        """Send a request with these headers and no others of a client; follow no redirect."""
        async with self.client.request(
            method,
            path,
            json=body,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            skip_auto_headers=["Accept-Encoding"],
            auto_decompress=False,
            allow_redirects=False,
        ) as response:
            return Raw(response.status, response.headers, await response.read())

    async def operate(self, *operations: Any, **headers: str) -> Response:
        """Send atomic operations."""
        return await self.request("POST", "/operations", {OPERATIONS: operations}, headers)

    async def get(self, path: str, **headers: str) -> Response:
        return await self.request("GET", path, headers=headers)

    async def pages(self, path: str, link: str = "next") -> list[Response]:
        """Return the page at a path and all that follow by the links of this name."""
        pages: list[Response] = []
        target: str | None = path
        while target is not None:
            assert len(pages) < 100, "the links form a cycle"
            page = await self.get(target.removeprefix(self.origin))
            assert page.status == 200, page.document
            pages.append(page)
            target = page.document["links"][link]
        return pages

    async def send(self, method: str, path: str, data: Any = None, **headers: str) -> Response:
        """Send primary data; only POST and PATCH send null."""
        has_body = data is not None or method in {"POST", "PATCH"}
        return await self.request(method, path, {"data": data} if has_body else None, headers)

    async def post(self, path: str, data: Any, **headers: str) -> Response:
        return await self.send("POST", path, data, **headers)

    async def patch(self, path: str, data: Any, **headers: str) -> Response:
        return await self.send("PATCH", path, data, **headers)

    async def delete(self, path: str, data: Any = None, **headers: str) -> Response:
        return await self.send("DELETE", path, data, **headers)

    async def person(self, first: str = "Grace", last: str = "Hopper", **more: Any) -> str:
        """Create a person and return the id."""
        return await self.create(new("person", first_name=first, last_name=last, **more))

    async def computer(self, serial: str = "SN-1", owner: str | None = None) -> str:
        """Create a computer and return the id."""
        links = {} if owner is None else {"owner": to_one(owner)}
        return await self.create(new("computer", links, serial=serial))

    async def create(self, data: Any, **headers: str) -> str:
        """Create a resource and return the id."""
        response = await self.post(f"/{data['type']}s", data, **headers)
        assert response.status == 201, response.document
        return response.id

    async def set_computers(self, person: str, *computers: str) -> Response:
        """Replace the computers of a person."""
        return await self.patch(
            f"/persons/{person}", new("person", {"computers": to_many(*computers)})
        )

    async def raw(self, request: bytes) -> tuple[int, Any]:
        """Send a raw request on a new connection; return the status and the document."""
        status, head, body = await self.exchange(request)
        assert b"content-type: application/vnd.api+json" in head.lower()
        document = json.loads(body)
        check_document(document)
        return status, document

    async def exchange(self, request: bytes) -> tuple[int, bytes, bytes]:
        """Send a raw request on a new connection; return the status, head and body."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.client.port)
        writer.write(request)
        await writer.drain()
        try:
            received = await asyncio.wait_for(reader.read(), timeout=60)
        except TimeoutError:
            pytest.fail("the service did not close the connection within 60 s")
        writer.close()
        head, _, body = received.partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), head, body


def new(
    type_name: str, links: Mapping[str, Any] | None = None, /, **attributes: Any
) -> dict[str, Any]:
    """Return a resource object without an id. links: the relationship objects, by name."""
    data: dict[str, Any] = {"type": type_name}
    if attributes:
        data["attributes"] = attributes
    if links:
        data["relationships"] = dict(links)
    return data


PERSON = new("person", first_name="Grace", last_name="Hopper")
COMPUTER = new("computer", serial="SN-1")
"""Resource objects of the least that a person and a computer need."""


def identifier(type_name: Any, id_: Any) -> dict[str, Any]:
    return {"type": type_name, "id": id_}


def add(data: Mapping[str, Any], lid: str | None = None) -> dict[str, Any]:
    """Return an operation that creates a resource."""
    return {"op": "add", "data": {**data, **({} if lid is None else {"lid": lid})}}


def update(data: Mapping[str, Any], **target: str) -> dict[str, Any]:
    """Return an operation that updates a resource. target: its id or lid."""
    return {"op": "update", "data": {**data, **target}}


def to_one(id_: str | None, type: str = "person") -> dict[str, Any]:  # noqa: A002 - as below
    """Return the relationship object for linkage to one resource, or to none."""
    return {"data": id_ and identifier(type, id_)}


def to_many(*ids: str, type: str = "computer") -> dict[str, Any]:  # noqa: A002 - JSON:API's word
    """Return the relationship object for linkage to resources of one type."""
    return {"data": [{"type": type, "id": id_} for id_ in ids]}


async def set_counters(database: Database) -> None:
    """Let the counters agree with what a test has stored or removed beside the service."""
    for resource in Graph(RESOURCES).values():
        assert await recount(database, resource)


async def stored_records(database: Database) -> list[Any]:
    """Return all persons and all computers, ordered by id."""
    return [
        await database[name].find().sort("_id").to_list(None) for name in ("persons", "computers")
    ]


def linkage_of(resource: Any) -> dict[str, Any]:
    """Return the relationships of a resource object without their links."""
    relationships: dict[str, Any] = resource["relationships"]
    return {name: {"data": value["data"]} for name, value in relationships.items()}


def check_document(document: Any) -> None:
    """Check a document against JSON:API 1.0, Document Structure.

    The service uses less than the specification allows: every resource object has attributes, a
    self link and, for each relationship, linkage or a count and both links; attributes are scalars.
    A revision has two objects, and no links in its relationship.
    """
    assert isinstance(document, dict)
    assert document["jsonapi"] == {"version": "1.0"}
    assert len({"data", "errors"} & document.keys()) == 1 or document.keys() == META_ONLY
    _check_member_names(document)
    if "errors" in document:
        assert document.keys() == {"errors", "jsonapi"}
        assert isinstance(document["errors"], list)
        assert document["errors"]
        for error in document["errors"]:
            _check_error(error)
        ids = {error["id"] for error in document["errors"]}
        assert len(ids) == len(document["errors"]), "an id is repeated"
        return
    assert document.keys() <= {"data", "included", *META_ONLY}
    _check_links(document.get("links", {}), {"self", "related"} | PAGE_LINKS)
    primary, included = primary_data(document), document.get("included", [])
    linkage = [item for item in primary if item.keys() <= {"type", "id", "meta"}]
    resources = [*(item for item in primary if item not in linkage), *included]
    for identifier in linkage:
        _check_identifier(identifier)
    for resource in resources:
        _check_resource(resource)
    _check_identities(linkage, resources, included)


def check_results(document: Any) -> None:
    """Check the results of atomic operations: each has a resource object, or nothing."""
    assert document.keys() == {RESULTS, "jsonapi"}
    for result in document[RESULTS]:
        assert result.keys() <= {"data", "meta"}
        if result:
            check_document({**result, "jsonapi": document["jsonapi"]})


def _check_identities(linkage: list[Any], resources: list[Any], included: list[Any]) -> None:
    """Check that nothing is repeated, and that each included resource is linked."""
    for items in (linkage, resources):
        assert len(set(map(identity, items))) == len(items), "a resource is repeated"
    linked = {identity(target) for resource in resources for target in targets(resource)}
    missing = {identity(resource) for resource in included} - linked - {*map(identity, linkage)}
    assert not missing, f"no full linkage: {missing}"


def _check_member_names(part: Any) -> None:
    """Check the name of every member, at any depth, and that every meta is an object."""
    for item in part if isinstance(part, list) else []:
        _check_member_names(item)
    for name, value in part.items() if isinstance(part, dict) else []:
        assert MEMBER_NAME.fullmatch(name)
        assert name != "meta" or isinstance(value, dict)
        _check_member_names(value)


def _check_links(links: Any, names: set[str]) -> None:
    assert isinstance(links, dict)
    assert links.keys() <= names
    for name, link in links.items():
        assert isinstance(link, str) or (link is None and name in PAGE_LINKS)


def _check_identifier(identifier: Any) -> None:
    assert identifier.keys() == {"type", "id"}
    assert all(isinstance(value, str) for value in identifier.values())
    assert MEMBER_NAME.fullmatch(identifier["type"])


def _check_resource(resource: Any) -> None:
    assert {"type", "id", "attributes", "links"} <= resource.keys()
    assert resource.keys() <= {"type", "id", "attributes", "links", "relationships"}
    _check_identifier({name: resource[name] for name in ("type", "id")})
    path = f"/{resource['type']}s/{resource['id']}"
    assert resource["links"] == {"self": path}
    attributes, relationships = resource["attributes"], resource.get("relationships", {})
    assert isinstance(attributes, dict)
    assert isinstance(relationships, dict)
    assert not {"type", "id", "password", *relationships} & attributes.keys()
    assert not {"type", "id"} & relationships.keys()
    is_revision = resource["type"] == "revision"
    nested = [name for name, value in attributes.items() if isinstance(value, dict | list)]
    assert nested == [name for name in ("before", "after") if is_revision and name in attributes]
    for name, relationship in () if is_revision else relationships.items():
        assert {"links"} < relationship.keys() <= {"data", "links", "meta"}
        links, to_many = relationship["links"], isinstance(relationship.get("data"), list)
        if "meta" in relationship:
            assert relationship["meta"].keys() == {"count"}
            assert to_many or "data" not in relationship
        _check_links(links, {"self", "related"} | (PAGE_LINKS if to_many else set()))
        assert links["self"] == f"{path}/relationships/{name}"
        assert links["related"] == f"{path}/{name}"
    for identifier in targets(resource):
        _check_identifier(identifier)


def _check_error(error: Any) -> None:
    """Check an error object. Beyond 1.0, the cursor profile adds links.type to two errors."""
    texts = {"id", "status", "code", "title", "detail"}
    assert texts <= error.keys() <= texts | {"source", "links", "meta"}
    assert all(isinstance(error[name], str) for name in texts)
    assert "Traceback" not in error["detail"]
    _check_links(error.get("links", {}), {"about", "type"})
    source = error.get("source", {})
    assert source.keys() <= {"pointer", "parameter"}
    assert all(isinstance(value, str) for value in source.values())


def primary_data(document: Any) -> list[Any]:
    """Return the primary data of a document, or the linkage of a relationship, as a list."""
    data = document.get("data")
    return data if isinstance(data, list) else [data] if data is not None else []


def targets(resource: Any) -> list[Any]:
    """Return the linkage of all relationships of a resource object."""
    relationships = resource.get("relationships", {}).values()
    return [target for relationship in relationships for target in primary_data(relationship)]


def identity(item: Any) -> tuple[str, str]:
    """Return the type and id of a resource object or a resource identifier."""
    return item["type"], item["id"]


class CommandLog(monitoring.CommandListener):
    """Records the commands that this process sends to MongoDB.

    Without `hello`, which precedes the first read from a primary, and the drops of the databases of
    other tests. unlimited: the names of those without a time limit. denied: of those for which the
    user lacks a privilege.
    """

    def __init__(self) -> None:
        self._sent: list[tuple[str, str]] = []
        self.unlimited: set[str] = set()
        self.denied: set[str] = set()

    def take(self, command: str) -> list[str]:
        """Clear the log; return the collections that received this command since the last call."""
        collections = [collection for name, collection in self._sent if name == command]
        self._sent.clear()
        return collections

    def names(self) -> list[str]:
        """Clear the log; return the names of all commands since the last call, in order."""
        names = [name for name, _ in self._sent]
        self._sent.clear()
        return names

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        name = event.command_name
        if name in {"hello", "dropDatabase"} or event.command[name] == "services":
            return
        self._sent.append((name, str(event.command[name])))
        if "maxTimeMS" not in event.command:
            self.unlimited.add(name)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Not recorded."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        if event.failure.get("codeName") == "Unauthorized":
            self.denied.add(event.command_name)


async def open_cursors(database: Database) -> int:
    """Return the number of open cursors on the computers of this database."""
    pipeline: list[dict[str, Any]] = [
        {"$currentOp": {"idleCursors": True}},
        {"$match": {"ns": f"{database.name}.computers", "type": "idleCursor"}},
    ]
    return len(await database.client.admin.aggregate(pipeline).to_list(None))


@contextmanager
def traced_memory() -> Iterator[Callable[[], int]]:
    """Yield a function that returns the bytes allocated since then that are still in use."""

    def size() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        yield size
    finally:
        tracemalloc.stop()


def bulkheads(api: Api) -> Bulkheads:
    return api.repository.bulkheads


class Ticker:
    """Counts the iterations of the event loop while it is open."""

    def __init__(self) -> None:
        self.ticks = 0

    async def __aenter__(self) -> "Ticker":
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _tick(self) -> None:
        while True:
            self.ticks += 1
            await asyncio.sleep(0)


IDEMPOTENCY_KEY = '"8e03978e-40d5-43e8-bc93-6894a57f9324"'

REPLAYED = "Idempotency-Replayed"


async def send_with_key(
    api: Api, path: str, data: Any, key: str = IDEMPOTENCY_KEY, **headers: str
) -> Response:
    """POST primary data, or a list of operations, with this key."""
    body = {OPERATIONS if path == "/operations" else "data": data}
    return await api.request("POST", path, body, {"Idempotency-Key": key, **headers})
