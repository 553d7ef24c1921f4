"""The graph -> consistent example documents: the resources with the id 1, all linked."""

from collections.abc import Collection

import orjson

from registry.jsonapi.documents import JSONAPI, encode_errors
from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.operation_documents import OPERATIONS, RESULTS
from registry.jsonapi.pagination import NumberedPage, PageSizes, Window, page_links
from registry.jsonapi.resource_objects import related_path, relationship_links, resource_path
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.openapi.schema_objects import Json, absolute

EXAMPLE_ID = "7f2c9a1e5b8d4c30a6e1f0d29b47c583"


def creation(resource: ResourceType) -> Json:
    """Return the document that creates the resource."""
    return {"data": _new(resource)}


def created(resource: ResourceType) -> Json:
    """Return the response to `creation`."""
    return _document(resource, _resource(resource, resource.writable))


def update(resource: ResourceType) -> Json:
    """Return a document that changes one attribute."""
    names = [name for name in resource.attributes if name in resource.writable][:1]
    return {"data": {"type": resource.type, "id": "1", "attributes": _attributes(resource, names)}}


def plain(resource: ResourceType) -> Json:
    """Return the resource without `include`."""
    return _document(resource, _resource(resource, resource.attributes))


def included(resource: ResourceType, graph: Graph) -> Json:
    """Return the resource with all its related resources."""
    targets = {relationship.target for relationship in resource.relationships.values()}
    others = [one for one in graph.values() if one.type in targets - {resource.type}]
    resources = [_resource(target, target.attributes) for target in others]
    return {**_document(resource, _linked(resource)), "included": resources}


def collection(document: Json, url: str) -> Json:
    """Return the collection at a URL with only the resource of a document."""
    return {**document, "data": [document["data"]], "links": {"self": url}, "meta": {"count": 1}}


def page(document: Json, sizes: PageSizes) -> Json:
    """Return the first numbered page of a collection."""
    url = f"{document['links']['self']}?page%5Bnumber%5D=1"
    window = Window(document["data"], more=False, total=1)
    links = {"self": url, **page_links(NumberedPage(1, sizes.default), window, url)}
    return {**document, "links": links, "meta": {"count": 1, "total": window.total}}


def related(document: Json | None, resource: ResourceType, name: str) -> Json:
    """Return the related resource of a to-one relationship: that of a document, or null."""
    document = document or {"data": None, "jsonapi": JSONAPI}
    return {**document, "links": {"self": related_path(resource, 1, name)}}


def linkage_document(resource: ResourceType, relationship: Relationship) -> Json:
    """Return the linkage of a relationship."""
    links = relationship_links(resource, 1, relationship.name)
    document = {"data": linkage(relationship), "jsonapi": JSONAPI, "links": links}
    if not relationship.to_many:
        return document
    urls = {name: absolute(path) for name, path in links.items()}
    return {**document, "links": urls, "meta": {"count": 1}}


def linkage(relationship: Relationship) -> Json | list[Json]:
    """Return resource linkage."""
    identifier = {"type": relationship.target, "id": "1"}
    return [identifier] if relationship.to_many else identifier


def operations(graph: Graph) -> Json:
    """Return a document that adds a resource of each type, and links them."""
    added = [_new(resource) | _local(resource.type) for resource in graph.values()]
    members: list[Json] = [{"op": "add", "data": data} for data in added]
    for resource, relationship in _to_one(graph):
        ref = {**_local(resource.type), "relationship": relationship.name}
        members.append({"op": "update", "ref": ref, "data": _local(relationship.target)})
    return {OPERATIONS: members}


def results(graph: Graph) -> Json:
    """Return the response to `operations`."""
    additions = [{"data": _resource(resource, resource.writable)} for resource in graph.values()]
    return {RESULTS: [*additions, *({} for _ in _to_one(graph))], "jsonapi": JSONAPI}


def error(example: ApiError) -> Json:
    """Return the error document of an error."""
    document: Json = orjson.loads(encode_errors([example], EXAMPLE_ID))
    return document


def _to_one(graph: Graph) -> list[tuple[ResourceType, Relationship]]:
    return [
        (resource, relationship)
        for resource in graph.values()
        for relationship in resource.relationships.values()
        if not relationship.to_many
    ]


def _local(type_name: str) -> Json:
    return {"type": type_name, "lid": f"new-{type_name}"}


def _new(resource: ResourceType) -> Json:
    return {"type": resource.type, "attributes": _attributes(resource, resource.writable)}


def _document(resource: ResourceType, data: Json) -> Json:
    return {"data": data, "jsonapi": JSONAPI, "links": {"self": resource_path(resource, 1)}}


def _linked(resource: ResourceType) -> Json:
    relationships = {
        name: {"data": linkage(relationship), "links": relationship_links(resource, 1, name)}
        for name, relationship in resource.relationships.items()
    }
    data = _resource(resource, resource.attributes)
    return data | ({"relationships": relationships} if relationships else {})


def _resource(resource: ResourceType, names: Collection[str]) -> Json:
    links = {"self": resource_path(resource, 1)}
    attributes = _attributes(resource, names)
    return {"type": resource.type, "id": "1", "attributes": attributes, "links": links}


def _attributes(resource: ResourceType, names: Collection[str]) -> Json:
    attributes = resource.attributes.items()
    return {name: one.openapi_schema()["example"] for name, one in attributes if name in names}
