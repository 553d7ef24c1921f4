"""The operation that does several changes at once (the extension Atomic Operations)."""

from __future__ import annotations

from collections.abc import Iterator

from registry.jsonapi.atomic_operations import EXTENSION, OPERATIONS, RESULTS
from registry.jsonapi.content_negotiation import media_type
from registry.jsonapi.links import collection_path, relationship_path, resource_path
from registry.model.attributes.identifier import ID_PATTERN
from registry.model.graph import Graph
from registry.model.resource import Relationship, Resource
from registry.openapi import error_examples as problems
from registry.openapi import examples
from registry.openapi.operations import answer, body, operation
from registry.openapi.schemas import (
    NEVER,
    Json,
    identifier,
    linkage,
    object_of,
    reference,
    resource_sent,
    schema_of,
    text,
    title,
)

TAG: Json = {"name": "Operations", "description": "Several changes at once, all of them or none."}


def operations_item(graph: Graph, most: int) -> Json:
    """Return the description of the path that takes operations, at most so many in a request."""
    extended = media_type(EXTENSION)
    found = answer(
        "What they led to, in the same order.",
        reference("schemas", "Results"),
        {"results": examples.results(graph)},
        media_type=extended,
    )
    description = (
        f"Up to {most}, done in their order, all or none. A resource that one of them adds is "
        "named by its `lid` in those that follow. Media type: the extension Atomic Operations of "
        "JSON:API."
    )
    post = operation(
        TAG["name"],
        "perform_operations",
        "Perform operations",
        description,
        {},
        {"200": found},
        problems.of_operations(graph, most, EXTENSION),
        body(reference("schemas", "Operations"), examples.operations(graph), extended),
    )
    return {"post": post}


def operations_schemas(graph: Graph, most: int) -> Json:
    """Return the schemas of the documents of operations and of their results."""
    found: Json = {}
    for resource in graph.values():
        for suffix in ("LocalReference", "LocalRemoval"):
            found[title(resource) + suffix] = identifier(resource, suffix)
        for suffix, creating in (("Addition", True), ("Revision", False)):
            found[title(resource) + suffix] = _resource(resource, graph, creating=creating)
    any_of = [one for resource in graph.values() for one in _of_type(resource, graph)]
    result = object_of({"data": reference("schemas", "AnyResource")})
    return {
        **found,
        "Operations": _several(OPERATIONS, {"anyOf": any_of}, most, closed=False),
        "Results": _several(
            RESULTS, result, most, closed=True, jsonapi=reference("schemas", "JsonApi")
        ),
    }


def _several(member: str, item: Json, most: int, *, closed: bool, **others: Json) -> Json:
    items = {"type": "array", "minItems": 1, "maxItems": most, "items": item}
    properties = {member: items, **others}
    return object_of(properties, required=properties, closed=closed)


def _resource(resource: Resource, graph: Graph, *, creating: bool) -> Json:
    found = resource_sent(resource, graph, "LocalReference", creating=creating)
    if creating:
        found["properties"]["lid"] = text("By which operations that follow can name it.")
    return found


def _of_type(resource: Resource, graph: Graph) -> Iterator[Json]:
    added, revised = (schema_of(resource, suffix) for suffix in ("Addition", "Revision"))
    own = schema_of(resource, "LocalReference")
    # Without a target, the data tell which resource it is.
    yield _operation("update", data={"allOf": [revised, own]})
    yield _operation("add", data=added)
    yield _operation("add", data=added, href=_href(collection_path(resource)))
    yield from _aimed("update", resource, {"data": revised})
    yield from _aimed("remove", resource, {"data": NEVER})
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
        target = _reference(resource, **named)
        yield _operation(code, ref=target, data=data)
        yield _operation(code, href=_href(path), data=data)


def _aimed(code: str, resource: Resource, members: Json) -> Iterator[Json]:
    yield _operation(code, ref=_reference(resource), **members)
    yield _operation(code, href=_href(resource_path(resource, "{id}")), **members)


def _reference(resource: Resource, **more: Json) -> Json:
    return {
        "oneOf": [
            object_of(
                {**kind["properties"], "relationship": NEVER, **more},
                required=[*kind["required"], *more],
                closed=False,
            )
            for kind in identifier(resource, "LocalReference")["oneOf"]
        ]
    }


def _operation(code: str, **members: Json) -> Json:
    op = {"type": "string", "enum": [code]}
    properties = {"op": op, "ref": NEVER, "href": NEVER, **members}
    required = [name for name, member in members.items() if member is not NEVER]
    return object_of(properties, required=["op", *required], closed=False)


def _href(path: str) -> Json:
    """Return the schema of the path of a target; path: with {id} for the id."""
    pattern = f"^{path.format(id=ID_PATTERN)}$"
    return text("The path of the target.", pattern=pattern, example=path.format(id=1))
