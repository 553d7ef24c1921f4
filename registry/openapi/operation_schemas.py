"""The schemas of atomic operations and of their results (JSON:API extension Atomic Operations)."""

from collections.abc import Iterator

from registry.jsonapi.operation_documents import MAX_OPERATIONS, OPERATIONS, RESULTS
from registry.jsonapi.resource_objects import collection_path, relationship_path, resource_path
from registry.model.attributes.identifier import ID_PATTERN
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.openapi.schema_objects import Json, object_of, reference, schema_of, text, title
from registry.openapi.schemas import (
    IDENTITIES,
    identifier,
    linkage,
    request_relationships,
    request_resource,
)


def operation_schemas(graph: Graph) -> Json:
    """Return the schemas of documents of operations and of results."""
    components: Json = {}
    for resource in graph.values():
        components |= _type_schemas(resource, graph)
    # Components, as generators name a class after each.
    operations = dict(_operations(graph))
    result = object_of({}, {"data": reference("schemas", "AnyResource")})
    array = {"type": "array", "minItems": 1, "maxItems": MAX_OPERATIONS}
    results = {RESULTS: {**array, "items": result}, "jsonapi": reference("schemas", "JsonApi")}
    items = {"anyOf": [reference("schemas", name) for name in operations]}
    components["Operations"] = object_of({OPERATIONS: {**array, "items": items}}, closed=False)
    return components | operations | {"Results": object_of(results)}


def _type_schemas(resource: ResourceType, graph: Graph) -> Json:
    """Return the schemas of identifiers and resource objects of a type that may have a `lid`."""
    name, suffix = title(resource), "LocalReference"
    addition = request_resource(resource, suffix, creating=True)
    addition["properties"]["lid"] = text("Identifies the resource in subsequent operations.")
    revision = request_resource(resource, suffix, creating=False)
    components = {
        f"{name}{suffix}": identifier(resource, suffix),
        f"{name}LocalRemoval": identifier(resource, "LocalRemoval"),
        f"{name}{suffix}Linkages": request_relationships(resource, graph, suffix),
        f"{name}Addition": addition,
        f"{name}Revision": revision,
    }
    properties = {key: one for key, one in revision["properties"].items() if key != "id"}
    for member, identity in IDENTITIES.items():
        components[f"{name}RevisionBy{member}"] = {
            **revision,
            "properties": properties | identity,
            "required": [*revision["required"], *identity],
        }
    return components


def _operations(graph: Graph) -> Iterator[tuple[str, Json]]:
    """Yield the name and the schema of each operation.

    Those with more members come first: clients of some generators take the first schema that is
    satisfied, and leave out the members that it does not have.
    """
    for resource in graph.values():
        for relationship in resource.relationships.values():
            yield from _relationship_operations(resource, relationship, graph)
    # Members that exclude each other are not described: generators of clients drop `not`.
    for resource in graph.values():
        name, path = title(resource), resource_path(resource, "{id}")
        revised = schema_of(resource, "Revision")
        yield from _by_target(f"Update{name}", "update", _ref(resource), path, data=revised)
        yield from _by_target(f"Remove{name}", "remove", _ref(resource), path)
    for resource in graph.values():
        addition = _operation("add", data=schema_of(resource, "Addition"))
        addition["properties"]["href"] = _href(collection_path(resource))
        yield f"Add{title(resource)}", addition
        identified = [schema_of(resource, f"RevisionBy{identity}") for identity in IDENTITIES]
        yield f"Update{title(resource)}", _operation("update", data={"oneOf": identified})


def _relationship_operations(
    resource: ResourceType, relationship: Relationship, graph: Graph
) -> Iterator[tuple[str, Json]]:
    """Yield the name and the schema of each operation on a relationship."""
    path = relationship_path(resource, "{id}", relationship.name)
    ref = _ref(resource, relationship={"type": "string", "enum": [relationship.name]})
    for code in ("add", "update", "remove") if relationship.to_many else ("update",):
        data = linkage(
            relationship, graph, "LocalRemoval" if code == "remove" else "LocalReference"
        )
        name = f"{code.title()}{title(resource)}{relationship.name.title()}"
        yield from _by_target(name, code, ref, path, data=data)


def _by_target(
    name: str, code: str, ref: Json, path: str, **members: Json
) -> Iterator[tuple[str, Json]]:
    """Yield an operation whose target is given by `ref`, and the same by `href`."""
    yield f"{name}ByRef", _operation(code, ref=ref, **members)
    yield f"{name}ByHref", _operation(code, href=_href(path), **members)


def _ref(resource: ResourceType, **more: Json) -> Json:
    identifiers = identifier(resource, "LocalReference")["oneOf"]
    return {"oneOf": [object_of(one["properties"] | more, closed=False) for one in identifiers]}


def _operation(code: str, **members: Json) -> Json:
    return object_of({"op": {"type": "string", "enum": [code]}, **members}, closed=False)


def _href(path: str) -> Json:
    """Return the schema of the path of a target. path: a template with {id}."""
    pattern = f"^{path.format(id=ID_PATTERN)}$"
    return text("The path of the target.", pattern=pattern, example=path.format(id=1))
