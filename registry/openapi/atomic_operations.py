"""The operation for atomic operations (JSON:API extension Atomic Operations)."""

from collections.abc import Iterator

from registry.jsonapi.atomic_operations import EXTENSION, OPERATIONS, RESULTS
from registry.jsonapi.content_negotiation import media_type
from registry.jsonapi.links import collection_path, relationship_path, resource_path
from registry.model.attributes.identifier import ID_PATTERN
from registry.model.graph import Graph
from registry.model.resource import Resource
from registry.openapi import examples
from registry.openapi.error_examples import ErrorExamples
from registry.openapi.operations import REPLAYED, Operation, body, response
from registry.openapi.parameters import IDEMPOTENCY
from registry.openapi.schemas import (
    ABSENT,
    Json,
    identifier,
    linkage,
    object_of,
    reference,
    request_resource,
    schema_of,
    text,
    title,
)

TAG: Json = {"name": "Operations", "description": "Several changes in one request, all or none."}


def operations_item(graph: Graph, max_operations: int, errors: ErrorExamples) -> Json:
    """Return the Path Item Object of the path for operations. max_operations: per request."""
    extended = media_type(EXTENSION)
    results = response(
        "The results, in the order of the operations.",
        reference("schemas", "Results"),
        {"results": examples.results(graph)},
        REPLAYED,
        extended,
    )
    post = Operation(
        tag=TAG["name"],
        operation_id="perform_operations",
        summary="Perform operations",
        description=f"Up to {max_operations} operations, performed in order, all or none. A `lid` "
        "identifies a resource that a preceding operation adds. Media type: JSON:API with the "
        "extension Atomic Operations.",
        parameters=IDEMPOTENCY,
        responses={"200": results},
        errors=errors.operations(graph),
        body=body(reference("schemas", "Operations"), examples.operations(graph), extended),
    )
    return {"post": post.to_object()}


def operations_schemas(graph: Graph, max_operations: int) -> Json:
    """Return the schemas of documents of operations and of results."""
    components: Json = {}
    for resource in graph.values():
        for suffix in ("LocalReference", "LocalRemoval"):
            components[title(resource) + suffix] = identifier(resource, suffix)
        for suffix, creating in (("Addition", True), ("Revision", False)):
            schema = request_resource(resource, graph, "LocalReference", creating=creating)
            if creating:
                lid = text("Identifies the resource in subsequent operations.")
                schema["properties"]["lid"] = lid
            components[title(resource) + suffix] = schema
    operations = [schema for resource in graph.values() for schema in _of_type(resource, graph)]
    result = object_of({}, {"data": reference("schemas", "AnyResource")})
    array = {"type": "array", "minItems": 1, "maxItems": max_operations}
    results = {RESULTS: {**array, "items": result}, "jsonapi": reference("schemas", "JsonApi")}
    requests = {OPERATIONS: {**array, "items": {"anyOf": operations}}}
    components["Operations"] = object_of(requests, closed=False)
    return components | {"Results": object_of(results)}


def _of_type(resource: Resource, graph: Graph) -> Iterator[Json]:
    added, revised = (schema_of(resource, suffix) for suffix in ("Addition", "Revision"))
    local = schema_of(resource, "LocalReference")
    # Without `ref` and `href`, `data` identifies the resource.
    yield _operation("update", data={"allOf": [revised, local]})
    yield _operation("add", data=added)
    yield _operation("add", data=added, href=_href(collection_path(resource)))
    path = resource_path(resource, "{id}")
    yield from _by_target("update", _ref(resource), path, revised)
    yield from _by_target("remove", _ref(resource), path, ABSENT)
    for name, relationship in resource.relationships.items():
        path = relationship_path(resource, "{id}", name)
        ref = _ref(resource, relationship={"type": "string", "enum": [name]})
        for code in ("add", "update", "remove") if relationship.to_many else ("update",):
            suffix = "LocalRemoval" if code == "remove" else "LocalReference"
            yield from _by_target(code, ref, path, linkage(relationship, graph, suffix))


def _by_target(code: str, ref: Json, path: str, data: Json) -> Iterator[Json]:
    """Yield the schemas of an operation whose target is given by `ref`, and by `href`."""
    yield _operation(code, ref=ref, data=data)
    yield _operation(code, href=_href(path), data=data)


def _ref(resource: Resource, **more: Json) -> Json:
    identifiers = identifier(resource, "LocalReference")["oneOf"]
    members = [one["properties"] | {"relationship": ABSENT, **more} for one in identifiers]
    return {"oneOf": [_open_object(properties) for properties in members]}


def _operation(code: str, **members: Json) -> Json:
    op = {"type": "string", "enum": [code]}
    return _open_object({"op": op, "ref": ABSENT, "href": ABSENT, **members})


def _open_object(members: Json) -> Json:
    required = {name: schema for name, schema in members.items() if schema is not ABSENT}
    return object_of(required, members, closed=False)


def _href(path: str) -> Json:
    """Return the schema of the path of a target. path: a template with {id}."""
    pattern = f"^{path.format(id=ID_PATTERN)}$"
    return text("The path of the target.", pattern=pattern, example=path.format(id=1))
