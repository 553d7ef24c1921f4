"""Stored records -> response document (JSON:API 1.0, Document Structure).

Resource objects are joined from text: building all of them as dicts and serializing these would
take 22 % more CPU for a page of 50 computers with their owners, and 26 % more for a list of 10,000
persons.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Collection,
    Iterable,
    Iterator,
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
from registry.jsonapi.pagination import BY_ID, CursorPage, Cursors, Window, page_links
from registry.jsonapi.query import Query
from registry.jsonapi.visible_revisions import visible_values
from registry.model.fieldset import fieldset
from registry.model.graph import Graph
from registry.model.record import (
    FirstPage,
    LinkedIds,
    Record,
    StreamedIds,
    ids_in,
)
from registry.model.resource_type import Relationship, ResourceType
from registry.model.revisions import subject_of
from registry.offloading import offload, pause
from registry.protocol import RESULTS

_NOT_SHOWN: LinkedIds = []
"""Stands for the linkage of a resource whose relationship is not shown."""

JSONAPI = {"version": "1.0"}

LARGE_PART = 5_000
"""Resources and identifiers of a stream that are rendered without serving others: about 5 ms."""

_STREAMED = "\0"
"""Stands for identifiers that are encoded while they are read: JSON has no such character."""


class Effect(StrEnum):
    """What an addition that merges has done, as the `meta` of its result says."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class Relationships(NamedTuple):
    """What resources show of their relationships, by type, name and id of the resource.

    linkage: the ids that it is linked to. counts: how many members it has.
    """

    linkage: Mapping[str, Mapping[str, Mapping[int, LinkedIds]]] = {}
    counts: Mapping[str, Mapping[str, Mapping[int, int]]] = {}


@dataclass(frozen=True, slots=True)
class Compound:
    """The relationships of all resources of a document, and the included ones.

    included: records by type; None if the request does not have `include`.
    """

    relationships: Relationships
    included: Mapping[str, Sequence[Record]] | None

    @property
    def size(self) -> int:
        """The number of included resources."""
        return sum(map(len, self.included.values())) if self.included else 0


PLAIN = Compound(Relationships(), None)
"""Neither relationships nor included resources."""


class Part(NamedTuple):
    """Resources of one type, with the relationships to show of them."""

    resource: ResourceType
    records: Sequence[Record]
    relationships: Relationships

    @property
    def size(self) -> int:
        """The number of resources and of the identifiers in their linkage."""
        linkage = self.relationships.linkage.get(self.resource.type, {})
        linked = chain.from_iterable(by_id.values() for by_id in linkage.values())
        return len(self.records) + sum(len(ids) for ids in linked if isinstance(ids, list))

    @property
    def streamed(self) -> list[StreamedIds]:
        """The linkage that is read while it is encoded, of a part with a single resource."""
        if len(self.records) > 1:
            return []
        linkage = self.relationships.linkage.get(self.resource.type, {})
        linked = [by_id.get(record["_id"]) for record in self.records for by_id in linkage.values()]
        return [ids for ids in linked if isinstance(ids, StreamedIds)]


class Envelope(NamedTuple):
    """What surrounds the data of a streamed document.

    meta: None for the number of primary resources, which is not known before. many: False for the
    document of a single resource or identifier, which has no `meta`.
    """

    links: Mapping[str, str | None]
    meta: Mapping[str, Any] | None = None
    many: bool = True


def encode_document(
    data: str,
    compound: Compound,
    query: Query,
    graph: Graph,
    links: Mapping[str, str | None],
    meta: Mapping[str, Any] | None = None,
) -> bytes:
    """Return a document. data: JSON text of a resource object, an identifier, null or an array."""
    included = {}
    if compound.included is not None:
        members = [
            text
            for name, records in compound.included.items()
            for text in resource_objects(graph[name], records, compound.relationships, query)
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


async def encode_stream(
    primary: AsyncIterable[Part],
    included: AsyncIterable[Part] | None,
    query: Query,
    envelope: Envelope,
) -> AsyncGenerator[bytes]:
    """Yield a document in pieces (JSON:API 1.0, Document Structure).

    primary: the parts of `data`, none of them empty; one is in memory at a time. included: the
    parts of `included`, consumed after `primary`; None if the request does not have `include`.
    """
    yield b'{"data":[' if envelope.many else b'{"data":'
    count = 0
    async for part in primary:
        async for piece in _pieces(part, query, b"," if count else b""):
            yield piece
        count += len(part.records)
    async for piece in _closing(included, query, envelope, count):
        yield piece


async def encode_linkage(
    ids: AsyncIterable[Sequence[int]],
    type_name: str,
    included: AsyncIterable[Part] | None,
    query: Query,
    envelope: Envelope,
) -> AsyncGenerator[bytes]:
    """Yield a document of resource identifiers in pieces.

    ids: of the primary data, which have this type. included: as for `encode_stream`.
    """
    yield b'{"data":[' if envelope.many else b'{"data":'
    count = 0
    async for some in ids:
        await pause()
        yield (b"," if count else b"") + ",".join(identifiers(type_name, some)).encode()
        count += len(some)
    async for piece in _closing(included, query, envelope, count):
        yield piece


async def _closing(
    included: AsyncIterable[Part] | None, query: Query, envelope: Envelope, count: int
) -> AsyncGenerator[bytes]:
    """Yield what follows so many primary resources, or identifiers."""
    links, meta, many = envelope
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
    first, *others = text.split(_STREAMED)
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


def path_of(resource: ResourceType, *segments: int | str) -> str:
    """Return the path of a collection, or one below it: `/persons`, `/persons/1/computers`."""
    return "/".join(("", resource.collection, *map(str, segments)))


def relationship_links(resource: ResourceType, identifier: int | str, name: str) -> dict[str, str]:
    """Return the links of a relationship object, `self` and `related`."""
    path = f"/{resource.collection}/{identifier}"
    return {"self": f"{path}/relationships/{name}", "related": f"{path}/{name}"}


def resource_objects(
    resource: ResourceType,
    records: Sequence[Record],
    relationships: Relationships,
    query: Query,
) -> list[str]:
    """Return the resource objects of records (JSON:API 1.0, Resource Objects).

    A resource shows only the relationships for which there is an entry with its id. The periods of
    a history show the ends of their link, also if these are deleted.
    """
    linked = relationships.linkage.get(resource.type, {})
    shown_links: list[list[str]] = []
    if resource.subject:
        shown_names = query.fields.get(resource.type, {resource.subject})
        if linked or resource.subject in shown_names:
            shown_links.append(_subjects(resource, records))
        linked = {}
    elif resource.read_only:
        names = {*query.fields.get(resource.type, resource.relationships), *linked}
        linked = {**linked, **_own_linkage(resource, records, names)}
    visible = visible_values(resource, records, query)
    dumped = fieldset(resource, query.attributes(resource)).dump_all(visible)
    texts = [orjson.dumps(attributes).decode() for attributes in dumped]
    start = f'{{"type":"{resource.type}","id":"'
    end = f'"links":{{"self":"{path_of(resource)}/'
    counted = relationships.counts.get(resource.type, {})
    ids = [record["_id"] for record in records]
    shown_links += [
        _relationships(resource, name, linked.get(name, {}), counted.get(name, {}), ids)
        for name in {**linked, **counted}
    ]
    if not shown_links:
        return [
            f'{start}{id_}","attributes":{text},{end}{id_}"}}}}'
            for id_, text in zip(ids, texts, strict=True)
        ]
    members = (
        shown_links[0] if len(shown_links) == 1 else map(_joined, zip(*shown_links, strict=True))
    )
    return [
        f'{start}{id_}","attributes":{text},"relationships":{{{shown}}},{end}{id_}"}}}}'
        if shown
        else f'{start}{id_}","attributes":{text},{end}{id_}"}}}}'
        for id_, text, shown in zip(ids, texts, members, strict=True)
    ]


def _joined(members: Iterable[str]) -> str:
    return ",".join(filter(None, members))


def _subjects(resource: ResourceType, records: Sequence[Record]) -> list[str]:
    """Return the relationship of each revision to its resource, which may be deleted."""
    members = list[str]()
    for record in records:
        subject = subject_of(resource, record)
        (data,) = identifiers(subject[0], [subject[1]]) if subject else ("null",)
        members.append(f'"{resource.subject}":{{"data":{data}}}')
    return members


def _own_linkage(
    resource: ResourceType, records: Sequence[Record], names: Collection[str]
) -> dict[str, dict[int, LinkedIds]]:
    """Return the to-one linkage of these names that records have themselves."""
    return {
        link.name: {record["_id"]: record.get(link.foreign_key) for record in records}
        for link in resource.links
        if link.name in names
    }


def linkage(type_name: str, linked: LinkedIds) -> str:
    """Return the linkage of a to-many relationship to resources of this type."""
    if isinstance(linked, StreamedIds):
        return array([_STREAMED])
    return array(identifiers(type_name, ids_in(linked)))


def identifiers(type_name: str, ids: Iterable[int]) -> list[str]:
    """Return resource identifier objects."""
    return [f'{{"type":"{type_name}","id":"{id_}"}}' for id_ in ids]


def array(members: Iterable[str]) -> str:
    """Return a JSON array."""
    return f"[{','.join(members)}]"


def _relationships(
    resource: ResourceType,
    name: str,
    linked: Mapping[int, LinkedIds],
    counted: Mapping[int, int],
    ids: Sequence[int],
) -> list[str]:
    """Return a relationship as a member of each resource, empty for those that do not show it."""
    relationship = resource.relationships[name]
    target, path = relationship.target, path_of(resource)
    if relationship.to_many:
        return [*_to_many(relationship, path, linked, counted, ids)]
    start, self_link = f'"{name}":{{"data":', f',"links":{{"self":"{path}/'
    identifier, null = f'{start}{{"type":"{target}","id":"', f"{start}null{self_link}"
    self_link = f'"}}{self_link}'
    related, end = f'/relationships/{name}","related":"{path}/', f'/{name}"}}}}'
    return [
        ""
        if (to := linked.get(id_, _NOT_SHOWN)) is _NOT_SHOWN
        else f"{null}{id_}{related}{id_}{end}"
        if to is None
        else f"{identifier}{to}{self_link}{id_}{related}{id_}{end}"
        for id_ in ids
    ]


def _to_many(
    relationship: Relationship,
    path: str,
    linked: Mapping[int, LinkedIds],
    counted: Mapping[int, int],
    ids: Sequence[int],
) -> Iterator[str]:
    """Yield a to-many relationship as a member of each resource. path: of the collection."""
    name = relationship.name
    start, end = f'{{"self":"{path}/', f'/{name}"}}'
    related = f'/relationships/{name}","related":"{path}/'
    for id_ in ids:
        to, count = linked.get(id_, _NOT_SHOWN), counted.get(id_)
        if to is _NOT_SHOWN and count is None:
            yield ""
            continue
        links = f"{start}{id_}{related}{id_}{end}"
        if isinstance(to, FirstPage):
            links = _links_of_pages(relationship, to, orjson.loads(links))
        data = "" if to is _NOT_SHOWN else f'"data":{linkage(relationship.target, to)},'
        meta = "" if count is None else f',"meta":{{"count":{count}}}'
        yield f'"{name}":{{{data}"links":{links}{meta}}}'


def _links_of_pages(relationship: Relationship, shown: FirstPage, links: Mapping[str, str]) -> str:
    """Return the links of a relationship of which a page is shown: its own, and those of pages."""
    page = CursorPage(shown.size, Cursors(relationship.target, BY_ID))
    first, last = ((shown.ids[0],), (shown.ids[-1],)) if shown.ids else (None, None)
    window = Window((), shown.more, first, last)
    return orjson.dumps({**links, **page_links(page, window, links["self"])}).decode()
