"""The graph -> example documents that fit together: the resources with the id 1, all linked."""

from __future__ import annotations

from collections.abc import Collection

import orjson

from registry.jsonapi import document
from registry.jsonapi.document import JSONAPI
from registry.jsonapi.errors import (
    ApiError,
    BodyTooLarge,
    ExpectationFailed,
    InternalError,
    InvalidField,
    InvalidParameter,
    MalformedDocument,
    MalformedRequest,
    NotAcceptable,
    NotFound,
    RequestTimeout,
    TypeConflict,
    Unavailable,
    UnsupportedMediaType,
)
from registry.jsonapi.media import MEDIA_TYPE
from registry.openapi_schemas import Json, attribute
from registry.resource import Graph, Resource

Problems = tuple[ApiError, ...]

REQUEST_ID = "7f2c9a1e5b8d4c30a6e1f0d29b47c583"

READING_ALL: Problems = (
    MalformedRequest("The header `Host` is no host name."),
    InvalidParameter("`sort` is no parameter.", parameter="sort"),
    NotAcceptable(f"Every `{MEDIA_TYPE}` in the header `Accept` carries parameters."),
    RequestTimeout("The head of the request did not arrive within 30 s."),
    ExpectationFailed("The only expectation that is met is `100-continue`."),
    InternalError("The service failed to answer; its log says why."),
    Unavailable(),
)
"""One problem of each kind that a request for a collection can meet."""

READING_ONE: Problems = (*READING_ALL, NotFound("There is no `person` with the id `999`."))
WRITING: Problems = (
    *READING_ONE,
    MalformedDocument("`data` is not a resource object.", pointer="/data"),
    TypeConflict("The type here is `person`, not `computer`.", pointer="/data/type"),
    BodyTooLarge("Maximum request body size 1048576 exceeded, actual body size 2097152"),
    UnsupportedMediaType(f"Send the header `Content-Type: {MEDIA_TYPE}` with the body."),
    InvalidField("Missing data for required field.", pointer="/data/attributes/first_name"),
)


def creation(resource: Resource) -> Json:
    """Return the document that creates the resource."""
    attributes = _attributes(resource, resource.writable)
    return {"data": {"type": resource.type, "attributes": attributes}}


def created(resource: Resource) -> Json:
    """Return the answer to `creation`."""
    return _document(resource, _resource(resource, resource.writable))


def update(resource: Resource) -> Json:
    """Return a document that sends all that can be changed."""
    attributes = _attributes(resource, resource.writable)
    data = {"type": resource.type, "id": "1", "attributes": attributes}
    return {"data": data | _relationships(resource)}


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


def collection(resource: Resource, single: Json, query: str = "") -> Json:
    """Return the collection that holds nothing but the resource of a document."""
    return {
        **single,
        "data": [single["data"]],
        "links": {"self": f"http://localhost:8080/{resource.collection}{query}"},
        "meta": {"count": 1},
    }


def error(problem: ApiError) -> Json:
    """Return the error document of a problem."""
    found: Json = orjson.loads(document.errors([problem], REQUEST_ID))
    return found


def _document(resource: Resource, data: Json) -> Json:
    return {"data": data, "jsonapi": JSONAPI, "links": {"self": resource.path(1)}}


def _linked(resource: Resource) -> Json:
    return _resource(resource, resource.attributes) | _relationships(resource)


def _resource(resource: Resource, names: Collection[str]) -> Json:
    return {
        "type": resource.type,
        "id": "1",
        "attributes": _attributes(resource, names),
        "links": {"self": resource.path(1)},
    }


def _attributes(resource: Resource, names: Collection[str]) -> Json:
    return {
        name: attribute(resource, name)["example"] for name in resource.attributes if name in names
    }


def _relationships(resource: Resource) -> Json:
    found = {}
    for name, relationship in resource.relationships.items():
        identifier = {"type": relationship.target, "id": "1"}
        found[name] = {"data": [identifier] if relationship.to_many else identifier}
    return {"relationships": found} if found else {}
