"""The client: resources of any type, collections, atomic operations, and changes."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypeAlias
from uuid import uuid4

from aiohttp import hdrs

from registry import protocol
from registry.client.transport import (
    Conflict,
    Document,
    Headers,
    Parameters,
    RegistryError,
    Reply,
    Resource,
    ResourceChange,
    Transport,
    is_temporary,
    json_text,
    linked_resources,
    member,
    reading_response,
    resource_change,
)

Names: TypeAlias = str | Iterable[str]
"""Names, or a text in which commas separate them."""

_EVENT_BYTES = 2**21
"""The limit of an event of the change feed."""

_NONE: Document = {}

_SEGMENT = re.compile(r"[\w-]+", re.ASCII)


class Client(Transport):
    """A client of a running service: `async with Client(url, token=...) as registry:`.

    Fields are attributes, and relationships: a resource, None, or a list of resources. All methods
    raise RegistryError if the service refuses a request or cannot be reached, and TypeError or
    ValueError for what cannot be sent. Only `changes` waits for a service that is gone, if it has
    responded before.

    pause_seconds: before changes are followed again, unless the service asks for more.
    transaction_bytes: the limit of all events of a transaction. page_size: of lists.
    """

    pause_seconds: float = 1.0
    transaction_bytes: int = 2**28
    page_size: int = protocol.LARGEST_PAGE

    def __init__(self, url: str, token: str | None = None) -> None:
        super().__init__(url, token)
        self._collections: Mapping[str, str] = {}  # the last parts of their paths, by type
        self._relationships: Mapping[str, Document] = {}  # by type; version 1.0.0 names none

    async def create(self, type_name: str, /, **fields: Any) -> Resource:
        """Create a resource. Raises Conflict if a unique value is taken."""
        return await self._write(hdrs.METH_POST, Resource(type_name, ""), fields)

    async def merge(self, type_name: str, /, **fields: Any) -> Resource:
        """Update the resource that has the unique value among the fields, or create one."""
        return await self._write(hdrs.METH_POST, Resource(type_name, ""), fields, protocol.MERGE)

    async def get(
        self,
        type_name: str,
        id_: str | int,
        *,
        include: Names = (),
        fields: Document = _NONE,
        with_count: Names = (),
    ) -> Resource:
        """Read a resource. include: relationships. fields: names of what to read, by type.

        with_count: relationships whose members are counted, in `counts` of the resource.
        """
        path, query = await self._path(type_name, str(id_)), _query(include, fields, with_count)
        return _resource(await self.send(hdrs.METH_GET, path, params=query))

    async def list(  # noqa: PLR0913 - the parameters of the API
        self,
        type_name: str,
        *,
        filter: Document | Sequence[Document] = (),  # noqa: A002 - as in the API
        search: str = "",
        sort: Names = (),
        include: Names = (),
        fields: Document = _NONE,
        with_count: Names = (),
    ) -> AsyncGenerator[Resource]:
        """Yield the resources of a type, page by page; include, fields, with_count: as for `get`.

        filter: values by names, `{"owner.last_name": "Hopper"}`, or by names and operators,
        `{"serial": {"prefix": "SN-"}}`; or conditions in JSON. search: words to find in text
        attributes. sort: names, after `-` descending.
        """
        query = _query(include, fields, with_count, sort, filter)
        query = [*query, ("filter[search]", search)] if search else query
        path = await self._path(type_name)
        async for document in self.pages(path, query):
            for resource in linked_resources(document):
                yield resource

    async def update(self, resource: Resource, /, **fields: Any) -> Resource:
        """Change fields, also of this object. Raises Conflict if the resource is not as read.

        One of a list, whose version is not known, is read again before.
        """
        updated = await self._write(hdrs.METH_PATCH, resource, fields)
        resource.attributes |= updated.attributes
        resource.related |= updated.related
        resource.etag = updated.etag
        return resource

    async def delete(self, resource: Resource) -> None:
        """Delete a resource; as `update`."""
        await self._write(hdrs.METH_DELETE, resource, {})

    async def execute(
        self, operations: Sequence[Document], key: str | None = None, prefer: str | None = None
    ) -> Sequence[Document]:
        """Execute all operations or none; return their results (Atomic Operations, Results).

        key: the idempotency key, by default a new one. prefer: as for `send`.
        """
        headers = {
            hdrs.CONTENT_TYPE: protocol.media_type(protocol.EXTENSION),
            protocol.IDEMPOTENCY_KEY: key or uuid4().hex,
            protocol.PREFER: prefer,
        }
        body = {protocol.OPERATIONS: operations}
        document, _ = await self.send(hdrs.METH_POST, "operations", body, headers)
        with reading_response():
            return list(document[protocol.RESULTS])

    async def position(self) -> str:
        """Return the present position in the changes."""
        document, _ = await self.send(hdrs.METH_GET, "changes")
        with reading_response():
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
                    is_last = number == len(changes)
                    yield resource_change(text, position if is_last else after or position)
                after = position

    async def follow(
        self, types: Names, after: str | None
    ) -> AsyncGenerator[tuple[str, Sequence[bytes]]]:
        """Yield the position after each transaction with its changes in JSON, as `changes` does.

        There are none if there was only time without changes.
        """
        headers: Headers = {hdrs.ACCEPT: protocol.EVENT_STREAM, protocol.LAST_EVENT_ID: after}
        query = [("filter[type]", _joined(types))] if types else []
        has_responded = False
        while True:
            pause = self.pause_seconds
            try:
                async with aclosing(self.download("changes", headers, query)) as pieces:
                    async for position, changes in _transactions(pieces, self.transaction_bytes):
                        has_responded = True
                        yield position, changes
                        headers = {**headers, protocol.LAST_EVENT_ID: position}
            except RegistryError as error:
                is_known = has_responded or error.retry_after is not None
                if not (is_known and is_temporary(error)):
                    raise
                pause = max(pause, error.retry_after or 0)
            await asyncio.sleep(pause)

    async def pages(self, path: str, query: Parameters) -> AsyncGenerator[Document]:
        """Yield the documents of all pages of a collection."""
        page = first = [*query, ("page[size]", str(self.page_size))]
        while page:
            document, _ = await self.send(hdrs.METH_GET, path, params=page)
            cursor = member(document, "meta", "page", "after")
            following = [*first, ("page[after]", str(cursor))] if cursor else []
            if not isinstance(member(document, "data"), list) or following == page:
                raise RegistryError(f"not a registry: the response of /{path} is not a page of one")
            yield document
            page = following

    async def _write(
        self, method: str, resource: Resource, fields: Document, prefer: str | None = None
    ) -> Resource:
        """Return a resource as it is stored after a write; without an id, it is a new one.

        Its version must be the one that was read, or another with the same in all that was read.
        """
        path = await self._path(resource.type, *filter(None, [resource.id]))
        body = None if method == hdrs.METH_DELETE else self._body(resource, fields)
        headers = {protocol.IDEMPOTENCY_KEY: uuid4().hex, protocol.PREFER: prefer}
        try:
            headers[hdrs.IF_MATCH] = resource.etag or await self._etag(resource)
            reply = await self.send(method, path, body, headers)
        except Conflict as conflict:
            if conflict.status == 412 and resource.etag:
                resource.etag = None
                return await self._write(method, resource, fields, prefer)
            about = member(conflict.errors, 0, "links", "about") or resource.id
            with suppress(RegistryError, ValueError):
                conflict.stored = await self.get(resource.type, str(about).rpartition("/")[2])
            conflict.read, conflict.sent = resource if resource.id else None, fields
            raise
        return resource if body is None else _resource(reply, fields)

    async def _etag(self, resource: Resource) -> str | None:
        """Return the ETag of the present version. Raises Conflict if it is not as it was read."""
        if not (resource.attributes or resource.related):
            return None
        shown = {resource.type: ["id", *resource.attributes]}
        now = await self.get(resource.type, resource.id, include=resource.related, fields=shown)
        if (now.attributes, now.related) != (resource.attributes, resource.related):
            raise Conflict(f"the {resource.type} {resource.id} is not as it was read", 412)
        return now.etag

    def _body(self, resource: Resource, fields: Document) -> Document:
        """Return the document of a resource."""
        attributes, relationships = dict[str, Any](), dict[str, Any]()
        known = {*self._relationships.get(resource.type, ()), *resource.related}
        for name, value in fields.items():
            if isinstance(value, Resource | list | tuple) or (value is None and name in known):
                relationships[name] = {"data": _linkage(value)}
            else:
                attributes[name] = value
        identifier = {"type": resource.type} | ({"id": resource.id} if resource.id else {})
        return {"data": {**identifier, "attributes": attributes, "relationships": relationships}}

    async def _path(self, type_name: str, *below: str) -> str:
        """Return a path in a collection, relative to the base URL; ask once for all types."""
        if not self._collections:
            document, _ = await self.send(hdrs.METH_GET, "")
            with reading_response():
                meta = document["meta"]
                types = meta.get("types", ())
                self._relationships = {each["type"]: each["relationships"] for each in types}
                urls = meta["collections"].items()
                self._collections = {name: url.rpartition("/")[2] for name, url in urls}
        if type_name not in self._collections:
            known = ", ".join(self._collections)
            raise RegistryError(f"there is no type {type_name!r}; the types are {known}")
        parts = [self._collections[type_name], *below]
        if wrong := [part for part in parts if not _SEGMENT.fullmatch(part)]:
            raise ValueError(f"{wrong[0]!r} is not a part of a path")
        return "/".join(parts)


async def _transactions(
    pieces: AsyncIterable[bytes], limit: int
) -> AsyncGenerator[tuple[str, Sequence[bytes]]]:
    """Yield the transactions in server-sent events (WHATWG HTML, 9.2); as `Client.follow`."""
    changes, size, rest = list[bytes](), 0, b""
    async for piece in pieces:
        *events, rest = (rest + piece).split(b"\n\n")
        for event in events:
            fields = dict(line.partition(b": ")[::2] for line in event.splitlines())
            if b"data" in fields and b"event" not in fields:
                changes.append(fields[b"data"])
                size += len(changes[-1])
            if b"id" in fields:
                yield fields[b"id"].decode(errors="replace"), changes
                changes, size = [], 0
        if len(rest) > _EVENT_BYTES or size > limit:
            raise RegistryError("/changes has a transaction that is too large", 200)


def _linkage(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_linkage(member) for member in value]
    if value is not None and not isinstance(value, Resource):
        raise TypeError(f"a list may have only resources, not {value!r:.80}")
    return value and {"type": value.type, "id": value.id}


def _resource(reply: Reply, sent: Document = _NONE) -> Resource:
    """Return the resource of a response, linked to the resources that were sent."""
    document, headers = reply
    (resource,) = linked_resources(document)
    resource.related |= {name: sent[name] for name in resource.related if name in sent}
    resource.etag = headers.get(hdrs.ETAG)
    return resource


def _joined(names: Names) -> str:
    return names if isinstance(names, str) else ",".join(names)


def _query(
    include: Names, fields: Document, with_count: Names, sort: Names = (), conditions: Any = ()
) -> Parameters:
    if isinstance(conditions, Mapping):
        conditions = [
            {"name": name, "op": operator, "val": getattr(operand, "id", operand)}
            for name, value in conditions.items()
            for operator, operand in (value if isinstance(value, dict) else {"eq": value}).items()
        ]
    named = {"include": include, "withCount": with_count, "sort": sort}
    named |= {f"fields[{name}]": names for name, names in fields.items()}
    query = [(name, _joined(names)) for name, names in named.items() if names]
    return [*query, ("filter", json_text(conditions))] if conditions else query
