"""The endpoints -> the paths with their operations, in the order that Swagger UI shows them in."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import orjson

from registry.http.responses import POSITION
from registry.http.routes import endpoints
from registry.http.views.document_view import Endpoint
from registry.http.views.feed import FeedView
from registry.http.views.relationship import RelatedView
from registry.jsonapi import error_types as errors
from registry.jsonapi.authorization import required_by_method
from registry.jsonapi.documents import encode_errors
from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.operation_documents import MAX_OPERATIONS
from registry.jsonapi.query import QueryScope
from registry.jsonapi.request_documents import MAX_CONTAINERS
from registry.jsonapi.resource_objects import path_of
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.openapi import examples, parameters
from registry.openapi.schema_objects import Json, absolute, code, reference, schema_of, title
from registry.protocol import (
    CSV_TYPE,
    EVENT_STREAM,
    EXTENSION,
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_REPLAYED,
    MEDIA_TYPE,
    MERGE,
    PREFERENCE_APPLIED,
    REQUEST_ID,
    media_type,
)
from registry.settings import Settings

SECURITY_SCHEME = "accessToken"

_ANY_REQUEST = (400, 403, 406, 408, 412, 415, 417, 421, 431, 500, 503)
_WITH_LINKAGE = (409, 413)
_WITH_RESOURCES = (404, 409, 413, 422)
"""The statuses of errors: of any request, of one with linkage, and of one with resource objects,
whose linkage can name any resource."""

_ACCESS = (
    errors.InvalidAuthorization,
    errors.AuthenticationRequired,
    errors.TokenRejected,
    errors.InsufficientScope,
    errors.IssuerUnavailable,
)


def _header(description: str, example: str, *, always: bool = True) -> Json:
    schema = {"type": "string"}
    return {"description": description, "required": always, "schema": schema, "example": example}


_REQUEST_ID = "7f2c9a1e5b8d4c30a6e1f0d29b47c583"
_ETAG = '"1-e3b0c44298fc1c149afbf4c8-f6b268f4af267c83"'

HEADERS: Json = {
    "RequestId": _header("The id of the request; the log contains it too.", _REQUEST_ID),
    "Vary": _header("The request headers that the response depends on.", "Accept, Accept-Encoding"),
    "ETag": _header("The entity tag of the response, for `If-None-Match` and `If-Match`.", _ETAG),
    "Position": _header(
        "The position of the document in the change feed, which continues from it.",
        examples.POSITION,
    ),
}
"""The component headers."""

_ALWAYS: Json = {
    REQUEST_ID: reference("headers", "RequestId"),
    "Vary": reference("headers", "Vary"),
}
_AT: Json = {POSITION: reference("headers", "Position")}
_TAGGED: Json = {"ETag": reference("headers", "ETag")}
_PAGE_TAG = "The entity tag of a page, for `If-None-Match`; a whole collection has none."
_TAGGED_PAGE: Json = {"ETag": _header(_PAGE_TAG, _ETAG, always=False)}
_FILE = "The name of the file, of CSV."
_NAMED: Json = {
    "Content-Disposition": _header(_FILE, 'attachment; filename="persons.csv"', always=False)
}
_REPEATED = f"Present if an earlier request with the same `{IDEMPOTENCY_KEY}` has this result."
_REPLAYED: Json = {IDEMPOTENCY_REPLAYED: _header(_REPEATED, "true", always=False)}
_APPLIED = "The preferences that were applied, if there are any."
_PREFERRED: Json = {PREFERENCE_APPLIED: _header(_APPLIED, MERGE, always=False)}
_ERROR_HEADERS = {
    "Retry-After": "Seconds to wait before the next attempt.",
    "WWW-Authenticate": "How to authenticate, and why the request is refused (RFC 6750, 3).",
}

_TEXTS = {
    "list_{types}": "The whole collection, or the resources that `filter` selects, or a page of "
    "them. `meta.count` is the number of resources in the response. With "
    f"`Accept: {CSV_TYPE}`, a table for spreadsheets: `fields` selects the columns, and `include` "
    "adds those of to-one relationships.",
    "create_{type}": "The service assigns the id. Resources in to-many relationships that are "
    "linked elsewhere move. Without `fields`, the response contains the writable attributes.",
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
    "add_{type}_{link}": "Resources that are linked elsewhere move; those that are members already "
    "stay.",
    "remove_{type}_{link}": "The resources are no longer linked; those that are not members are "
    "ignored.",
    "perform_operations": f"Up to {MAX_OPERATIONS} operations, performed in order, all or none. A "
    "`lid` identifies a resource that a preceding operation adds. Media type: JSON:API with the "
    "extension Atomic Operations.",
    "follow_changes": f"With `Accept: {EVENT_STREAM}`, server-sent events without an end, in the "
    "order of commits: each is an atomic operation that repeats a change. The id of the last event "
    "of a transaction is a position to continue from; so is each minute an event `position` while "
    "nothing changes. Otherwise, a document with the present position, and the oldest one that is "
    "kept.",
}
"""The description of each kind of operation, by the template of its id."""


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation of a path, without what follows from its method and path.

    kind: a key of `_TEXTS`. responses: those of success. query: the scope of its parameters.
    errors: the statuses that its method and path do not tell. parameters: further ones.
    """

    method: str
    kind: str
    responses: Json
    query: QueryScope | None = None
    body: Json | None = None
    errors: tuple[int, ...] = ()
    parameters: Sequence[Json] = ()


def describe_paths(graph: Graph, settings: Settings) -> dict[str, Json]:
    """Return the Path Item Objects of all endpoints."""
    return {
        endpoint.path: {
            one.method: _described(one, endpoint, graph, settings)
            for one in _operations(endpoint, graph)
            if one.method.upper() in endpoint.handlers
        }
        for endpoint in sorted(endpoints(graph, settings.sizes), key=attrgetter("path"))
    }


def error_responses(graph: Graph, settings: Settings) -> Json:
    """Return the component responses with errors, one for each status."""
    # A request with another method is no operation.
    absent = {errors.MethodNotAllowed, *(() if settings.requires_tokens else _ACCESS)}
    if not any(one.unique_attributes for one in graph.values()):
        absent.add(errors.ValueTaken)
    by_status = defaultdict[int, list[ApiError]](list)
    for one in errors.error_types():
        if one not in absent:
            by_status[one.status].append(one.example())
    return {f"Error{status}": _error_response(by_status[status]) for status in sorted(by_status)}


def _described(operation: _Operation, endpoint: Endpoint, graph: Graph, settings: Settings) -> Json:
    """Return an Operation Object."""
    method, shown, statuses = operation.method, list[Json](), {*_ANY_REQUEST, *operation.errors}
    tag = "Changes" if endpoint.view is FeedView else "Operations"
    access: Json = {}
    if "{id}" in endpoint.path:
        shown.append(parameters.ID | ({"example": 1} if method == "get" else {}))
        statuses.add(404)
    if operation.query:
        shown += parameters.query_parameters(operation.query)
    if method == "post":
        shown.append(parameters.IDEMPOTENCY)
        statuses.add(422)
    shown += operation.parameters
    names = {"link": endpoint.relationship.name} if endpoint.relationship else {}
    if endpoint.scope:
        shown += parameters.PRECONDITIONS
        named = endpoint.scope.resource
        tag, names = title(named), names | {"type": named.type, "types": named.collection}
    name, description = operation.kind.format(**names), _TEXTS[operation.kind]
    if settings.requires_tokens:
        statuses.add(401)
        # The scopes of operations and of the feed depend on the types that these name.
        of_all_types = required_by_method(method.upper(), graph.writable)
        required = endpoint.requirements.get(method.upper()) or of_all_types
        scopes = dict.fromkeys(one.scopes[0] for one in required)
        description += f"\n\nRequired scopes: {code(scopes)}."
        access = {"security": [{SECURITY_SCHEME: []}]}
    failures = {str(one): reference("responses", f"Error{one}") for one in sorted(statuses)}
    return {
        "tags": [tag],
        "operationId": name,
        "summary": name.replace("_", " ").capitalize(),
        "description": description,
        **access,
        "parameters": shown,
        **({"requestBody": operation.body} if operation.body else {}),
        "responses": operation.responses | failures,
    }


def _operations(endpoint: Endpoint, graph: Graph) -> Iterator[_Operation]:
    """Yield the operations of an endpoint."""
    match endpoint:
        case Endpoint(path=path, scope=QueryScope() as scope, relationship=None):
            yield from (_of_resource(scope) if "{id}" in path else _of_collection(scope, path))
        case Endpoint(path=path, scope=QueryScope() as scope, relationship=Relationship() as link):
            related = replace(scope, resource=graph[link.target], many=link.to_many)
            if endpoint.view is RelatedView:
                yield _read_related(related, path.format(id=1))
            else:
                yield from _of_linkage(scope.resource, link, related)
        case Endpoint(view=view) if view is FeedView:
            yield _follow_changes(graph)
        case _:
            yield _perform_operations(graph)


def _of_collection(scope: QueryScope, path: str) -> Iterator[_Operation]:
    resource_type = scope.resource
    yield _Operation("get", "list_{types}", _collection(scope, path), replace(scope, many=True))
    schema, headers = schema_of(resource_type, "Document"), _TAGGED | _REPLAYED | _PREFERRED
    written = {"written": examples.plain(resource_type, scope.graph, created=True)}
    location = {"Location": _header("The path of the resource.", path_of(resource_type, 1))}
    name = resource_type.type
    responses = {
        "200": _response(f"The {name} that is updated, as preferred.", schema, written, headers),
        "201": _response(f"The new {name}.", schema, written, location | headers),
    }
    body = _body(schema_of(resource_type, "Create"), examples.creation(resource_type))
    more = _WITH_RESOURCES, (parameters.PREFERENCES,)
    yield _Operation("post", "create_{type}", responses, scope, body, *more)


def _of_resource(scope: QueryScope) -> Iterator[_Operation]:
    resource_type, graph = scope.resource, scope.graph
    schema = schema_of(resource_type, "Document")
    plain = examples.plain(resource_type, graph)
    documents = {"plain": plain, "included": examples.included(resource_type, graph)}
    responses = _read(f"The {resource_type.type}.", schema, documents)
    yield _Operation("get", "read_{type}", responses, scope)
    updated = _response(f"The updated {resource_type.type}.", schema, {"updated": plain}, _TAGGED)
    body = _body(schema_of(resource_type, "Update"), examples.update(resource_type))
    yield _Operation("patch", "update_{type}", {"200": updated}, scope, body, _WITH_RESOURCES)
    yield _Operation("delete", "delete_{type}", {"204": _applied({})})


def _read_related(scope: QueryScope, path: str) -> _Operation:
    """Return the operation that reads related resources. path: of the examples."""
    resource_type = scope.resource
    if scope.many:
        return _Operation("get", "list_{type}_{link}", _collection(scope, path), scope)
    related = examples.plain(resource_type, scope.graph) | {"links": {"self": path}}
    documents = {"related": related, "none": related | {"data": None}}
    schema = schema_of(resource_type, "DocumentOrNull")
    responses = _read(f"The {resource_type.type}, or null.", schema, documents)
    return _Operation("get", "read_{type}_{link}", responses, scope)


def _of_linkage(
    owner: ResourceType, link: Relationship, related: QueryScope
) -> Iterator[_Operation]:
    kind, verbs = "ToOne", {"patch": "replace"}
    if link.to_many:
        kind, verbs = "ToMany", {"patch": "replace", "post": "add", "delete": "remove"}
    documents = {"linkage": examples.linkage_document(owner, link)}
    schema = schema_of(related.resource, f"{kind}Linkage")
    responses = _read("The resource identifiers.", schema, documents)
    scope = replace(related, linkage=(owner, link))
    yield _Operation("get", "read_{type}_{link}_linkage", responses, scope)
    for method, verb in verbs.items():
        schema = schema_of(related.resource, kind + ("Removal" if verb == "remove" else "Change"))
        applied = {"204": _applied(_REPLAYED if verb == "add" else {})}
        body = _body(schema, {"data": examples.linkage(link)})
        yield _Operation(method, f"{verb}_{{type}}_{{link}}", applied, None, body, _WITH_LINKAGE)


def _perform_operations(graph: Graph) -> _Operation:
    extended, schema = media_type(EXTENSION), reference("schemas", "Results")
    text, documents = "The results, in the order of the operations.", examples.results(graph)
    headers = _REPLAYED | _PREFERRED
    result = _response(text, schema, {"results": documents}, headers, extended)
    body = _body(reference("schemas", "Operations"), examples.operations(graph), extended)
    more = _WITH_RESOURCES, (parameters.PREFERENCES,)
    return _Operation("post", "perform_operations", {"200": result}, None, body, *more)


def _follow_changes(graph: Graph) -> _Operation:
    schema, document = reference("schemas", "Positions"), examples.positions()
    text = "The events, or the document with positions."
    shown = _response(text, schema, {"positions": document}, _AT)
    events = {"schema": {"type": "string"}, "example": examples.events(graph)}
    shown["content"][EVENT_STREAM] = events
    parameter = parameters.feed_parameters(graph)
    return _Operation("get", "follow_changes", {"200": shown}, None, None, (410,), parameter)


def _collection(scope: QueryScope, path: str) -> Json:
    """Return the successful responses with a collection. path: of the examples."""
    resource_type, url = scope.resource, absolute(path)
    plain = examples.collection(examples.plain(resource_type, scope.graph), url)
    query = f"?include={','.join(resource_type.relationships)}"
    documents = {
        "plain": plain,
        "included": examples.collection(examples.included(resource_type, scope.graph), url + query),
        "page": examples.page(plain),
    }
    schema = schema_of(resource_type, "Collection")
    responses = _read(f"The {resource_type.collection}.", schema, documents, _TAGGED_PAGE | _NAMED)
    table = examples.table(resource_type, scope.graph)
    responses["200"]["content"][CSV_TYPE] = {"schema": {"type": "string"}, "example": table}
    return responses


def _read(description: str, schema: Json, documents: Json, headers: Json = _TAGGED) -> Json:
    unmodified = "`If-None-Match` has the entity tag of the response."
    return {
        "200": _response(description, schema, documents, _AT | headers),
        "304": {"description": unmodified, "headers": _ALWAYS | _AT | headers},
    }


def _applied(headers: Json) -> Json:
    return {"description": "The change has been applied.", "headers": _ALWAYS | headers}


def _error_response(instances: Sequence[ApiError]) -> Json:
    headers = {
        name: _header(
            _ERROR_HEADERS[name], value, always=all(name in one.headers for one in instances)
        )
        for error in instances
        for name, value in error.headers.items()
    }
    documents = {one.code: orjson.loads(encode_errors([one], _REQUEST_ID)) for one in instances}
    description = " ".join(type(error).__doc__ or "" for error in instances)
    return _response(description, reference("schemas", "ErrorDocument"), documents, headers)


def _response(
    description: str, schema: Json, documents: Json, headers: Json, type_: str = MEDIA_TYPE
) -> Json:
    """Return a response. documents: examples by name. headers: beside those of all responses."""
    named = {name: {"value": document} for name, document in documents.items()}
    content = {type_: {"schema": schema, "examples": named}}
    return {"description": description, "headers": _ALWAYS | headers, "content": content}


def _body(schema: Json, example: Json, type_: str = MEDIA_TYPE) -> Json:
    description = f"A document of at most {MAX_CONTAINERS:,} objects and arrays."
    content = {type_: {"schema": schema, "example": example}}
    return {"description": description, "required": True, "content": content}
