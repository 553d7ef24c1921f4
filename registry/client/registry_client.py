"""The client: resources of any type, collections, atomic operations, and changes."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias
from uuid import uuid4

import orjson
from aiohttp import hdrs

from registry.client.client_errors import RegistryError, Reply, UnexpectedResponse
from registry.client.linked_resources import Conflict, Resource, linked_resources
from registry.client.transport import Transport, failure
from registry.protocol import (
    EVENT_STREAM,
    EXTENSION,
    IDEMPOTENCY_KEY,
    LARGEST_PAGE,
    LAST_EVENT_ID,
    MEDIA_TYPE,
    MERGE,
    OPERATIONS,
    RESULTS,
    media_type,
)

Document: TypeAlias = Mapping[str, Any]
Operation: TypeAlias = Mapping[str, Any]
_Query: TypeAlias = Sequence[tuple[str, str]]
Names: TypeAlias = str | Iterable[str]
"""Names, or a text in which commas separate them."""

_MIN_DELAY, _MAX_DELAY = 1.0, 30.0
"""Seconds before following again, which double as long as nothing arrives."""

_TRANSACTION_BYTES = 2**28
"""Of the changes of one transaction, which are kept until all have arrived."""

_ATTEMPTS = 5
"""How often to try a change while the links of the resource change."""

_NO_VERSION = '"0"'
"""An entity tag that no resource has."""

_SEGMENT = re.compile(r"[\w-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A change: `add`, `update` or `remove`, and the resource with the fields that changed.

    position: from where to continue after this change; within a transaction, before all of it.
    meta: `updated_at` and `updated_by`.
    """

    op: str
    resource: Resource
    position: str | None
    meta: Document


class Client(Transport):
    """A client of a running service: `async with Client(url, token=...) as registry:`.

    Fields are attributes, and relationships: a resource, None, or a list of resources. All methods
    raise RegistryError if the service cannot be reached, or refuses a request.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        super().__init__(url, token)
        self._collections: Document = {}
        self._relationships: dict[str, bool] = {}

    async def create(self, type_name: str, /, **fields: Any) -> Resource:
        """Create a resource. Raises Conflict if a unique value is taken."""
        return await self._post(type_name, fields)

    async def merge(self, type_name: str, /, **fields: Any) -> Resource:
        """Update the resource that has the unique value among the fields, or create one."""
        return await self._post(type_name, fields, [MERGE])

    async def get(
        self, type_name: str, id_: str | int, *, include: Names = (), fields: Document | None = None
    ) -> Resource:
        """Read a resource. include: relationships. fields: names of what to read, by type."""
        path, query = await self._path(type_name, id_), _query(include, fields)
        reply = await self.send(hdrs.METH_GET, path, params=query)
        return _resource(reply) or await self._fail(path, reply, {})

    async def list(
        self,
        type_name: str,
        *,
        filter: Document | Sequence[Document] = (),  # noqa: A002 - as in the API
        sort: Names = (),
        include: Names = (),
        fields: Document | None = None,
    ) -> AsyncGenerator[Resource]:
        """Yield the resources of a type, page by page; include, fields: as for `get`.

        filter: values by names, `{"owner.last_name": "Hopper"}`, or by names and operators,
        `{"serial": {"prefix": "SN-"}}`; or conditions in JSON. sort: names, after `-` descending.
        """
        path, query = await self._path(type_name), _query(include, fields, sort, filter)
        async for document in self.pages(path, query):
            for resource in linked_resources(document):
                yield resource

    async def update(self, resource: Resource, /, **fields: Any) -> Resource:
        """Change fields, also of this object. Raises Conflict if the resource is not as read."""
        data = {**await self._data(resource.type, fields), "id": resource.id}
        updated = await self._change(hdrs.METH_PATCH, resource, fields, data)
        resource.attributes |= updated.attributes
        resource.related |= {name: fields[name] for name in updated.related if name in fields}
        resource.etag = updated.etag
        return resource

    async def delete(self, resource: Resource) -> None:
        """Delete a resource. Raises Conflict if it is not as read."""
        await self._change(hdrs.METH_DELETE, resource, {})

    async def execute(
        self, operations: Sequence[Operation], key: str | None = None, prefer: Sequence[str] = ()
    ) -> Sequence[Document]:
        """Execute all operations or none; return their results (Atomic Operations, Results).

        key: the idempotency key, by default a new one. prefer: as for `send`.
        """
        headers = {hdrs.CONTENT_TYPE: media_type(EXTENSION), IDEMPOTENCY_KEY: key or uuid4().hex}
        body = {OPERATIONS: operations}
        reply = await self.send(hdrs.METH_POST, "operations", body, prefer, headers=headers)
        results = reply.member(RESULTS)
        if not isinstance(results, list) or len(results) != len(operations):
            raise failure("operations", reply)
        return results

    async def pages(self, path: str, query: _Query) -> AsyncGenerator[dict[str, Any]]:
        """Yield the documents of all pages of a collection."""
        first = page = [*query, ("page[size]", str(LARGEST_PAGE))]
        while page:
            reply = await self.send(hdrs.METH_GET, path, params=page)
            after = ("page[after]", str(reply.member("meta", "page", "after")))
            if not isinstance(reply.member("data"), list) or after in page:
                raise failure(path, reply)
            yield reply.document
            page = [*first, after] if reply.member("meta", "page", "after") else []

    async def position(self) -> str:
        """Return the present position in the changes."""
        reply = await self.send(hdrs.METH_GET, "changes")
        if not (position := reply.member("meta", "position")):
            raise failure("changes", reply)
        return str(position)

    async def changes(
        self, *, after: str | None = None, types: Names = ()
    ) -> AsyncGenerator[ResourceChange]:
        """Yield all changes after a position, by default the present one, as they are committed.

        Connects again when a connection ends. Raises Gone if the position is not accepted.
        """
        async with aclosing(self.follow(types, after)) as transactions:
            async for position, changes in transactions:
                for number, text in enumerate(changes, 1):
                    change = orjson.loads(text)
                    (resource,) = linked_resources({"data": change.get("data", change.get("ref"))})
                    after = position if number == len(changes) else after
                    yield ResourceChange(change["op"], resource, after, change.get("meta", {}))
                after = position

    async def follow(
        self, types: Names, after: str | None
    ) -> AsyncGenerator[tuple[str, Sequence[bytes]]]:
        """Yield the position after each transaction with its changes in JSON; as `changes`.

        There are none if there was only time without changes.
        """
        delay = _MIN_DELAY
        while True:
            changes, size = list[bytes](), 0
            headers = {hdrs.ACCEPT: EVENT_STREAM} | ({LAST_EVENT_ID: after} if after else {})
            parameters = [("filter[type]", _joined(types))] if types else []
            events = self.events("changes", params=parameters, headers=headers)
            async with aclosing(events):
                async for event in events:
                    delay, size = _MIN_DELAY, size + len(event[b"data"])
                    if b"event" not in event:
                        changes.append(event[b"data"])
                    if size > _TRANSACTION_BYTES:
                        raise UnexpectedResponse("a transaction in the changes is too large")
                    if b"id" in event:
                        after = event[b"id"].decode()
                        yield after, changes
                        changes, size = [], 0
            await asyncio.sleep(delay)
            delay = min(2 * delay, _MAX_DELAY)

    async def _post(self, type_name: str, fields: Document, prefer: Sequence[str] = ()) -> Resource:
        path, data = await self._path(type_name), await self._data(type_name, fields)
        headers = {hdrs.CONTENT_TYPE: MEDIA_TYPE, IDEMPOTENCY_KEY: uuid4().hex}
        reply = await self.send(hdrs.METH_POST, path, {"data": data}, prefer, headers=headers)
        return _resource(reply) or await self._fail(path, reply, fields)

    async def _change(
        self, method: str, resource: Resource, sent: Document, data: Document | None = None
    ) -> Resource:
        """Change a resource if all of it is as it was read; return it as it is then.

        Its version is that of its links too, which may have changed.
        """
        path, etag = await self._path(resource.type, resource.id), resource.etag
        read, is_same = (resource.attributes, resource.related), True
        for _ in range(_ATTEMPTS):
            if etag is None and any(read):
                fields = {resource.type: ["id", *resource.attributes]}
                now = await self.get(resource.type, resource.id, include=read[1], fields=fields)
                is_same = (now.attributes, now.related) == read
                etag = now.etag if is_same else _NO_VERSION
            headers = {hdrs.CONTENT_TYPE: MEDIA_TYPE} | ({hdrs.IF_MATCH: etag} if etag else {})
            reply = await self.send(method, path, data and {"data": data}, headers=headers)
            if reply.status != 412 or not is_same:
                break
            etag = None
        if reply.status == 204:
            return resource
        return _resource(reply) or await self._fail(path, reply, sent, resource)

    async def _fail(
        self, path: str, reply: Reply, fields: Document, read: Resource | None = None
    ) -> NoReturn:
        """Raise the error for a write, with what is stored if that is the reason."""
        error = failure(path, reply)
        if isinstance(error, Conflict):
            error.read, error.sent = read, fields
            about = str(reply.member("errors", 0, "links", "about") or path)
            with suppress(RegistryError, ValueError):
                target = "/".join(map(_segment, about.split("/")[-2:]))
                error.stored = _resource(await self.send(hdrs.METH_GET, target))
        raise error

    async def _data(self, type_name: str, fields: Document) -> dict[str, Any]:
        """Return the resource object for fields, told apart by their values."""
        attributes, linkage = dict[str, Any](), dict[str, Any]()
        for name, value in fields.items():
            if isinstance(value, Resource):
                linkage[name] = {"data": _identifier(value)}
            elif isinstance(value, (list, tuple)):
                linkage[name] = {"data": [_identifier(one) for one in value]}
            elif value is None and await self._is_relationship(type_name, name):
                linkage[name] = {"data": None}
            else:
                attributes[name] = value
        return {"type": type_name, "attributes": attributes, "relationships": linkage}

    async def _is_relationship(self, type_name: str, name: str) -> bool:
        path = await self._path(type_name, 1, "relationships", name)
        if path not in self._relationships:
            reply = await self.send(hdrs.METH_OPTIONS, path)
            self._relationships[path] = reply.is_success
        return self._relationships[path]

    async def _path(self, type_name: str, *below: str | int) -> str:
        """Return a path in a collection, relative to the base URL."""
        if not self._collections:
            reply = await self.send(hdrs.METH_GET, "")
            collections = reply.member("meta", "collections")
            if not isinstance(collections, dict):
                raise failure("", reply)
            self._collections = collections
        if type_name not in self._collections:
            known = ", ".join(self._collections)
            raise RegistryError(f"there is no type {type_name!r}; the types are {known}")
        collection = str(self._collections[type_name]).rpartition("/")[2]
        return "/".join(map(_segment, (collection, *below)))


def _segment(part: str | int) -> str:
    if not _SEGMENT.fullmatch(str(part)):
        raise ValueError(f"{part!r} is not an id")
    return str(part)


def _identifier(resource: Resource) -> dict[str, str]:
    return {"type": resource.type, "id": resource.id}


def _resource(reply: Reply) -> Resource | None:
    """Return the resource of a response, None if that is an error."""
    if not reply.is_success:
        return None
    (resource,) = linked_resources(reply.document)
    resource.etag = reply.headers.get(hdrs.ETAG)
    return resource


def _joined(names: Names) -> str:
    return names if isinstance(names, str) else ",".join(names)


def _query(
    include: Names, fields: Document | None, sort: Names = (), conditions: Any = ()
) -> _Query:
    if isinstance(conditions, Mapping):
        conditions = [
            {"name": name, "op": operator, "val": getattr(operand, "id", operand)}
            for name, value in conditions.items()
            for operator, operand in (
                value if isinstance(value, Mapping) else {"eq": value}
            ).items()
        ]
    named = {"include": include, "sort": sort}
    named |= {f"fields[{name}]": names for name, names in (fields or {}).items()}
    query = [(name, _joined(names)) for name, names in named.items() if names]
    encoded = orjson.dumps(conditions, default=str).decode()
    return [*query, ("filter", encoded)] if conditions else query
