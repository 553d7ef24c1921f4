"""Stored records -> response document (JSON:API 1.0, Document Structure)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from registry.jsonapi.errors import ApiError
from registry.jsonapi.operations import RESULTS
from registry.jsonapi.order import BY_ID
from registry.jsonapi.page import CursorPage, Cursors, Window, page_links
from registry.jsonapi.query import Query
from registry.resource import FirstPage, Graph, Linked, Record, Resource

Links: TypeAlias = "Mapping[str, Mapping[int, Mapping[str, Linked]]]"
"""Type and id of a resource -> name of a relationship -> what it is linked to."""

JSONAPI = {"version": "1.0"}


@dataclass(frozen=True, slots=True)
class Compound:
    """What goes into a document beside the primary resources.

    links: the relationships to show, of primary and included resources alike. included: records
    of each type; None when the request did not ask for included resources.
    """

    links: Links
    included: Mapping[str, Sequence[Record]] | None


PLAIN = Compound({}, None)
"""Nothing beside the primary resources."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some resources of one type, with the relationships to show of them."""

    resource: Resource
    records: Sequence[Record]
    links: Links


def whole(
    data: Any,
    compound: Compound,
    query: Query,
    graph: Graph,
    links: Mapping[str, str | None],
    meta: Mapping[str, int] | None = None,
) -> bytes:
    """Return a document in one piece (sections 4.6 and 4.7 of the service description).

    data: a resource object, an identifier or null, or an array of them. meta: counts.
    """
    return orjson.dumps(
        {
            "data": data,
            **_included(compound, query, graph),
            "jsonapi": JSONAPI,
            "links": links,
            **({"meta": meta} if meta else {}),
        }
    )


def results(objects: Sequence[Mapping[str, Any] | None]) -> bytes:
    """Return what operations have led to, each a resource object or nothing to be shown."""
    found = [{} if one is None else {"data": one} for one in objects]
    return orjson.dumps({RESULTS: found, "jsonapi": JSONAPI})


def identifiers(resource: Resource, records: Iterable[Record]) -> list[dict[str, str]]:
    """Return resource identifier objects."""
    return [{"type": resource.type, "id": str(record["_id"])} for record in records]


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
    objects = resource_objects(part.resource, part.records, part.links, query)
    return orjson.dumps(objects)[1:-1]


def errors(problems: Sequence[ApiError], request_id: str) -> bytes:
    """Return a document of error objects (JSON:API 1.0, Errors)."""
    return orjson.dumps(
        {"errors": [problem.to_object(request_id) for problem in problems], "jsonapi": JSONAPI}
    )


def resource_objects(
    resource: Resource, records: Sequence[Record], links: Links, query: Query
) -> list[dict[str, Any]]:
    """Return resource objects (section 2.3 of the service description)."""
    project, path = resource.projection(query.attributes(resource)), resource.path
    objects: list[dict[str, Any]] = [
        {
            "type": resource.type,
            "id": str(number := record["_id"]),
            "attributes": project(record),
            "links": {"self": path(number)},
        }
        for record in records
    ]
    if linked := links.get(resource.type):
        for shown, record in zip(objects, records, strict=True):
            if names := linked.get(record["_id"]):
                own = shown.pop("links")  # which people look for at the end
                shown["relationships"] = _relationships(resource, record["_id"], names)
                shown["links"] = own
    return objects


def _relationships(resource: Resource, number: int, linked: Mapping[str, Linked]) -> dict[str, Any]:
    shown = {}
    for name, ids in linked.items():
        links: Mapping[str, str | None] = resource.relationship_links(number, name)
        if isinstance(ids, FirstPage):
            links = {**links, **_first_page_links(resource, number, name, ids)}
        shown[name] = {"data": _linkage(resource.relationships[name].target, ids), "links": links}
    return shown


def _linkage(target: str, linked: Linked) -> dict[str, str] | list[dict[str, str]] | None:
    if linked is None:
        return None
    if isinstance(linked, int):
        return {"type": target, "id": str(linked)}
    ids = linked.ids if isinstance(linked, FirstPage) else linked
    return [{"type": target, "id": str(number)} for number in ids]


def _first_page_links(
    resource: Resource, number: int, name: str, linked: FirstPage
) -> dict[str, str | None]:
    page = CursorPage(linked.size, Cursors(resource.relationships[name].target, BY_ID))
    first, last = ((linked.ids[0],), (linked.ids[-1],)) if linked.ids else (None, None)
    window = Window((), linked.more, first, last)
    return page_links(page, window, resource.relationship_path(number, name))


def _included(compound: Compound, query: Query, graph: Graph) -> dict[str, Any]:
    if compound.included is None:
        return {}
    return {
        "included": [
            resource
            for name, records in compound.included.items()
            for resource in resource_objects(graph[name], records, compound.links, query)
        ]
    }
