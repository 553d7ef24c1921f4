"""The graph -> example documents that fit together: the resources with the id 1, all linked."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import orjson

from registry.jsonapi.atomic_operations import OPERATIONS, RESULTS
from registry.jsonapi.documents import JSONAPI, encode_errors
from registry.jsonapi.errors import ApiError
from registry.jsonapi.links import related_path, relationship_links, resource_path
from registry.jsonapi.pagination import NumberedPage, Sizes, Window, page_links
from registry.model.graph import Graph
from registry.model.resource import Relationship, Resource
from registry.openapi.schemas import Json, absolute, attribute

REQUEST_ID = "7f2c9a1e5b8d4c30a6e1f0d29b47c583"


def creation(resource: Resource) -> Json:
    """Return the document that creates the resource."""
    return {"data": _new(resource)}


def created(resource: Resource) -> Json:
    """Return the answer to `creation`."""
    return _document(resource, _resource(resource, resource.writable))


def update(resource: Resource) -> Json:
    """Return a document that sends all that can be changed."""
    attributes = _attributes(resource, resource.writable)
    data = {"type": resource.type, "id": "1", "attributes": attributes}
    linked = {name: {"data": linkage(one)} for name, one in resource.relationships.items()}
    return {"data": data | ({"relationships": linked} if linked else {})}


def updated(resource: Resource) -> Json:
    """Return the answer to `update`."""
    return _document(resource, _linked(resource))


def plain(resource: Resource) -> Json:
    """Return the resource as it is read without `include`."""
    return _document(resource, _resource(resource, resource.attributes))


def included(resource: Resource, graph: Graph) -> Json:
    """Return the resource with everything that one step of `include` adds."""
    targets = {relationship.target for relationship in resource.relationships.values()}
    found = _document(resource, _linked(resource))
    found["included"] = [
        _resource(target, target.attributes)
        for target in graph.values()
        if target.type in targets - {resource.type}
    ]
    return found


def collection(single: Json, url: str) -> Json:
    """Return the collection at a URL that holds nothing but the resource of a document."""
    return {**single, "data": [single["data"]], "links": {"self": url}, "meta": {"count": 1}}


def page(whole: Json, sizes: Sizes) -> Json:
    """Return the first page of a collection, counted."""
    url = f"{whole['links']['self']}?page%5Bnumber%5D=1"
    window = Window([whole["data"]], more=False, total=1)
    links = {"self": url, **page_links(NumberedPage(1, sizes.default), window, url)}
    return {**whole, "links": links, "meta": {"count": 1, "total": window.total}}


def related(single: Json | None, resource: Resource, name: str) -> Json:
    """Return what a to-one relationship leads to: the resource of a document, or null."""
    found = {"data": None, "jsonapi": JSONAPI} if single is None else single
    return {**found, "links": {"self": related_path(resource, 1, name)}}


def linkage_document(resource: Resource, relationship: Relationship) -> Json:
    """Return the linkage of a relationship."""
    links = relationship_links(resource, 1, relationship.name)
    found = {"data": linkage(relationship), "jsonapi": JSONAPI, "links": links}
    if not relationship.to_many:
        return found
    urls = {name: absolute(path) for name, path in links.items()}
    return {**found, "links": urls, "meta": {"count": 1}}


def linkage(relationship: Relationship) -> Json | list[Json]:
    """Return resource linkage."""
    identifier = {"type": relationship.target, "id": "1"}
    return [identifier] if relationship.to_many else identifier


def operations(graph: Graph) -> Json:
    """Return a document that adds a resource of each type, and links them."""
    return {
        OPERATIONS: [
            *(
                {"op": "add", "data": {**_new(resource), "lid": _local_id(resource.type)}}
                for resource in graph.values()
            ),
            *(
                {
                    "op": "update",
                    "ref": {**_local(resource.type), "relationship": relationship.name},
                    "data": _local(relationship.target),
                }
                for resource, relationship in _to_one(graph)
            ),
        ]
    }


def results(graph: Graph) -> Json:
    """Return the answer to `operations`."""
    shown = [{"data": _resource(resource, resource.writable)} for resource in graph.values()]
    return {RESULTS: [*shown, *({} for _ in _to_one(graph))], "jsonapi": JSONAPI}


def error(problem: ApiError) -> Json:
    """Return the error document of a problem."""
    found: Json = orjson.loads(encode_errors([problem], REQUEST_ID))
    return found


def _to_one(graph: Graph) -> Iterable[tuple[Resource, Relationship]]:
    return [
        (resource, relationship)
        for resource in graph.values()
        for relationship in resource.relationships.values()
        if not relationship.to_many
    ]


def _local(type_name: str) -> Json:
    return {"type": type_name, "lid": _local_id(type_name)}


def _local_id(type_name: str) -> str:
    return f"new-{type_name}"


def _new(resource: Resource) -> Json:
    return {"type": resource.type, "attributes": _attributes(resource, resource.writable)}


def _document(resource: Resource, data: Json) -> Json:
    return {"data": data, "jsonapi": JSONAPI, "links": {"self": resource_path(resource, 1)}}


def _linked(resource: Resource) -> Json:
    linked = {
        name: {"data": linkage(relationship), "links": relationship_links(resource, 1, name)}
        for name, relationship in resource.relationships.items()
    }
    found = _resource(resource, resource.attributes)
    return found | ({"relationships": linked} if linked else {})


def _resource(resource: Resource, names: Collection[str]) -> Json:
    return {
        "type": resource.type,
        "id": "1",
        "attributes": _attributes(resource, names),
        "links": {"self": resource_path(resource, 1)},
    }


def _attributes(resource: Resource, names: Collection[str]) -> Json:
    return {
        name: attribute(resource, name)["example"] for name in resource.attributes if name in names
    }
