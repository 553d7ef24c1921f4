"""Stored records -> resource objects and identifiers (JSON:API 1.0, Resource Objects)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from registry.jsonapi.cursors import Cursors
from registry.jsonapi.links import relationship_links, relationship_path, resource_path
from registry.jsonapi.pagination import CursorPage, Window, page_links
from registry.jsonapi.query import Query
from registry.jsonapi.sorting import BY_ID
from registry.model.record import FirstPage, LinkedIds, Record
from registry.model.resource import Relationship, Resource
from registry.model.serialization import serializer_for

Json: TypeAlias = dict[str, Any]

LinkageById: TypeAlias = "Mapping[str, Mapping[str, Mapping[int, LinkedIds]]]"
"""Type -> relationship name -> id of a resource -> the ids it is linked to."""


def resource_objects(
    resource: Resource, records: Sequence[Record], linkage_by_id: LinkageById, query: Query
) -> list[Json]:
    """Return the resource objects of records (section 2.3 of the service description).

    A resource has only those relationships that `linkage_by_id` has an entry of for its id.
    """
    serialize = serializer_for(resource, query.attributes(resource))
    linked = [
        (resource.relationships[name], by_id)
        for name, by_id in linkage_by_id.get(resource.type, {}).items()
    ]
    objects = []
    for record in records:
        number = record["_id"]
        resource_object: Json = {
            "type": resource.type,
            "id": str(number),
            "attributes": serialize(record),
        }
        relationships = {
            relationship.name: _relationship_object(resource, number, relationship, by_id[number])
            for relationship, by_id in linked
            if number in by_id
        }
        if relationships:
            resource_object["relationships"] = relationships
        resource_object["links"] = {"self": resource_path(resource, number)}
        objects.append(resource_object)
    return objects


def linkage(type_name: str, numbers: Iterable[Any]) -> list[Json]:
    """Return the linkage of a to-many relationship to resources of this type."""
    return [{"type": type_name, "id": str(number)} for number in numbers]


def identifier(type_name: str, number: Any) -> Json:
    """Return a resource identifier. number: of any class if an external writer set it."""
    return {"type": type_name, "id": str(number)}


def _relationship_object(
    resource: Resource, number: int, relationship: Relationship, linked: LinkedIds
) -> Json:
    """Return a relationship object; its links include those of pages if the linkage is a page."""
    links: dict[str, str | None] = {**relationship_links(resource, number, relationship.name)}
    if isinstance(linked, FirstPage):
        links |= _page_links(resource, number, relationship, linked)
        return {"data": linkage(relationship.target, linked.ids), "links": links}
    if isinstance(linked, list):
        return {"data": linkage(relationship.target, linked), "links": links}
    data = None if linked is None else identifier(relationship.target, linked)
    return {"data": data, "links": links}


def _page_links(
    resource: Resource, number: int, relationship: Relationship, linked: FirstPage
) -> dict[str, str | None]:
    page = CursorPage(linked.size, Cursors(relationship.target, BY_ID))
    first, last = ((linked.ids[0],), (linked.ids[-1],)) if linked.ids else (None, None)
    window = Window((), linked.more, first, last)
    return page_links(page, window, relationship_path(resource, number, relationship.name))
