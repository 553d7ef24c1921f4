"""The routes -> the paths with their operations, in the order of Swagger UI."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from registry.access.authorization import Requirement
from registry.http.application import routes_of_api
from registry.http.responses import POSITION
from registry.http.routes import Route
from registry.http.views.all_types import FeedView
from registry.http.views.resources import RelatedView
from registry.jsonapi import error_types as errors
from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.operation_documents import MAX_OPERATIONS
from registry.jsonapi.query import QueryScope
from registry.jsonapi.request_documents import MAX_CONTAINERS
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.openapi import examples
from registry.openapi.parameters import ParameterComponents
from registry.openapi.schemas import Json, code, reference, schema_of, title
from registry.protocol import (
    CSV_TYPE,
    EVENT_STREAM,
    EXTENSION,
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_REPLAYED,
    MEDIA_TYPE,
    NDJSON_TYPE,
    PREFER,
    PREFERENCE_APPLIED,
    REQUEST_ID,
    media_type,
)
from registry.settings import Settings

SECURITY_SCHEME = "accessToken"

_ANY_REQUEST = (400, 403, 406, 408, 412, 415, 417, 421, 500, 503)
"""The statuses of errors that any request can have."""

_ACCESS = (
    errors.InvalidAuthorization,
    errors.AuthenticationRequired,
    errors.InvalidToken,
    errors.InsufficientScope,
    errors.IssuerUnavailable,
)


def _header(description: str, *, always: bool = True) -> Json:
    return {"description": description, "required": always, "schema": {"type": "string"}}


HEADERS: Json = {
    REQUEST_ID: _header("The id of the request; the log contains it too."),
    "Vary": _header("The request headers that the response depends on."),
    POSITION: _header("The position of the document in the change feed, which continues from it."),
    "ETag": _header(
        "The entity tag, for `If-None-Match` and `If-Match`; a whole collection has none.",
        always=False,
    ),
    "Location": _header("The path of the new resource."),
    "Content-Disposition": _header("The name of the file, of CSV.", always=False),
    IDEMPOTENCY_REPLAYED: _header(
        f"Present if an earlier request with the same `{IDEMPOTENCY_KEY}` has this result.",
        always=False,
    ),
    PREFERENCE_APPLIED: _header("The preferences that were applied.", always=False),
    "Accept-Encoding": _header("The encodings of bodies that are supported.", always=False),
    "Retry-After": _header("Seconds to wait before the next attempt.", always=False),
    "WWW-Authenticate": _header(
        "How to authenticate, and why the request is refused (RFC 6750, 3).", always=False
    ),
}
"""The headers of responses, which are components."""

_TEXT: Json = {"schema": {"type": "string"}}
"""What is not JSON."""

_REPORT = (
    "Of a file, a report, sent while its rows are stored: lines of JSON with the `errors` of a "
    "row, whose `source` has its `line` and `column`, or with the counts so far in `meta`. The "
    "last line has `complete: true` there, or `errors` that say why the import has ended before."
)
"""What the import of a file responds with."""

_READ = (POSITION, "ETag")
_WRITTEN = ("ETag", IDEMPOTENCY_REPLAYED, PREFERENCE_APPLIED)
"""The headers of documents that are read and written."""

_TEXTS = {
    "list_{types}": "The whole collection, or the resources that `filter` selects, or a page of "
    "them. `meta.count` is the number of resources in the response. With "
    f"`Accept: {CSV_TYPE}`, a table for spreadsheets: `fields` selects the columns, and `include` "
    "adds those of to-one relationships.",
    "create_{type}": "The service assigns the id. Resources in to-many relationships that are "
    "linked elsewhere move. Without `fields`, the response contains the writable attributes. "
    f"With `Content-Type: {CSV_TYPE}`, a file with a header and a row per resource is imported, "
    "whatever its size; its `charset` may be another than UTF-8. A file has the parameters `rows` "
    "only: with another, such as `include`, `fields` or `withCount`, or with the header "
    f"`{IDEMPOTENCY_KEY}`, it gets 400.",
    "read_{type}": "One resource by its id.",
    "update_{type}": "Changes only the attributes and relationships in the request, all of them or "
    "none. Linkage replaces the relationship; resources in to-many relationships that are linked "
    "elsewhere move. A read-only attribute may be sent back with the value of the resource, and "
    "changes nothing.",
    "delete_{type}": "Resources that are linked to it remain, without the link.",
    "list_{type}_{link}": "Supports the same parameters as any collection.",
    "read_{type}_{link}": "The related resource; `data` is null if there is none.",
    "read_{type}_{link}_linkage": "Resource identifiers only; `include` adds the resources.",
    "replace_{type}_{link}": "Replaces the linkage; null or `[]` clears it. Resources that are "
    "linked elsewhere move.",
    "add_{type}_{link}": "Resources that are linked elsewhere move; present members stay.",
    "remove_{type}_{link}": "The resources are no longer linked; other resources are ignored.",
    "perform_operations": f"Up to {MAX_OPERATIONS} operations, performed in order, all or none. A "
    "`lid` identifies a resource that a preceding operation adds. Media type: JSON:API with the "
    "extension Atomic Operations.",
    "follow_changes": f"With `Accept: {EVENT_STREAM}`, an endless stream of server-sent events in "
    "commit order, each an atomic operation that repeats a change. The id of the last event of a "
    "transaction is a position to continue from; while nothing changes, an event `position` has "
    "one every minute. Otherwise, a document with the present position and the oldest one kept.",
}
"""The description of each kind of operation, by the template of its id."""


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation of a path, of a kind in `_TEXTS`, with its successful responses.

    scope: of its query parameters.
    """

    method: str
    kind: str
    responses: Json
    scope: QueryScope | None = None
    body: Json | None = None


def describe_paths(
    graph: Graph, settings: Settings, parameters: ParameterComponents
) -> dict[str, Json]:
    """Return the Path Item Objects of all routes."""
    return {
        route.path: {
            operation.method: _described(operation, route, graph, settings, parameters)
            for operation in _operations(route, graph)
            if operation.method.upper() in route.needs
        }
        for route in sorted(routes_of_api(graph, settings.page_size), key=attrgetter("path"))
    }


def error_responses(graph: Graph, settings: Settings) -> Json:
    """Return the component responses with errors, one for each status."""
    # A request with another method is no operation.
    absent = {errors.MethodNotAllowed, *(() if settings.requires_tokens else _ACCESS)}
    if not any(resource_type.unique_attributes for resource_type in graph.values()):
        absent.add(errors.ValueTaken)
    by_status = defaultdict[int, list[type[ApiError]]](list)
    for error in errors.error_types():
        if error not in absent:
            by_status[error.status].append(error)
    headers = {415: "Accept-Encoding", 503: "Retry-After"}
    if settings.requires_tokens:
        headers |= dict.fromkeys((400, 401, 403), "WWW-Authenticate")
    return {
        f"Error{status}": _response(
            "\n".join(map(_error_text, by_status[status])),
            reference("schemas", "ErrorDocument"),
            *([headers[status]] if status in headers else ()),
        )
        for status in sorted(by_status)
    }


def _error_text(error: type[ApiError]) -> str:
    return f"- `{error.code}`: {error.description}"


def _described(
    operation: _Operation,
    route: Route,
    graph: Graph,
    settings: Settings,
    parameters: ParameterComponents,
) -> Json:
    """Return an Operation Object."""
    statuses = _error_statuses(operation, route)
    tag, names, access = "Operations", dict[str, str](), dict[str, Json | list[Json]]()
    if route.view is FeedView:
        tag = "Changes"
    if route.relationship:
        names["link"] = route.relationship.name
    if route.scope:
        named = route.scope.resource
        tag, names = title(named), names | {"type": named.type, "types": named.collection}
    name, description = operation.kind.format(**names), _TEXTS[operation.kind]
    if settings.requires_tokens:
        statuses.add(401)
        # The scopes of operations and of the feed depend on the types that these name.
        action = route.needs[operation.method.upper()].action
        of_all_types = [Requirement(action, resource_type) for resource_type in graph.writable]
        required = route.requirements[operation.method.upper()] or of_all_types
        scopes = dict.fromkeys(requirement.scopes[0] for requirement in required)
        description += f"\n\nRequired scopes: {code(scopes)}."
        access = {"security": [{SECURITY_SCHEME: []}]}
    failures = {
        str(status): reference("responses", f"Error{status}") for status in sorted(statuses)
    }
    return {
        "tags": [tag],
        "operationId": name,
        "summary": name.replace("_", " ").capitalize(),
        "description": description,
        **access,
        "parameters": _parameters_of(operation, route, parameters),
        **({"requestBody": operation.body} if operation.body else {}),
        "responses": operation.responses | failures,
    }


def _error_statuses(operation: _Operation, route: Route) -> set[int]:
    """Return the statuses of the errors that an operation can have without access tokens."""
    statuses = {*_ANY_REQUEST}
    if "{id}" in route.path:
        statuses.add(404)
    if operation.body:
        statuses |= {409, 413} if route.relationship else {404, 409, 413, 422}
    if operation.method == "delete":
        statuses.add(413)
    if operation.method == "post":
        statuses.add(422)
    if route.view is FeedView:
        statuses.add(410)
    return statuses


def _parameters_of(
    operation: _Operation, route: Route, parameters: ParameterComponents
) -> list[Json]:
    """Return references to the parameters of an operation, in the order of Swagger UI."""
    shown, refer = list[Json](), partial(reference, "parameters")
    if "{id}" in route.path:
        shown.append(refer("id" if operation.method == "get" else "changed-id"))
    if operation.scope:
        is_csv = operation.body is not None and CSV_TYPE in operation.body["content"]
        shown += parameters.of_query(operation.scope, with_rows=is_csv)
    if operation.method == "post":
        shown.append(refer(IDEMPOTENCY_KEY))
        if not route.relationship:
            shown.append(refer(PREFER))
    if route.view is FeedView:
        shown += parameters.of_feed()
    if route.scope:
        shown += map(refer, ("If-Match", "If-None-Match"))
    return shown


def _operations(route: Route, graph: Graph) -> Iterator[_Operation]:
    """Yield the operations of a route."""
    scope, link = route.scope, route.relationship
    if scope is None:
        yield _follow_changes() if route.view is FeedView else _perform_operations(graph)
    elif link is None and "{id}" in route.path:
        yield from _of_resource(scope)
    elif link is None:
        yield from _of_collection(scope)
    else:
        related = replace(scope, resource=graph[link.target], many=link.to_many)
        if route.view is RelatedView:
            yield _read_related(related)
        else:
            yield from _of_linkage(scope.resource, link, related)


def _of_collection(scope: QueryScope) -> Iterator[_Operation]:
    resource_type = scope.resource
    yield _list("list_{types}", replace(scope, many=True))
    name, schema = resource_type.type, schema_of(resource_type, "Document")
    responses = {
        "200": _response(f"The {name} that is updated, as preferred. {_REPORT}", schema, *_WRITTEN),
        "201": _response(f"The new {name}.", schema, "Location", *_WRITTEN),
    }
    body = _body(schema_of(resource_type, "Create"), examples.creation(resource_type))
    body["description"] += " Or a CSV file: see above."
    body["content"][CSV_TYPE] = _TEXT | {"example": examples.rows(resource_type)}
    responses["200"]["content"][NDJSON_TYPE] = _TEXT
    yield _Operation("post", "create_{type}", responses, scope, body)


def _of_resource(scope: QueryScope) -> Iterator[_Operation]:
    resource_type = scope.resource
    name, schema = resource_type.type, schema_of(resource_type, "Document")
    yield _Operation("get", "read_{type}", _read(f"The {name}.", schema), scope)
    updated = _response(f"The updated {name}.", schema, "ETag")
    body = _body(schema_of(resource_type, "Update"), examples.update(resource_type))
    yield _Operation("patch", "update_{type}", {"200": updated}, scope, body)
    yield _Operation("delete", "delete_{type}", {"204": _applied()})


def _read_related(scope: QueryScope) -> _Operation:
    """Return the operation that reads related resources."""
    if scope.many:
        return _list("list_{type}_{link}", scope)
    schema = schema_of(scope.resource, "DocumentOrNull")
    responses = _read(f"The {scope.resource.type}, or null.", schema)
    return _Operation("get", "read_{type}_{link}", responses, scope)


def _list(kind: str, scope: QueryScope) -> _Operation:
    """Return the operation that reads a collection."""
    resource_type = scope.resource
    responses = _read(f"The {resource_type.collection}.", schema_of(resource_type, "Collection"))
    responses["200"]["content"][CSV_TYPE] = _TEXT
    responses["200"]["headers"] |= _headers("Content-Disposition")
    return _Operation("get", kind, responses, scope)


def _of_linkage(
    owner: ResourceType, link: Relationship, related: QueryScope
) -> Iterator[_Operation]:
    kind, verbs = "ToOne", {"patch": "replace"}
    if link.to_many:
        kind, verbs = "ToMany", {"patch": "replace", "post": "add", "delete": "remove"}
    responses = _read("The resource identifiers.", schema_of(related.resource, f"{kind}Linkage"))
    identifiers = replace(related, linkage=(owner, link))
    yield _Operation("get", "read_{type}_{link}_linkage", responses, identifiers)
    for method, verb in verbs.items():
        schema = schema_of(related.resource, kind + ("Removal" if verb == "remove" else "Change"))
        applied = {"204": _applied(*([IDEMPOTENCY_REPLAYED] if verb == "add" else []))}
        body = _body(schema, examples.linkage(link))
        yield _Operation(method, f"{verb}_{{type}}_{{link}}", applied, body=body)


def _perform_operations(graph: Graph) -> _Operation:
    extended, headers = media_type(EXTENSION), (IDEMPOTENCY_REPLAYED, PREFERENCE_APPLIED)
    description = "The results, in the order of the operations."
    result = _response(description, reference("schemas", "Results"), *headers, type_=extended)
    body = _body(reference("schemas", "Operations"), examples.operations(graph), extended)
    return _Operation("post", "perform_operations", {"200": result}, body=body)


def _follow_changes() -> _Operation:
    description = "The events, or the document with positions."
    shown = _response(description, reference("schemas", "Positions"), POSITION)
    shown["content"][EVENT_STREAM] = _TEXT
    return _Operation("get", "follow_changes", {"200": shown})


def _read(description: str, schema: Json) -> Json:
    unmodified = "`If-None-Match` has the entity tag of the response."
    return {
        "200": _response(description, schema, *_READ),
        "304": {"description": unmodified, "headers": _headers(*_READ)},
    }


def _applied(*headers: str) -> Json:
    return {"description": "The change has been applied.", "headers": _headers(*headers)}


def _headers(*names: str) -> Json:
    """Return the headers of a response: these components, and those of all responses."""
    return {name: reference("headers", name) for name in (REQUEST_ID, "Vary", *names)}


def _response(description: str, schema: Json, *headers: str, type_: str = MEDIA_TYPE) -> Json:
    """Return a response with a document. headers: beside those of all responses."""
    content = {type_: {"schema": schema}}
    return {"description": description, "headers": _headers(*headers), "content": content}


def _body(schema: Json, example: Json, type_: str = MEDIA_TYPE) -> Json:
    description = f"A document of at most {MAX_CONTAINERS:,} objects and arrays."
    content = {type_: {"schema": schema, "example": example}}
    return {"description": description, "required": True, "content": content}
