"""The graph -> OpenAPI schemas of request and response documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

from registry.jsonapi.documents import JSONAPI
from registry.jsonapi.errors import ApiError
from registry.jsonapi.links import collection_path, resource_path
from registry.model.attributes.identifier import ID_PATTERN
from registry.model.graph import Graph
from registry.model.record import MAX_ID
from registry.model.resource import Relationship, Resource

Json: TypeAlias = dict[str, Any]

OPENAPI = "3.0.0"

POSITIVE: Json = {"type": "integer", "minimum": 1, "maximum": MAX_ID}
"""The schema of an id or a page number."""

ABSENT: Json = {"not": {}}
"""The schema of a member that must not be present."""

_ID: Json = {"type": "string", "pattern": f"^{ID_PATTERN}$", "example": "1"}
_INTEGER: Json = {"type": "integer", "format": "int64", "minimum": 1}
_IDS: dict[str, Json] = {
    "Identifier": _ID,
    "Reference": {"oneOf": [_ID, _INTEGER], "example": "1"},
    "Removal": {"oneOf": [{"type": "string"}, {"type": "number"}], "example": "1"},
}
"""The `id` of a resource identifier in a response, in a request that links, and in one that
removes members, where it may be the id of a resource that does not exist."""
_LOCAL = "Local"


def schemas(graph: Graph) -> Json:
    """Return the component schemas of each type, and those that all types share."""
    components: Json = {}
    for resource in graph.values():
        by_suffix = _type_schemas(resource, graph) | _target_schemas(resource, graph)
        components |= {title(resource) + suffix: schema for suffix, schema in by_suffix.items()}
    return components | {
        "AnyResource": _any_resource(graph),
        "JsonApi": _json_api(),
        "ErrorDocument": _error_document(),
        "Error": _error(),
    }


def title(resource: Resource) -> str:
    """Return the name of a type in the description, `Person`."""
    return resource.type.title().replace("_", "")


def reference(kind: str, name: str) -> Json:
    """Return a reference to a component. kind: `schemas`, `parameters`, ..."""
    return {"$ref": f"#/components/{kind}/{name}"}


def schema_of(resource: Resource, suffix: str) -> Json:
    """Return a reference to a schema of a type, such as its `Document`."""
    return reference("schemas", title(resource) + suffix)


def absolute(path: str) -> str:
    """Return an example of the URL of a path."""
    return f"http://localhost:8080{path}"


def object_of(properties: Json, *, required: Iterable[str] = (), closed: bool = True) -> Json:
    """Return the schema of an object; a closed one has no other members."""
    schema: Json = {"type": "object", "properties": properties}
    if names := list(required):
        schema["required"] = names
    if closed:
        schema["additionalProperties"] = False
    return schema


def request_resource(resource: Resource, graph: Graph, suffix: str, *, creating: bool) -> Json:
    """Return the schema of a resource object in a request. suffix: of its identifiers."""
    attributes = _attributes(resource, resource.writable, creating=creating)
    relationships = {
        name: _request(linkage(relationship, graph, suffix))
        for name, relationship in resource.relationships.items()
    }
    properties = {
        "type": type_of(resource),
        "id": {"description": "Ignored.", "example": "1"},
        "attributes": attributes,
        "relationships": {
            **object_of(relationships),
            "description": "Linkage replaces that of the relationship.",
        },
    }
    required = ["type", "attributes"] if "required" in attributes else ["type"]
    return object_of(properties, required=required, closed=False)


def linkage(relationship: Relationship, graph: Graph, suffix: str) -> Json:
    """Return the schema of resource linkage. suffix: of its identifiers."""
    target = graph[relationship.target]
    if relationship.to_many:
        return {"type": "array", "items": schema_of(target, suffix)}
    return _or_null(identifier(target, suffix))  # OpenAPI 3.0 has no nullable references


def identifier(resource: Resource, suffix: str) -> Json:
    """Return the schema of a resource identifier.

    suffix: `Identifier`, `Reference` or `Removal`; before the last two, `Local` allows a `lid`.
    """
    if suffix.startswith(_LOCAL):
        by_id = identifier(resource, suffix.removeprefix(_LOCAL))["properties"]
        by_lid = {"type": type_of(resource), "lid": text("Of a resource that was added before.")}
        return {
            "oneOf": [
                object_of({**by_id, "lid": ABSENT}, required=by_id, closed=False),
                object_of({**by_lid, "id": ABSENT}, required=by_lid, closed=False),
            ]
        }
    properties = {"type": type_of(resource), "id": _IDS[suffix]}
    return object_of(properties, required=properties, closed=suffix == "Identifier")


def type_of(resource: Resource) -> Json:
    """Return the schema of the member `type`."""
    return {"type": "string", "enum": [resource.type], "example": resource.type}


def text(description: str, **more: Any) -> Json:
    """Return the schema of a string."""
    return {"type": "string", "description": description, **more}


def _type_schemas(resource: Resource, graph: Graph) -> Json:
    """Return the schemas that every type has, by suffix."""
    links = object_of({"self": _path(resource)}, required=["self"])
    url = text("The request URL.", format="uri", example=absolute(collection_path(resource)))
    page_links = object_of({"self": url, **_page_links()}, required=["self"])
    resources = {"type": "array", "items": schema_of(resource, "Resource")}
    return {
        "Document": _document(schema_of(resource, "Resource"), links),
        "Collection": _document(resources, page_links, meta=_meta()),
        "Resource": _resource(resource, graph),
        "Identifier": identifier(resource, "Identifier"),
        "Create": _request(request_resource(resource, graph, "Reference", creating=True)),
        "Update": _request(request_resource(resource, graph, "Reference", creating=False)),
        "Reference": identifier(resource, "Reference"),
    }


def _target_schemas(target: Resource, graph: Graph) -> Json:
    """Return the schemas of a type that relationships have as target, by suffix."""
    components: Json = {}
    for resource in graph.values():
        for relationship in resource.relationships.values():
            if relationship.target == target.type:
                components |= (_to_many if relationship.to_many else _to_one)(relationship, graph)
    return components


def _to_one(relationship: Relationship, graph: Graph) -> Json:
    resource = _or_null(_resource(graph[relationship.target], graph))
    self_link = object_of({"self": text("The request path.")}, required=["self"])
    links = _linkage_links("The request path.")
    return {
        "DocumentOrNull": _document(resource, self_link),
        "ToOneLinkage": _document(linkage(relationship, graph, "Identifier"), links),
        "ToOneChange": _request(linkage(relationship, graph, "Reference")),
    }


def _to_many(relationship: Relationship, graph: Graph) -> Json:
    links = _linkage_links("The request URL.", _page_links())
    return {
        "ToManyLinkage": _document(linkage(relationship, graph, "Identifier"), links, meta=_meta()),
        "ToManyChange": _request(linkage(relationship, graph, "Reference")),
        "ToManyRemoval": _request(linkage(relationship, graph, "Removal")),
        "Removal": identifier(graph[relationship.target], "Removal"),
    }


def _meta() -> Json:
    count = {"type": "integer", "minimum": 0, "example": 1}
    properties = {
        "count": {**count, "description": "The number of resources in `data`."},
        "total": {**count, "description": "The number of resources on all pages."},
    }
    return object_of(properties, required=["count"])


def _page_links() -> Json:
    links = {name: text(f"The {name} page.") for name in ("first", "last")}
    return links | {name: text(f"The {name} page.", nullable=True) for name in ("prev", "next")}


def _linkage_links(own: str, pages: Json | None = None) -> Json:
    links = {"self": text(own), "related": text("The path of the related resources.")}
    return object_of({**links, **(pages or {})}, required=links)


def _document(data: Json, links: Json, **more: Json) -> Json:
    included = {
        "type": "array",
        "items": reference("schemas", "AnyResource"),
        "description": "Related resources, each once; present if the request has `include`.",
    }
    required = {"data": data, "jsonapi": reference("schemas", "JsonApi"), "links": links, **more}
    return object_of({**required, "included": included}, required=required)


def _path(resource: Resource) -> Json:
    return {"type": "string", "example": resource_path(resource, 1)}


def _resource(resource: Resource, graph: Graph) -> Json:
    required = {
        "type": type_of(resource),
        "id": _ID,
        "attributes": {
            **_attributes(resource, resource.attributes),
            "description": "Those in `fields`, by default all.",
        },
        "links": object_of({"self": _path(resource)}, required=["self"]),
    }
    relationships = {
        **_relationships(resource, graph),
        "description": "Those in `include`, and those that the request changed.",
    }
    return object_of({**required, "relationships": relationships}, required=required)


def _any_resource(graph: Graph) -> Json:
    references = {resource.type: schema_of(resource, "Resource") for resource in graph.values()}
    mapping = {name: schema["$ref"] for name, schema in references.items()}
    return {
        "oneOf": list(references.values()),
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }


def _request(data: Json) -> Json:
    return object_of({"data": data}, required=["data"], closed=False)


def _attributes(resource: Resource, names: Collection[str], *, creating: bool = False) -> Json:
    """Return the schema of `attributes`. Only creation has required attributes and defaults."""
    attributes = {name: one for name, one in resource.attributes.items() if name in names}
    properties = {name: attribute.openapi_schema() for name, attribute in attributes.items()}
    if creating:
        required = [name for name, attribute in attributes.items() if attribute.required]
        return object_of(properties, required=required)
    for schema in properties.values():
        schema.pop("default", None)
    return object_of(properties)


def _relationships(resource: Resource, graph: Graph) -> Json:
    """Return the schema of `relationships` in a response."""
    relationships: Json = {}
    for name, relationship in resource.relationships.items():
        pages = _page_links() if relationship.to_many else None
        members = {
            "data": linkage(relationship, graph, "Identifier"),
            "links": _linkage_links("The path of the linkage.", pages),
        }
        relationships[name] = object_of(members, required=members)
    return object_of(relationships)


def _or_null(schema: Json) -> Json:
    if "oneOf" not in schema:
        return {**schema, "nullable": True}
    first, *others = schema["oneOf"]
    return {"oneOf": [_or_null(first), *others]}


def _json_api() -> Json:
    version = {"type": "string", "enum": [JSONAPI["version"]], "example": JSONAPI["version"]}
    return object_of({"version": version}, required=["version"])


def _error_document() -> Json:
    properties = {
        "errors": {"type": "array", "minItems": 1, "items": reference("schemas", "Error")},
        "jsonapi": reference("schemas", "JsonApi"),
    }
    return object_of(properties, required=properties)


def _error() -> Json:
    types = ApiError.__subclasses__()
    pointer = text("A JSON Pointer into the request document.")
    source = {"pointer": pointer, "parameter": text("The name of the query parameter.")}
    max_size = {"type": "integer", "description": "The maximum page size."}
    required = {
        "id": text("The request id, which is in the log too."),
        "status": text("The HTTP status.", enum=sorted({str(one.status) for one in types})),
        "code": text("The error type.", enum=sorted(one.code for one in types)),
        "title": text("A summary of the error type."),
        "detail": text("An explanation of this error."),
    }
    optional = {
        "source": object_of(source),
        "links": object_of({"type": text("The error type in the cursor profile.", format="uri")}),
        "meta": object_of({"page": object_of({"maxSize": max_size})}),
    }
    return object_of(required | optional, required=required)
