"""The graph -> example documents that fit together: the resources with the id 1, all linked."""

from __future__ import annotations

from collections.abc import Callable, Collection

import orjson

from registry.jsonapi import document
from registry.jsonapi.document import JSONAPI
from registry.jsonapi.errors import (
    ApiError,
    ApiErrors,
    BodyTooLarge,
    ExpectationFailed,
    InternalError,
    MalformedRequest,
    NotFound,
    RequestTimeout,
    Unavailable,
)
from registry.jsonapi.media import MEDIA_TYPE, check_accept, check_content_type
from registry.jsonapi.page import Sizes
from registry.jsonapi.payload import load
from registry.jsonapi.query import Scope, parse
from registry.limits import Limits
from registry.openapi_schemas import Json, attribute, collection_url
from registry.resource import Graph, Resource

REQUEST_ID = "7f2c9a1e5b8d4c30a6e1f0d29b47c583"


def reading_problems(resource: Resource, graph: Graph) -> list[ApiError]:
    """Return a problem of each kind that a request for a collection can meet."""
    return [
        MalformedRequest("The header `Host` is no host name."),
        _raised(lambda: parse([("sort", "x")], Scope(resource, graph, Sizes(1, 1), many=True))),
        _raised(lambda: check_accept([f"{MEDIA_TYPE}; charset=utf-8"])),
        RequestTimeout("head", Limits().arrival_seconds),
        ExpectationFailed(),
        InternalError(),
        Unavailable(),
    ]


def finding_problems(resource: Resource, graph: Graph) -> list[ApiError]:
    """Return a problem of each kind that a request for one resource can meet."""
    return [*reading_problems(resource, graph), NotFound.resource(resource.type, "999")]


def writing_problems(resource: Resource, graph: Graph) -> list[ApiError]:
    """Return a problem of each kind that a request with a body can meet."""

    def refused(data: Json | None) -> ApiError:
        return _raised(lambda: load(orjson.dumps({"data": data}), resource, creating=False))

    return [
        *finding_problems(resource, graph),
        refused(None),
        refused({"type": "other"}),
        refused({"type": resource.type, "attributes": {"unknown": "x"}}),
        BodyTooLarge(Limits().body_bytes),
        _raised(lambda: check_content_type(f"{MEDIA_TYPE}; charset=utf-8")),
    ]


def _raised(call: Callable[[], object]) -> ApiError:
    """Return the error that a call of the protocol raises: an example that cannot be untrue."""
    try:
        call()
    except ApiError as error:
        return error
    except ApiErrors as several:
        return several.errors[0]
    raise AssertionError("this is no example of an error")


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
        "links": {"self": collection_url(resource, query)},
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
