"""What a request can be refused for, raised by the code that refuses it."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from registry.http.limits import Limits
from registry.jsonapi.atomic_operations import OPERATIONS, load_operations
from registry.jsonapi.content_negotiation import MEDIA_TYPE, check_accept, check_content_type
from registry.jsonapi.errors import (
    ApiError,
    ApiErrors,
    BodyTooLarge,
    ExpectationFailed,
    InternalError,
    InvalidParameter,
    MalformedRequest,
    NotFound,
    PreconditionFailed,
    QueryTooSlow,
    RequestTimeout,
    Unavailable,
)
from registry.jsonapi.links import resource_path
from registry.jsonapi.query import Scope, parse
from registry.jsonapi.request_documents import Mode, load, load_linkage
from registry.model.graph import Graph
from registry.model.resource import Relationship, Resource
from registry.openapi.parameters import bounded_paths
from registry.openapi.schemas import Json
from registry.settings import Settings


def of_query(scope: Scope) -> list[ApiError]:
    """Return a problem of each kind that any request with these parameters can meet."""

    def refused(*parameters: tuple[str, str]) -> ApiError:
        return _raised(lambda: parse(parameters, scope))

    found, too_large = [refused(("unknown", "1"))], str(scope.sizes.largest + 1)
    if scope.many:
        found += [
            refused(("page[size]", too_large)),
            refused(("page[after]", "x"), ("page[before]", "x")),
            QueryTooSlow(Settings().query_seconds),
        ]
    elif bounded := bounded_paths(scope):
        found.append(refused(("include", bounded[0]), (f"page[{bounded[0]}][size]", too_large)))
    return [*found, _unsupported(), *_of_any_request()]


def of_no_query() -> list[ApiError]:
    """Return a problem of each kind that any request without parameters can meet."""
    unknown = InvalidParameter("There is no parameter `unknown` here.", parameter="unknown")
    return [unknown, _unsupported(), *_of_any_request()]


def of_id(resource: Resource) -> list[ApiError]:
    """Return the problem of a path, or of linkage, that names no resource."""
    return [NotFound.resource(resource.type, "999")]


def of_if_match() -> list[ApiError]:
    """Return the problem of a request that is about another version."""
    return [PreconditionFailed()]


def of_resource(resource: Resource) -> list[ApiError]:
    """Return a problem of each kind that a document with a resource can have."""

    def refused(data: Json | None) -> ApiError:
        return _raised(lambda: load(orjson.dumps({"data": data}), resource, creating=False))

    return [
        refused(None),
        refused({"type": "other"}),
        *_of_body(),
        refused({"type": resource.type, "attributes": {"unknown": "x"}}),
    ]


def of_linkage(relationship: Relationship) -> list[ApiError]:
    """Return a problem of each kind that a document with linkage can have."""

    def refused(identifier: Json) -> ApiError:
        data = [identifier] if relationship.to_many else identifier
        body = orjson.dumps({"data": data})
        return _raised(lambda: load_linkage(body, relationship, Mode.REPLACE))

    return [
        refused({"type": relationship.target}),
        refused({"type": "other", "id": "1"}),
        *_of_body(),
    ]


def of_operations(graph: Graph, most: int, extension: str) -> list[ApiError]:
    """Return a problem of each kind that a request with operations can meet."""
    resource = next(iter(graph.values()))

    def refused(**operation: Json | str) -> ApiError:
        body = orjson.dumps({OPERATIONS: [operation]})
        return _raised(lambda: load_operations(body, graph, most))

    unknown = {"type": resource.type, "attributes": {"unknown": "x"}}
    return [
        *of_no_query(),
        refused(op="unknown"),
        refused(op="remove", href="/unknown"),
        refused(op="update", href=resource_path(resource, 1), data={"type": "other"}),
        *_of_body(extension),
        refused(op="add", data=unknown),
    ]


def _of_any_request() -> list[ApiError]:
    return [
        MalformedRequest("The header `Host` is not a valid host name."),
        _raised(lambda: check_accept((f"{MEDIA_TYPE}; charset=utf-8",))),
        RequestTimeout("head", Limits().arrival_seconds),
        ExpectationFailed(),
        InternalError(),
        Unavailable(),
    ]


def _of_body(extension: str | None = None) -> list[ApiError]:
    return [BodyTooLarge(Limits().body_bytes), _unsupported(extension)]


def _unsupported(extension: str | None = None) -> ApiError:
    return _raised(lambda: check_content_type(f"{MEDIA_TYPE}; charset=utf-8", extension))


def _raised(call: Callable[[], object]) -> ApiError:
    """Return the error that a call of the protocol raises: an example that cannot be untrue."""
    try:
        call()
    except ApiError as error:
        return error
    except ApiErrors as several:
        return several.errors[0]
    raise AssertionError("this is no example of an error")
