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
from registry.openapi.operations import Operation, body, response
from registry.openapi.schemas import (
    IDENTITIES,
    Json,
    identifier,
    linkage,
    linkages,
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
        media_type=extended,
    )
    post = Operation(
        tag=TAG["name"],
        operation_id="perform_operations",
        summary="Perform operations",
        description=f"Up to {max_operations} operations, performed in order, all or none. A `lid` "
        "identifies a resource that a preceding operation adds. Media type: JSON:API with the "
        "extension Atomic Operations.",
        parameters={},
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
        components[f"{title(resource)}LocalReferenceLinkages"] = linkages(
            resource, graph, "LocalReference"
        )
        addition, revision = (
            request_resource(resource, "LocalReference", creating=creating)
            for creating in (True, False)
        )
        lid = text("Identifies the resource in subsequent operations.")
        addition["properties"]["lid"] = lid
        components[f"{title(resource)}Addition"] = addition
        components[f"{title(resource)}Revision"] = revision
        properties = {key: one for key, one in revision["properties"].items() if key != "id"}
        for name, identity in IDENTITIES.items():
            components[f"{title(resource)}RevisionBy{name}"] = {
                **revision,
                "properties": properties | identity,
                "required": [*revision["required"], *identity],
            }
    operations = [schema for resource in graph.values() for schema in _of_type(resource, graph)]
    result = object_of({}, {"data": reference("schemas", "AnyResource")})
    array = {"type": "array", "minItems": 1, "maxItems": max_operations}
    results = {RESULTS: {**array, "items": result}, "jsonapi": reference("schemas", "JsonApi")}
    requests = {OPERATIONS: {**array, "items": {"anyOf": operations}}}
    components["Operations"] = object_of(requests, closed=False)
    return components | {"Results": object_of(results)}


def _of_type(resource: Resource, graph: Graph) -> Iterator[Json]:
    # Members that exclude each other are not described: generators of clients drop `not`.
    added, revised = (schema_of(resource, suffix) for suffix in ("Addition", "Revision"))
    # Without `ref` and `href`, `data` identifies the resource.
    for name in IDENTITIES:
        yield _operation("update", data=schema_of(resource, f"RevisionBy{name}"))
    addition = _operation("add", data=added)
    addition["properties"]["href"] = _href(collection_path(resource))
    yield addition
    path = resource_path(resource, "{id}")
    yield from _by_target("update", _ref(resource), path, data=revised)
    yield from _by_target("remove", _ref(resource), path)
    for name, relationship in resource.relationships.items():
        path = relationship_path(resource, "{id}", name)
        ref = _ref(resource, relationship={"type": "string", "enum": [name]})
        for code in ("add", "update", "remove") if relationship.to_many else ("update",):
            suffix = "LocalRemoval" if code == "remove" else "LocalReference"
            yield from _by_target(code, ref, path, data=linkage(relationship, graph, suffix))


def _by_target(code: str, ref: Json, path: str, **members: Json) -> Iterator[Json]:
    """Yield the schemas of an operation whose target is given by `ref`, and by `href`."""
    yield _operation(code, ref=ref, **members)
    yield _operation(code, href=_href(path), **members)


def _ref(resource: Resource, **more: Json) -> Json:
    identifiers = identifier(resource, "LocalReference")["oneOf"]
    return {"oneOf": [object_of(one["properties"] | more, closed=False) for one in identifiers]}


def _operation(code: str, **members: Json) -> Json:
    return object_of({"op": {"type": "string", "enum": [code]}, **members}, closed=False)


def _href(path: str) -> Json:
    """Return the schema of the path of a target. path: a template with {id}."""
    pattern = f"^{path.format(id=ID_PATTERN)}$"
    return text("The path of the target.", pattern=pattern, example=path.format(id=1))
