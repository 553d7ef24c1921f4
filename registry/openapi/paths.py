"""The graph -> the paths with their operations, in the order that Swagger UI shows them in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from registry.http.etags import make_etag
from registry.http.responses import IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED, REQUEST_ID
from registry.http.service_urls import OPERATIONS_PATH
from registry.jsonapi import error_types as errors
from registry.jsonapi.content_negotiation import MEDIA_TYPE, media_type
from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.operation_documents import EXTENSION, MAX_OPERATIONS
from registry.jsonapi.query import QueryScope
from registry.jsonapi.request_documents import MAX_CONTAINERS
from registry.jsonapi.resource_objects import (
    collection_path,
    related_path,
    relationship_path,
    resource_path,
)
from registry.model.graph import Graph
from registry.model.record import VERSION
from registry.model.resource_type import Relationship, ResourceType
from registry.model.stored_fields import ID
from registry.openapi import examples, parameters
from registry.openapi.schema_objects import Json, absolute, code, reference, schema_of, title
from registry.resources import RESOURCES

ErrorTypes: TypeAlias = tuple[type[ApiError], ...]

SECURITY_SCHEME = "accessToken"

_ANY_REQUEST: ErrorTypes = (
    errors.InvalidParameter,
    errors.MalformedRequest,
    errors.CrossSiteRequest,
    errors.NotAcceptable,
    errors.RequestTimeout,
    errors.PreconditionFailed,
    errors.UnsupportedMediaType,
    errors.ExpectationFailed,
    errors.MisdirectedRequest,
    errors.HeaderFieldsTooLarge,
    errors.InternalError,
    errors.InvalidStoredRecord,
    errors.ServiceUnavailable,
    errors.Overloaded,
)
_COLLECTION: ErrorTypes = (errors.PageTooLarge, errors.RangeNotSupported, errors.QueryTimedOut)
_KEY: ErrorTypes = (errors.InvalidIdempotencyKey, errors.IdempotencyKeyReused)
_BODY: ErrorTypes = (errors.MalformedDocument, errors.TypeConflict, errors.BodyTooLarge)
_ACCESS: ErrorTypes = (
    errors.InvalidAuthorization,
    errors.AuthenticationRequired,
    errors.TokenRejected,
    errors.InsufficientScope,
)


def _header(description: str, example: str, *, always: bool = True) -> Json:
    schema = {"type": "string"}
    return {"description": description, "required": always, "schema": schema, "example": example}


_ETAG = f'"{make_etag(b"", RESOURCES[0], {ID: 1, VERSION: 1})}"'

HEADERS: Json = {
    "RequestId": _header("The id of the request; the log contains it too.", examples.EXAMPLE_ID),
    "Vary": _header("The request headers that the response depends on.", "Accept, Accept-Encoding"),
    "ETag": _header("The entity tag of the response, for `If-None-Match` and `If-Match`.", _ETAG),
}
"""The component headers."""

_ALWAYS: Json = {
    REQUEST_ID: reference("headers", "RequestId"),
    "Vary": reference("headers", "Vary"),
}
_TAGGED: Json = {"ETag": reference("headers", "ETag")}
_PAGE_TAG = "The entity tag of a page, for `If-None-Match`; a whole collection has none."
_TAGGED_PAGE: Json = {"ETag": _header(_PAGE_TAG, _ETAG, always=False)}
_REPEATED = f"Present if an earlier request with the same `{IDEMPOTENCY_KEY}` has this result."
_REPLAYED: Json = {IDEMPOTENCY_REPLAYED: _header(_REPEATED, "true", always=False)}
_ERROR_HEADERS = {
    "Retry-After": "Seconds to wait before the next attempt.",
    "WWW-Authenticate": "How to authenticate, and why the request is refused (RFC 6750, 3).",
}

_METHODS = {
    "list": "get",
    "read": "get",
    "create": "post",
    "add": "post",
    "update": "patch",
    "replace": "patch",
    "delete": "delete",
    "remove": "delete",
}
"""The method of an operation, by the verb that its name starts with."""

_DESCRIPTIONS = {
    "list": "The whole collection, or the resources that `filter` selects, or a page of them. "
    "`meta.count` is the number of resources in the response.",
    "create": "The service assigns the id. {moves}Without `fields`, the response contains the "
    "writable attributes.",
    "read": "One resource by its id.",
    "update": "Changes only the attributes and relationships in the request, all of them or none. "
    "{moves}Linkage replaces the relationship. A read-only attribute may be sent back with the "
    "value of the resource, and changes nothing.",
    "delete": "Resources that are linked to it remain, without the link.",
    "list related": "Supports the same parameters as any collection.",
    "read related": "The related resource; `data` is null if there is none.",
    "read linkage": "Resource identifiers only; `include` adds the resources.",
    "set linkage": "Sets the related resource, or clears it with null.",
    "replace linkage": "Resources that are linked elsewhere move; members not in the request are "
    "removed.",
    "add linkage": "Resources that are linked elsewhere move; those that are members already stay.",
    "remove linkage": "The resources are no longer linked; those that are not members are ignored.",
}
"""The descriptions of the operations on a type and its relationships."""


@dataclass(slots=True)
class Paths:
    """Builds Path Item Objects, and the error responses that they refer to.

    scopes: the required scopes by path and method; empty without access tokens.
    """

    scopes: Mapping[tuple[str, str], Sequence[str]]
    items: dict[str, Json] = field(default_factory=dict)
    responses: Json = field(default_factory=dict)

    def add_type(self, scope: QueryScope) -> None:
        """Add the paths of a type and its relationships."""
        self._add_resource(scope)
        for link in scope.resource.relationships.values():
            related = replace(scope, resource=scope.graph[link.target], many=link.to_many)
            self._add_related(scope.resource, link, related)
            self._add_linkage(scope.resource, link, related)

    def add_operations(self, graph: Graph) -> None:
        """Add the path for atomic operations."""
        extended = media_type(EXTENSION)
        results, documents = reference("schemas", "Results"), {"results": examples.results(graph)}
        text = "The results, in the order of the operations."
        self._add(
            "post",
            OPERATIONS_PATH,
            {
                "tags": ["Operations"],
                "operationId": "perform_operations",
                "summary": "Perform operations",
                "description": f"Up to {MAX_OPERATIONS} operations, performed in order, all or "
                "none. A `lid` identifies a resource that a preceding operation adds. Media type: "
                "JSON:API with the extension Atomic Operations.",
                "parameters": [],
                "requestBody": _body(
                    reference("schemas", "Operations"), examples.operations(graph), extended
                ),
                "responses": {"200": _response(text, results, documents, _REPLAYED, extended)},
            },
            (*_resource_errors(*graph.values()), errors.ResultTooLarge),
        )

    def _add_resource(self, scope: QueryScope) -> None:
        resource, type_ = scope.resource, scope.resource.type
        collection, detail = collection_path(resource), resource_path(resource, "{id}")
        document, plain = schema_of(resource, "Document"), examples.plain(resource)
        shown = {"plain": plain, "included": examples.included(resource, scope.graph)}
        creation = _body(schema_of(resource, "Create"), examples.creation(resource))
        location = {"Location": _header("The path of the resource.", resource_path(resource, 1))}
        headers, example = location | _TAGGED | _REPLAYED, {"created": examples.created(resource)}
        created = {"201": _response(f"The new {type_}.", document, example, headers)}
        change = _body(schema_of(resource, "Update"), examples.update(resource))
        example = {"updated": plain}
        updated = {"200": _response(f"The updated {type_}.", document, example, _TAGGED)}
        listed = _collection_responses(scope, collection)
        read = _read_responses(f"The {type_}.", document, shown)
        subject = _Subject(resource)
        self._add_verb("list", collection, subject, listed, replace(scope, many=True))
        self._add_verb("create", collection, subject, created, scope, creation)
        self._add_verb("read", detail, subject, read, scope)
        self._add_verb("update", detail, subject, updated, scope, change)
        self._add_verb("delete", detail, subject, {"204": _applied({})})

    def _add_related(self, owner: ResourceType, link: Relationship, scope: QueryScope) -> None:
        path, subject = related_path(owner, "{id}", link.name), _Subject(owner, link, "related")
        if scope.many:
            listed = _collection_responses(scope, related_path(owner, 1, link.name))
            self._add_verb("list", path, subject, listed, scope)
            return
        documents = {
            "related": examples.related(examples.plain(scope.resource), owner, link.name),
            "none": examples.related(None, owner, link.name),
        }
        text, schema = f"The {link.target}, or null.", schema_of(scope.resource, "DocumentOrNull")
        self._add_verb("read", path, subject, _read_responses(text, schema, documents), scope)

    def _add_linkage(self, owner: ResourceType, link: Relationship, related: QueryScope) -> None:
        path = relationship_path(owner, "{id}", link.name)
        subject, name = _Subject(owner, link, "linkage"), "ToMany" if link.to_many else "ToOne"
        schema = schema_of(related.resource, f"{name}Linkage")
        documents = {"linkage": examples.linkage_document(owner, link)}
        shown = _read_responses("The resource identifiers.", schema, documents)
        self._add_verb("read", path, subject, shown, replace(related, linkage=(owner, link)))
        for verb in ("replace", "add", "remove") if link.to_many else ("replace",):
            suffix = "Removal" if verb == "remove" else "Change"
            schema, example = schema_of(related.resource, name + suffix), examples.linkage(link)
            applied = {"204": _applied(_REPLAYED if verb == "add" else {})}
            self._add_verb(verb, path, subject, applied, body=_body(schema, {"data": example}))

    def _add_verb(
        self,
        verb: str,
        path: str,
        subject: "_Subject",
        responses: Json,
        query: QueryScope | None = None,
        body: Json | None = None,
    ) -> None:
        """Add an operation. responses: those of success. query: the scope of its parameters."""
        resource = subject.resource
        failures: ErrorTypes = ()
        if body:
            failures = _BODY if subject.link else _resource_errors(resource)
        name, summary = subject.names(verb)
        operation = {
            "tags": [title(resource)],
            "operationId": name,
            "summary": summary,
            "description": subject.description(verb),
            "parameters": parameters.query_parameters(query) if query else {},
            **({"requestBody": body} if body else {}),
            "responses": responses,
        }
        if query:
            sized = (errors.PageTooLarge,) if parameters.sized_paths(query) else ()
            failures = (*failures, *(_COLLECTION if query.many else sized))
        self._add(_METHODS[verb], path, operation, failures)

    def _add(self, method: str, path: str, operation: Json, failures: ErrorTypes) -> None:
        """Add an operation after adding what follows from its method and path.

        operation: its parameters are components. failures: the errors that its method and path do
        not tell.
        """
        components: Json = {}
        if "{id}" in path:
            components |= parameters.ID if method == "get" else parameters.ID_TO_WRITE
            failures = (errors.NotFound, *failures)
        components |= operation["parameters"]
        if path != OPERATIONS_PATH:
            components |= parameters.PRECONDITIONS
        if method == "post":
            components |= parameters.IDEMPOTENCY
            failures = (*_KEY, *failures)
        if method != "get":
            failures = (*failures, errors.DiskFull)
        if scopes := self.scopes.get((path, method)):
            operation["description"] += f"\n\nRequired scopes: {code(scopes)}."
            operation["security"] = [{SECURITY_SCHEME: []}]
            failures = (*_ACCESS, *failures)
        operation["parameters"] = [reference("parameters", name) for name in components]
        name = operation["operationId"]
        operation["responses"] |= self._error_references(name, (*_ANY_REQUEST, *failures))
        self.items.setdefault(path, {})[method] = operation

    def _error_references(self, name: str, types: ErrorTypes) -> Json:
        """Return references to the error responses of an operation, by status.

        Equal responses are one component, named after the first operation that has it.
        """
        references: Json = {}
        for status in sorted({one.status for one in types}):
            response = _error_response(
                [one for one in dict.fromkeys(types) if one.status == status]
            )
            equal = (key for key, one in self.responses.items() if one == response)
            key = next(equal, f"{name}_{status}")
            self.responses[key] = response
            references[str(status)] = reference("responses", key)
        return references


@dataclass(frozen=True, slots=True)
class _Subject:
    """What operations work on: a type, or the related resources or the linkage of its link."""

    resource: ResourceType
    link: Relationship | None = None
    part: str = ""

    @property
    def _noun(self) -> str:
        article = "an" if self.resource.type[0] in "aeiou" else "a"
        return f"{article} {self.resource.type}"

    def names(self, verb: str) -> tuple[str, str]:
        """Return the id and the summary of an operation."""
        name, noun = self.resource.type, self._noun
        if self.link:
            preposition = {"add": "to ", "remove": "from "}.get(verb, "")
            name, noun = f"{name}_{self.link.name}", f"the {self.link.name} of {noun}"
            if verb == "read" and self.part == "linkage":
                name, noun = f"{name}_linkage", f"the linkage of {noun}"
            noun = preposition + noun
        elif verb == "list":
            name = noun = self.resource.collection
        return f"{verb}_{name}", f"{verb.title()} {noun}"

    def description(self, verb: str) -> str:
        """Return the description of an operation."""
        if verb == "replace" and self.link and not self.link.to_many:
            verb = "set"
        links = [name for name, one in self.resource.relationships.items() if one.to_many]
        moves = f"Resources in {code(links)} that are linked elsewhere move. " if links else ""
        return _DESCRIPTIONS[f"{verb} {self.part}".strip()].format(moves=moves)


def _resource_errors(*resources: ResourceType) -> ErrorTypes:
    """Return the errors of a document with resource objects, whose linkage can name any."""
    taken = (errors.ValueTaken,) if any(one.unique_attributes for one in resources) else ()
    return (*_BODY, errors.NotFound, errors.InvalidField, *taken)


def _collection_responses(scope: QueryScope, path: str) -> Json:
    """Return the successful responses with a collection. path: of the examples."""
    resource, url = scope.resource, absolute(path)
    plain = examples.collection(examples.plain(resource), url)
    query = f"?include={','.join(resource.relationships)}"
    documents = {
        "plain": plain,
        "included": examples.collection(examples.included(resource, scope.graph), url + query),
        "page": examples.page(plain, scope.sizes),
    }
    schema = schema_of(resource, "Collection")
    return _read_responses(f"The {resource.collection}.", schema, documents, _TAGGED_PAGE)


def _read_responses(
    description: str, schema: Json, documents: Json, headers: Json = _TAGGED
) -> Json:
    unmodified = "`If-None-Match` has the entity tag of the response."
    return {
        "200": _response(description, schema, documents, headers),
        "304": {"description": unmodified, "headers": _ALWAYS | headers},
    }


def _applied(headers: Json) -> Json:
    return {"description": "The change has been applied.", "headers": _ALWAYS | headers}


def _error_response(types: Iterable[type[ApiError]]) -> Json:
    instances = [one.example() for one in types]
    headers = {
        name: _header(
            _ERROR_HEADERS[name], value, always=all(name in one.headers for one in instances)
        )
        for error in instances
        for name, value in error.headers.items()
    }
    documents = {error.code: examples.error(error) for error in instances}
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
