"""Stored records -> response document (JSON:API 1.0, Document Structure)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
from orjson import Fragment

from registry.jsonapi.atomic_operations import RESULTS
from registry.jsonapi.errors import ApiError
from registry.jsonapi.query import Query
from registry.jsonapi.request_documents import Change
from registry.jsonapi.resource_objects import array, renderer
from registry.model.graph import Graph
from registry.model.record import LinkedIds, Record
from registry.model.resource import Resource

LinkageById: TypeAlias = "Mapping[str, Mapping[str, Mapping[int, LinkedIds]]]"
"""Type -> name of a relationship to show -> id of a resource -> what that is linked to."""

JSONAPI = {"version": "1.0"}


@dataclass(frozen=True, slots=True)
class Compound:
    """What goes into a document beside the primary resources.

    links: the relationships to show, of primary and included resources alike. included: records
    of each type; None when the request did not ask for included resources.
    """

    links: LinkageById
    included: Mapping[str, Sequence[Record]] | None


PLAIN = Compound({}, None)
"""Nothing beside the primary resources."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some resources of one type, with the relationships to show of them."""

    resource: Resource
    records: Sequence[Record]
    links: LinkageById


def whole(
    data: str,
    compound: Compound,
    query: Query,
    graph: Graph,
    links: Mapping[str, str | None],
    meta: Mapping[str, int] | None = None,
) -> bytes:
    """Return a document in one piece (sections 4.6 and 4.7 of the service description).

    data: as JSON, a resource object, an identifier or null, or an array of them. meta: counts.
    """
    return orjson.dumps(
        {
            "data": Fragment(data),
            **_included(compound, query, graph),
            "jsonapi": JSONAPI,
            "links": links,
            **({"meta": meta} if meta else {}),
        }
    )


def results(objects: Sequence[str | None]) -> bytes:
    """Return what operations have led to, each a resource object or nothing to be shown."""
    found = [{} if one is None else {"data": Fragment(one)} for one in objects]
    return orjson.dumps({RESULTS: found, "jsonapi": JSONAPI})


async def collection(
    primary: AsyncIterable[Part], included: AsyncIterable[Part] | None, query: Query, url: str
) -> AsyncGenerator[bytes]:
    """Yield a collection document in pieces (section 4.7 of the service description).

    primary: the parts of `data`, none of them empty; no more than one is held. included: those of
    `included`, read after the others; None when the request did not ask for them. url: the
    absolute URL of the request.
    """
    lead, count = b'{"data":[', 0
    async for part in primary:
        yield lead + _members(part, query)
        lead, count = b",", count + len(part.records)
    lead = (b"" if count else lead) + b"],"
    if included is not None:
        lead += b'"included":['
        async for part in included:
            yield lead + _members(part, query)
            lead = b","
        lead = lead.removesuffix(b",") + b"],"
    closing = {"jsonapi": JSONAPI, "links": {"self": url}, "meta": {"count": count}}
    yield lead + orjson.dumps(closing)[1:]


def _members(part: Part, query: Query) -> bytes:
    return ",".join(resource_objects(part.resource, part.records, part.links, query)).encode()


def errors(problems: Sequence[ApiError], request_id: str) -> bytes:
    """Return a document of error objects (JSON:API 1.0, Errors)."""
    return orjson.dumps(
        {"errors": [problem.to_object(request_id) for problem in problems], "jsonapi": JSONAPI}
    )


def resource_objects(
    resource: Resource, records: Sequence[Record], links: LinkageById, query: Query
) -> list[str]:
    """Return resource objects as JSON."""
    attributes, linked = query.attributes(resource), links.get(resource.type)
    if not linked:
        return renderer(resource, attributes, ())(records)
    try:
        return renderer(resource, attributes, tuple(linked))(records, *linked.values())
    except KeyError:  # some do not show all of the relationships
        return [_resource_object(resource, one, attributes, linked) for one in records]


def _resource_object(
    resource: Resource,
    record: Record,
    attributes: frozenset[str],
    linked: Mapping[str, Mapping[int, LinkedIds]],
) -> str:
    shown = {name: of for name, of in linked.items() if record["_id"] in of}
    (text,) = renderer(resource, attributes, tuple(shown))([record], *shown.values())
    return text


def written_links(record: Record, change: Change) -> Mapping[str, Mapping[int, LinkedIds]]:
    """Return the relationships that a request has changed, as `LinkageById` has those of a type."""
    return {one.relationship.name: {record["_id"]: one.linked_ids} for one in change.linkages}


def _included(compound: Compound, query: Query, graph: Graph) -> dict[str, Any]:
    if compound.included is None:
        return {}
    members = [
        text
        for name, records in compound.included.items()
        for text in resource_objects(graph[name], records, compound.links, query)
    ]
    return {"included": Fragment(array(members))}
