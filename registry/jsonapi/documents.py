"""Stored records -> response document (JSON:API 1.0, Document Structure)."""

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson
from orjson import Fragment

from registry.jsonapi.changes import Change
from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.query import Query
from registry.jsonapi.resource_objects import (
    LinkageById,
    array,
    identifiers,
    resource_objects,
)
from registry.model.graph import Graph
from registry.model.record import LinkedIds, Record
from registry.model.resource_type import ResourceType
from registry.offloading import offload, pause

JSONAPI = {"version": "1.0"}

LARGE_PART = 5_000
"""Resources and identifiers of a stream that are rendered without serving others: about 5 ms."""


@dataclass(frozen=True, slots=True)
class Compound:
    """The relationships and the included resources of a document.

    linkage: the relationships to show of primary and of included resources. included: records by
    type; None if the request does not have `include`.
    """

    linkage: LinkageById
    included: Mapping[str, Sequence[Record]] | None

    @property
    def size(self) -> int:
        """The number of included resources."""
        return sum(map(len, self.included.values())) if self.included else 0


PLAIN = Compound({}, None)
"""Neither relationships nor included resources."""


@dataclass(frozen=True, slots=True)
class Part:
    """Resources of one type, with the relationships to show of them."""

    resource: ResourceType
    records: Sequence[Record]
    linkage: LinkageById

    @property
    def size(self) -> int:
        """The number of resources and of the identifiers of what they are linked to."""
        linkage = self.linkage.get(self.resource.type, {})
        linked = chain.from_iterable(by_id.values() for by_id in linkage.values())
        return len(self.records) + sum(len(ids) for ids in linked if isinstance(ids, list))


def encode_document(
    data: str,
    compound: Compound,
    query: Query,
    graph: Graph,
    links: Mapping[str, str | None],
    meta: Mapping[str, Any] | None = None,
) -> bytes:
    """Return a document (JSON:API 1.0, Document Structure).

    data: JSON text: a resource object, an identifier, null, or an array of them.
    """
    included = {}
    if compound.included is not None:
        members = [
            text
            for name, records in compound.included.items()
            for text in resource_objects(graph[name], records, compound.linkage, query)
        ]
        included = {"included": Fragment(array(members))}
    return orjson.dumps(
        {
            "data": Fragment(data),
            **included,
            "jsonapi": JSONAPI,
            "links": links,
            **({"meta": meta} if meta else {}),
        }
    )


def encode_meta(links: Mapping[str, str], meta: Mapping[str, Any]) -> bytes:
    """Return a document without primary data (JSON:API 1.0, Top Level)."""
    return orjson.dumps({"jsonapi": JSONAPI, "links": links, "meta": meta})


async def encode_collection(
    primary: AsyncIterable[Part], included: AsyncIterable[Part] | None, query: Query, url: str
) -> AsyncGenerator[bytes]:
    """Yield a collection document in pieces (JSON:API 1.0, Document Structure).

    primary: the parts of `data`, none of them empty; one is in memory at a time. included: the
    parts of `included`, consumed after `primary`; None if the request does not have `include`.
    url: the absolute URL of the request.
    """
    prefix, count = b'{"data":[', 0
    async for part in primary:
        yield prefix + await _members(part, query)
        prefix, count = b",", count + len(part.records)
    prefix = (b"" if count else prefix) + b"],"
    if included is not None:
        prefix += b'"included":['
        async for part in included:
            yield prefix + await _members(part, query)
            prefix = b","
        prefix = prefix.removesuffix(b",") + b"],"
    closing = {"jsonapi": JSONAPI, "links": {"self": url}, "meta": {"count": count}}
    yield prefix + orjson.dumps(closing)[1:]


async def encode_linkage(
    related: AsyncIterable[Part],
    included: AsyncIterable[Part],
    query: Query,
    links: Mapping[str, str | None],
) -> list[bytes]:
    """Return a document of resource identifiers in pieces.

    related: the parts of the resources to identify, which `include` can name; one is in memory at a
    time. included: the parts of other included resources, consumed after `related`.
    """
    data, objects, count = list[bytes](), list[bytes](), 0
    async for part in related:
        ids = [record["_id"] for record in part.records]
        data.append(",".join(identifiers(part.resource.type, ids)).encode())
        if query.include:
            objects.append(await _members(part, query))
        else:
            await pause()
        count += len(ids)
    objects += [await _members(part, query) async for part in included]
    pieces = [b'{"data":[', b",".join(data), b"],"]
    if query.include is not None:
        pieces += [b'"included":[', b",".join(objects), b"],"]
    closing = {"jsonapi": JSONAPI, "links": links, "meta": {"count": count}}
    return [*pieces, orjson.dumps(closing)[1:]]


async def _members(part: Part, query: Query) -> bytes:
    def encode() -> bytes:
        return ",".join(resource_objects(part.resource, part.records, part.linkage, query)).encode()

    await pause()
    return await offload(encode, size=part.size, limit=LARGE_PART)


def encode_errors(errors: Sequence[ApiError], request_id: str) -> bytes:
    """Return a document of error objects (JSON:API 1.0, Errors).

    The `id` of each is unique: that of the request, followed by `-2` for the second error, etc.
    """
    ids = [request_id, *(f"{request_id}-{number}" for number in range(2, len(errors) + 1))]
    objects = [error.to_object(id_) for error, id_ in zip(errors, ids, strict=True)]
    return orjson.dumps({"errors": objects, "jsonapi": JSONAPI})


def written_linkage(record: Record, change: Change) -> Mapping[str, Mapping[int, LinkedIds]]:
    """Return the relationships that a request has changed, by name and id of the resource."""
    id_ = record["_id"]
    return {linkage.relationship.name: {id_: linkage.linked_ids} for linkage in change.linkages}
