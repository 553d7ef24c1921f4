"""Resources -> response document (JSON:API 1.0, Document Structure)."""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, NamedTuple

import orjson
from orjson import Fragment

from registry.jsonapi.changes import Change
from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.query import Query
from registry.jsonapi.resource_objects import (
    STREAMED,
    Linked,
    array,
    identifiers,
    resource_objects,
)
from registry.model.graph import Graph
from registry.model.record import (
    LinkedIds,
    Record,
    StreamedIds,
)
from registry.model.resource_type import ResourceType
from registry.offloading import offload, pause
from registry.protocol import RESULTS

JSONAPI = {"version": "1.0"}

LARGE_PART = 5_000
"""Resources and identifiers of a stream that are rendered without serving others: about 5 ms."""


class Effect(StrEnum):
    """What an addition that merges has done, as the `meta` of its result says."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Compound:
    """The linkage of all resources of a document, and the included ones.

    included: records by type; None if the request does not have `include`.
    """

    linkage: Linked
    included: Mapping[str, Sequence[Record]] | None

    @property
    def size(self) -> int:
        """The number of included resources."""
        return sum(map(len, self.included.values())) if self.included else 0


PLAIN = Compound({}, None)
"""Neither linkage nor included resources."""


class Part(NamedTuple):
    """Resources of one type, with the linkage to show of them."""

    resource: ResourceType
    records: Sequence[Record]
    linkage: Linked

    @property
    def size(self) -> int:
        """The number of resources and of the identifiers in their linkage."""
        linkage = self.linkage.get(self.resource.type, {})
        linked = chain.from_iterable(by_id.values() for by_id in linkage.values())
        return len(self.records) + sum(len(ids) for ids in linked if isinstance(ids, list))

    @property
    def streamed(self) -> list[StreamedIds]:
        """The linkage that is read while it is encoded, of a part with a single resource."""
        if len(self.records) > 1:
            return []
        linkage = self.linkage.get(self.resource.type, {})
        linked = [by_id.get(record["_id"]) for record in self.records for by_id in linkage.values()]
        return [ids for ids in linked if isinstance(ids, StreamedIds)]


class Identifiers(NamedTuple):
    """Resources of one type that are shown by their identifiers."""

    type: str
    ids: Sequence[int]


class Envelope(NamedTuple):
    """What surrounds the data of a document.

    meta: None for the number of primary resources in a stream, which is not known before. many:
    False for the document of a single resource or identifier, which has no `meta`.
    """

    links: Mapping[str, str | None]
    meta: Mapping[str, Any] | None = None
    many: bool = True


def encode_document(
    data: Sequence[str], envelope: Envelope, compound: Compound, query: Query, graph: Graph
) -> bytes:
    """Return a document. data: JSON texts of resource objects or of identifiers."""
    links, meta, many = envelope
    primary = array(data) if many else data[0] if data else "null"
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
            "data": Fragment(primary),
            **included,
            "jsonapi": JSONAPI,
            "links": links,
            **({"meta": meta} if meta else {}),
        }
    )


def encode_meta(links: Mapping[str, str], meta: Mapping[str, Any]) -> bytes:
    """Return a document without primary data (JSON:API 1.0, Top Level)."""
    return orjson.dumps({"jsonapi": JSONAPI, "links": links, "meta": meta})


async def encode_stream(
    primary: AsyncIterable[Part | Identifiers],
    included: AsyncIterable[Part] | None,
    query: Query,
    envelope: Envelope,
) -> AsyncGenerator[bytes]:
    """Yield a document in pieces (JSON:API 1.0, Document Structure).

    primary: the parts of `data`, none of them empty; one is in memory at a time. included: the
    parts of `included`, consumed after `primary`; None if the request does not have `include`.
    """
    links, meta, many = envelope
    yield b'{"data":[' if many else b'{"data":'
    count = 0
    async for part in primary:
        prefix = b"," if count else b""
        if isinstance(part, Identifiers):
            await pause()
            yield prefix + ",".join(identifiers(*part)).encode()
            count += len(part.ids)
            continue
        async for piece in _pieces(part, query, prefix):
            yield piece
        count += len(part.records)
    if many:
        yield b"]"
        meta = meta or {"count": count}
    if included is not None:
        prefix = b',"included":['
        async for part in included:
            async for piece in _pieces(part, query, prefix):
                yield piece
            prefix = b","
        yield b"]" if prefix == b"," else prefix + b"]"
    closing = {"jsonapi": JSONAPI, "links": links, **({"meta": meta} if meta else {})}
    yield b"," + orjson.dumps(closing)[1:]


async def _pieces(part: Part, query: Query, prefix: bytes) -> AsyncGenerator[bytes]:
    """Yield the resource objects of a part, after a prefix."""

    def encode() -> str:
        return ",".join(resource_objects(*part, query))

    await pause()
    text = await offload(encode, size=part.size, limit=LARGE_PART)
    first, *others = text.split(STREAMED)
    yield prefix + first.encode()
    for linked, following in zip(part.streamed, others, strict=True):
        async with aclosing(linked.chunks) as chunks:
            separator = ""
            async for ids in chunks:
                yield (separator + ",".join(identifiers(linked.type, ids))).encode()
                separator = ","
        yield following.encode()


def encode_results(objects: Sequence[str | None], effects: Iterable[Effect | None] = ()) -> bytes:
    """Return a document of operation results. objects: None for a result without one."""
    members: list[dict[str, Any]] = [
        {} if text is None else {"data": Fragment(text)} for text in objects
    ]
    for member, effect in zip(members, effects, strict=False):
        if effect is not None:
            member["meta"] = {"effect": effect}
    return orjson.dumps({RESULTS: members, "jsonapi": JSONAPI})


def encode_errors(errors: Sequence[ApiError], request_id: str) -> bytes:
    """Return a document of errors. Their ids are that of the request, then with `-2`, `-3` ..."""
    ids = [request_id, *(f"{request_id}-{number}" for number in range(2, len(errors) + 1))]
    objects = [error.to_object(id_) for error, id_ in zip(errors, ids, strict=True)]
    return orjson.dumps({"errors": objects, "jsonapi": JSONAPI})


def written_linkage(record: Record, change: Change) -> Mapping[str, Mapping[int, LinkedIds]]:
    """Return the relationships that a request has changed, by name and id of the resource."""
    id_ = record["_id"]
    return {linkage.relationship.name: {id_: linkage.linked_ids} for linkage in change.linkages}
