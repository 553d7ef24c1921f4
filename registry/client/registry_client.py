"""The client: resources of any type, collections, atomic operations, and changes."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import uuid4

import orjson
from aiohttp import hdrs

from registry import protocol
from registry.client.client_documents import (
    Conflict,
    RegistryError,
    Resource,
    UnexpectedResponse,
    linked_resources,
    member,
    understood,
    unexpected,
)
from registry.client.transport import Reply, Transport, encoded, header_value

Document: TypeAlias = Mapping[str, Any]
Operation: TypeAlias = Mapping[str, Any]
_Query: TypeAlias = Sequence[tuple[str, str]]
Names: TypeAlias = str | Iterable[str]
"""Names, or a text in which commas separate them."""

_MIN_DELAY, _MAX_DELAY = 1.0, 30.0
"""Seconds before following again, which double as long as nothing arrives."""

_TRANSACTION_BYTES = 2**28
"""Of the changes of one transaction, which are kept until all have arrived."""

_NONE: Document = {}

_SEGMENT = re.compile(r"[\w-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A change: `add`, `update` or `remove`, and the resource with the fields that changed.

    position: from where to continue after this change; within a transaction, before all of it.
    meta: `updated_at` and `updated_by`.
    """

    op: str
    resource: Resource
    position: str
    meta: Document


class Client(Transport):
    """A client of a running service: `async with Client(url, token=...) as registry:`.

    Fields are attributes, and relationships: a resource, None, or a list of resources. All methods
    raise RegistryError if the service refuses a request, or cannot be reached, and TypeError or
    ValueError for what cannot be sent; only `changes` waits for one that has responded before.
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
        return await self._post(type_name, fields, [protocol.MERGE])

    async def get(
        self, type_name: str, id_: str | int, *, include: Names = (), fields: Document = _NONE
    ) -> Resource:
        """Read a resource. include: relationships. fields: names of what to read, by type."""
        path = await self._path(type_name, str(id_))
        query = _query(include, fields)
        return _resource(path, await self.send(hdrs.METH_GET, path, params=query))

    async def list(
        self,
        type_name: str,
        *,
        filter: Document | Sequence[Document] = (),  # noqa: A002 - as in the API
        sort: Names = (),
        include: Names = (),
        fields: Document = _NONE,
    ) -> AsyncGenerator[Resource]:
        """Yield the resources of a type, page by page; include, fields: as for `get`.

        filter: values by names, `{"owner.last_name": "Hopper"}`, or by names and operators,
        `{"serial": {"prefix": "SN-"}}`; or conditions in JSON. sort: names, after `-` descending.
        """
        path, query = await self._path(type_name), _query(include, fields, sort, filter)
        async for document in self.pages(path, query):
            with understood(path):
                resources = linked_resources(document)
            for resource in resources:
                yield resource

    async def update(self, resource: Resource, /, **fields: Any) -> Resource:
        """Change fields, also of this object. Raises Conflict if the resource is not as read.

        One of a list, whose version is not known, is read again before.
        """
        body = await self._body(resource.type, fields, id=resource.id)
        reply = await self._change(hdrs.METH_PATCH, resource, fields, body)
        updated = _resource(resource.type, reply, fields)
        resource.attributes |= updated.attributes
        resource.related |= updated.related
        resource.etag = updated.etag
        return resource

    async def delete(self, resource: Resource) -> None:
        """Delete a resource; as `update`."""
        await self._change(hdrs.METH_DELETE, resource, {})

    async def execute(
        self, operations: Sequence[Operation], key: str | None = None, prefer: Sequence[str] = ()
    ) -> Sequence[Document]:
        """Execute all operations or none; return their results (Atomic Operations, Results).

        key: the idempotency key, by default a new one. prefer: as for `send`.
        """
        headers, body = _headers(key, protocol.EXTENSION), {protocol.OPERATIONS: operations}
        document, _ = await self.send(hdrs.METH_POST, "operations", body, prefer, headers=headers)
        results = member(document, protocol.RESULTS)
        if not isinstance(results, list) or len(results) != len(operations):
            raise unexpected("operations")
        return results

    async def pages(self, path: str, query: _Query) -> AsyncGenerator[Document]:
        """Yield the documents of all pages of a collection."""
        first = page = [*query, ("page[size]", str(protocol.LARGEST_PAGE))]
        while page:
            document, _ = await self.send(hdrs.METH_GET, path, params=page)
            cursor = member(document, "meta", "page", "after")
            after = ("page[after]", str(cursor))
            if not isinstance(member(document, "data"), list) or after in page:
                raise unexpected(path)
            yield document
            page = [*first, after] if cursor else []

    async def position(self) -> str:
        """Return the present position in the changes."""
        document, _ = await self.send(hdrs.METH_GET, "changes")
        with understood("changes"):
            return str(document["meta"]["position"])

    async def changes(
        self, *, after: str | None = None, types: Names = ()
    ) -> AsyncGenerator[ResourceChange]:
        """Yield all changes after a position, by default the present one, as they are committed.

        Connects again when a connection ends. Raises Gone if the position is not accepted.
        """
        async with aclosing(self.follow(types, after)) as transactions:
            async for position, changes in transactions:
                for number, text in enumerate(changes, 1):
                    with understood("changes"):
                        change = orjson.loads(text)
                        data = change.get("data") or change["ref"]
                        (resource,) = linked_resources({"data": data})
                        op, meta = change["op"], change.get("meta", {})
                    is_last = number == len(changes)
                    before = position if after is None else after
                    yield ResourceChange(op, resource, position if is_last else before, meta)
                after = position

    async def follow(
        self, types: Names, after: str | None
    ) -> AsyncGenerator[tuple[str, Sequence[bytes]]]:
        """Yield the position after each transaction with its changes in JSON, as `changes` does.

        There are none if there was only time without changes.
        """
        query, delay = [("filter[type]", _joined(types))] if types else [], _MIN_DELAY
        while True:
            changes, size = list[bytes](), 0
            position = {protocol.LAST_EVENT_ID: header_value(after, "position")} if after else {}
            headers = {hdrs.ACCEPT: protocol.EVENT_STREAM, **position}
            async with aclosing(self.events("changes", params=query, headers=headers)) as events:
                async for event in events:
                    delay, size = _MIN_DELAY, size + len(event[b"data"])
                    if size > _TRANSACTION_BYTES:
                        raise UnexpectedResponse("a transaction in the changes is too large")
                    if b"event" not in event:
                        changes.append(event[b"data"])
                    if b"id" in event:
                        after = event[b"id"].decode(errors="replace")
                        yield after, changes
                        changes, size = [], 0
            await asyncio.sleep(delay)
            delay = min(2 * delay, _MAX_DELAY)

    async def _post(self, type_name: str, fields: Document, prefer: Sequence[str] = ()) -> Resource:
        path, body = await self._path(type_name), await self._body(type_name, fields)
        try:
            reply = await self.send(hdrs.METH_POST, path, body, prefer, headers=_headers())
        except Conflict as conflict:
            raise await self._explained(conflict, path, fields) from None
        return _resource(path, reply, fields)

    async def _change(
        self, method: str, resource: Resource, fields: Document, body: Document | None = None
    ) -> Reply:
        """Change a resource if what was read of it is the same, also in another version."""
        path, etag = await self._path(resource.type, resource.id), resource.etag
        if etag is None and (resource.attributes or resource.related):
            shown = {resource.type: ["id", *resource.attributes]}
            now = await self.get(resource.type, resource.id, include=resource.related, fields=shown)
            etag = now.etag
            if (now.attributes, now.related) != (resource.attributes, resource.related):
                conflict = Conflict(f"/{path} is not as it was read", 412)
                conflict.read, conflict.sent, conflict.stored = resource, fields, now
                raise conflict
        headers = _headers() | ({hdrs.IF_MATCH: etag} if etag else {})
        try:
            return await self.send(method, path, body, headers=headers)
        except Conflict as conflict:
            if conflict.status != 412 or resource.etag is None:
                raise await self._explained(conflict, path, fields, resource) from None
        resource.etag = None
        return await self._change(method, resource, fields, body)

    async def _explained(
        self, conflict: Conflict, path: str, sent: Document, read: Resource | None = None
    ) -> Conflict:
        about = str(member(conflict.errors, 0, "links", "about") or path)
        with suppress(RegistryError, ValueError):
            path = "/".join(map(_segment, about.split("/")[-2:]))
            conflict.stored = _resource(path, await self.send(hdrs.METH_GET, path))
        conflict.read, conflict.sent = read, sent
        return conflict

    async def _body(self, type_name: str, fields: Document, **members: str) -> Document:
        """Return the document of a resource; values tell relationships from attributes."""
        data: dict[str, Any] = {"type": type_name, **members, "attributes": {}, "relationships": {}}
        for name, value in fields.items():
            if isinstance(value, Resource):
                data["relationships"][name] = {"data": _identifier(value)}
            elif isinstance(value, list | tuple):
                data["relationships"][name] = {"data": [_identifier(one) for one in value]}
            elif value is None and await self._is_relationship(type_name, name):
                data["relationships"][name] = {"data": None}
            else:
                data["attributes"][name] = value
        return {"data": data}

    async def _is_relationship(self, type_name: str, name: str) -> bool:
        """Ask for the methods of its path: only the OpenAPI document, which is large, has names."""
        path = await self._path(type_name, "1", "relationships", name)
        if path not in self._relationships:
            try:
                await self.send(hdrs.METH_OPTIONS, path)
                self._relationships[path] = True
            except RegistryError as error:
                if error.status != 404:
                    raise
                self._relationships[path] = False
        return self._relationships[path]

    async def _path(self, type_name: str, *below: str) -> str:
        """Return a path in a collection, relative to the base URL."""
        if not self._collections:
            document, _ = await self.send(hdrs.METH_GET, "")
            with understood(""):
                self._collections = {
                    name: str(url).rpartition("/")[2]
                    for name, url in document["meta"]["collections"].items()
                }
        if type_name not in self._collections:
            known = ", ".join(self._collections)
            raise RegistryError(f"there is no type {type_name!r}; the types are {known}")
        return "/".join(map(_segment, (self._collections[type_name], *below)))


def _segment(part: str) -> str:
    if not _SEGMENT.fullmatch(part):
        raise ValueError(f"{part!r} is not a part of a path")
    return part


def _headers(key: str | None = None, extension: str | None = None) -> dict[str, str]:
    content_type = protocol.media_type(extension)
    return {hdrs.CONTENT_TYPE: content_type, protocol.IDEMPOTENCY_KEY: key or uuid4().hex}


def _identifier(resource: object) -> Document:
    if not isinstance(resource, Resource):
        raise TypeError(f"a list may have only resources, not {resource!r:.80}")
    return {"type": resource.type, "id": resource.id}


def _resource(path: str, reply: Reply, sent: Document = _NONE) -> Resource:
    """Return the resource of a response, which leads to those that were sent."""
    document, headers = reply
    with understood(path):
        (resource,) = linked_resources(document)
    resource.related |= {name: sent[name] for name in resource.related if name in sent}
    resource.etag = headers.get(hdrs.ETAG)
    return resource


def _joined(names: Names) -> str:
    return names if isinstance(names, str) else ",".join(names)


def _query(include: Names, fields: Document, sort: Names = (), conditions: Any = ()) -> _Query:
    if isinstance(conditions, Mapping):
        conditions = [
            {"name": name, "op": operator, "val": getattr(operand, "id", operand)}
            for name, value in conditions.items()
            for operator, operand in (value if isinstance(value, dict) else {"eq": value}).items()
        ]
    named = {"include": include, "sort": sort}
    named |= {f"fields[{name}]": names for name, names in fields.items()}
    query = [(name, _joined(names)) for name, names in named.items() if names]
    return [*query, ("filter", encoded(conditions).decode())] if conditions else query
