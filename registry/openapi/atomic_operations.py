"""The operation for atomic operations (JSON:API extension Atomic Operations)."""

from __future__ import annotations

from collections.abc import Iterator

from registry.jsonapi.atomic_operations import EXTENSION, OPERATIONS, RESULTS
from registry.jsonapi.content_negotiation import media_type
from registry.jsonapi.links import collection_path, relationship_path, resource_path
from registry.model.attributes.identifier import ID_PATTERN
from registry.model.graph import Graph
from registry.model.resource import Relationship, Resource
from registry.openapi import examples
from registry.openapi.error_examples import ErrorExamples
from registry.openapi.operations import Operation, body, response
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
        for suffix, creating in (("Addition", True), ("Revision", False)):
            components[title(resource) + suffix] = _resource(resource, graph, creating=creating)
    operations = [schema for resource in graph.values() for schema in _of_type(resource, graph)]
    result = object_of({"data": reference("schemas", "AnyResource")})
    return {
        **components,
        "Operations": _document(OPERATIONS, {"anyOf": operations}, max_operations, closed=False),
        "Results": _document(
            RESULTS, result, max_operations, closed=True, jsonapi=reference("schemas", "JsonApi")
        ),
    }


def _document(member: str, item: Json, max_items: int, *, closed: bool, **others: Json) -> Json:
    items = {"type": "array", "minItems": 1, "maxItems": max_items, "items": item}
    properties = {member: items, **others}
    return object_of(properties, required=properties, closed=closed)


def _resource(resource: Resource, graph: Graph, *, creating: bool) -> Json:
    schema = request_resource(resource, graph, "LocalReference", creating=creating)
    if creating:
        schema["properties"]["lid"] = text("Identifies the resource in subsequent operations.")
    return schema


def _of_type(resource: Resource, graph: Graph) -> Iterator[Json]:
    added, revised = (schema_of(resource, suffix) for suffix in ("Addition", "Revision"))
    local = schema_of(resource, "LocalReference")
    # Without `ref` and `href`, `data` identifies the resource.
    yield _operation("update", data={"allOf": [revised, local]})
    yield _operation("add", data=added)
    yield _operation("add", data=added, href=_href(collection_path(resource)))
    yield from _targeted("update", resource, {"data": revised})
    yield from _targeted("remove", resource, {"data": ABSENT})
    for relationship in resource.relationships.values():
        yield from _on_relationship(resource, relationship, graph)


def _on_relationship(
    resource: Resource, relationship: Relationship, graph: Graph
) -> Iterator[Json]:
    path = relationship_path(resource, "{id}", relationship.name)
    named = {"relationship": {"type": "string", "enum": [relationship.name]}}
    codes = ("add", "update", "remove") if relationship.to_many else ("update",)
    for code in codes:
        suffix = "LocalRemoval" if code == "remove" else "LocalReference"
        data = linkage(relationship, graph, suffix)
        yield _operation(code, ref=_ref(resource, **named), data=data)
        yield _operation(code, href=_href(path), data=data)


def _targeted(code: str, resource: Resource, members: Json) -> Iterator[Json]:
    """Yield the schemas of an operation on one resource, by `ref` and by `href`."""
    yield _operation(code, ref=_ref(resource), **members)
    yield _operation(code, href=_href(resource_path(resource, "{id}")), **members)


def _ref(resource: Resource, **more: Json) -> Json:
    return {
        "oneOf": [
            object_of(
                {**schema["properties"], "relationship": ABSENT, **more},
                required=[*schema["required"], *more],
                closed=False,
            )
            for schema in identifier(resource, "LocalReference")["oneOf"]
        ]
    }


def _operation(code: str, **members: Json) -> Json:
    op = {"type": "string", "enum": [code]}
    properties = {"op": op, "ref": ABSENT, "href": ABSENT, **members}
    required = [name for name, member in members.items() if member is not ABSENT]
    return object_of(properties, required=["op", *required], closed=False)


def _href(path: str) -> Json:
    """Return the schema of the path of a target. path: a template with {id}."""
    pattern = f"^{path.format(id=ID_PATTERN)}$"
    return text("The path of the target.", pattern=pattern, example=path.format(id=1))
