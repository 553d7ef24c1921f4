"""The graph -> OpenAPI schemas of request and response documents."""

from collections.abc import Collection
from typing import Any, TypeAlias

from registry.jsonapi.documents import JSONAPI
from registry.jsonapi.errors import error_types
from registry.jsonapi.links import collection_path, resource_path
from registry.model.attributes.identifier import ID_PATTERN
from registry.model.authorship import AUTHORSHIP
from registry.model.graph import Graph
from registry.model.record import MAX_ID
from registry.model.resource import Relationship, Resource

Json: TypeAlias = dict[str, Any]

OPENAPI = "3.0.0"

POSITIVE: Json = {"type": "integer", "minimum": 1, "maximum": MAX_ID}
"""The schema of an id or a page number."""

_ID: Json = {"type": "string", "pattern": f"^{ID_PATTERN}$", "example": "1"}
_INTEGER: Json = {"type": "integer", "format": "int64", "minimum": 1}
_IDS: dict[str, Json] = {
    "Identifier": _ID,
    "Reference": {"oneOf": [_ID, _INTEGER], "example": "1"},
    "Removal": {"oneOf": [{"type": "string"}, {"type": "integer"}], "example": "1"},
}
"""The `id` of a resource identifier in a response, in a request that links, and in one that
removes members, where it may be the id of a resource that does not exist."""
_LOCAL = "Local"

_LOCAL_ID: Json = {"type": "string", "description": "Of a resource that was added before."}

IDENTITIES: dict[str, Json] = {"Id": {"id": _IDS["Reference"]}, "LocalId": {"lid": _LOCAL_ID}}
"""The member that identifies a resource in an operation, beside its type."""


def schemas(graph: Graph) -> Json:
    """Return the component schemas of each type, and those that all types share."""
    components: Json = {}
    for resource in graph.values():
        by_suffix = _type_schemas(resource, graph) | _target_schemas(resource, graph)
        components |= {title(resource) + suffix: schema for suffix, schema in by_suffix.items()}
    version = {"type": "string", "enum": [JSONAPI["version"]], "example": JSONAPI["version"]}
    errors = {"type": "array", "minItems": 1, "items": reference("schemas", "Error")}
    return components | {
        "AnyResource": _any_resource(graph),
        "Authorship": _authorship(),
        "JsonApi": object_of({"version": version}),
        "ErrorDocument": object_of({"errors": errors, "jsonapi": reference("schemas", "JsonApi")}),
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


def object_of(required: Json, optional: Json | None = None, *, closed: bool = True) -> Json:
    """Return the schema of an object with these members; a closed one has no others."""
    schema: Json = {"type": "object", "properties": required | (optional or {})}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


def linkages(resource: Resource, graph: Graph, suffix: str) -> Json:
    """Return the schema of `relationships` in a request. suffix: of the identifiers."""
    relationships = {
        name: _request(linkage(relationship, graph, suffix))
        for name, relationship in resource.relationships.items()
    }
    description = {"description": "Linkage replaces that of the relationship."}
    return object_of({}, relationships) | description


def request_resource(resource: Resource, suffix: str, *, creating: bool) -> Json:
    """Return the schema of a resource object in a request. suffix: of its identifiers."""
    attributes = _attributes(resource, resource.writable, creating=creating)
    relationships = schema_of(resource, f"{suffix}Linkages")
    required = {"type": type_of(resource)}
    optional = {"id": {"description": "Ignored.", "example": "1"}, "relationships": relationships}
    (required if "required" in attributes else optional)["attributes"] = attributes
    return object_of(required, optional, closed=False)


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
        by_lid = {"type": type_of(resource), **IDENTITIES["LocalId"]}
        return {"oneOf": [object_of(required, closed=False) for required in (by_id, by_lid)]}
    properties = {"type": type_of(resource), "id": _IDS[suffix]}
    return object_of(properties, closed=suffix == "Identifier")


def type_of(resource: Resource) -> Json:
    """Return the schema of the member `type`."""
    return {"type": "string", "enum": [resource.type], "example": resource.type}


def text(description: str, **more: Any) -> Json:
    """Return the schema of a string."""
    return {"type": "string", "description": description, **more}


def _type_schemas(resource: Resource, graph: Graph) -> Json:
    url = text("The request URL.", format="uri", example=absolute(collection_path(resource)))
    page_links = object_of({"self": url}, _page_links())
    resources = {"type": "array", "items": schema_of(resource, "Resource")}
    return {
        "Document": _document(schema_of(resource, "Resource"), _self_link(resource)),
        "Collection": _document(resources, page_links, meta=_meta()),
        "Resource": _resource(resource, graph),
        "Identifier": identifier(resource, "Identifier"),
        "Create": _request(request_resource(resource, "Reference", creating=True)),
        "Update": _request(request_resource(resource, "Reference", creating=False)),
        "Reference": identifier(resource, "Reference"),
        "ReferenceLinkages": linkages(resource, graph, "Reference"),
    }


def _target_schemas(target: Resource, graph: Graph) -> Json:
    components: Json = {}
    for resource in graph.values():
        for relationship in resource.relationships.values():
            if relationship.target == target.type:
                components |= (_to_many if relationship.to_many else _to_one)(relationship, graph)
    return components


def _to_one(relationship: Relationship, graph: Graph) -> Json:
    resource = _or_null(_resource(graph[relationship.target], graph))
    self_link = object_of({"self": text("The request path.")})
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
    total = {**count, "description": "The number of resources on all pages."}
    count["description"] = "The number of resources in `data`."
    return object_of({"count": count}, {"total": total})


def _page_links() -> Json:
    links = {name: text(f"The {name} page.") for name in ("first", "last")}
    return links | {name: text(f"The {name} page.", nullable=True) for name in ("prev", "next")}


def _linkage_links(own: str, pages: Json | None = None) -> Json:
    links = {"self": text(own), "related": text("The path of the related resources.")}
    return object_of(links, pages)


def _document(data: Json, links: Json, **more: Json) -> Json:
    included = {
        "type": "array",
        "items": reference("schemas", "AnyResource"),
        "description": "Related resources, each once; present if the request has `include`.",
    }
    required = {"data": data, "jsonapi": reference("schemas", "JsonApi"), "links": links, **more}
    return object_of(required, {"included": included})


def _self_link(resource: Resource) -> Json:
    return object_of({"self": {"type": "string", "example": resource_path(resource, 1)}})


def _resource(resource: Resource, graph: Graph) -> Json:
    attributes = _attributes(resource, resource.attributes)
    attributes["description"] = "Those in `fields`, by default all."
    links = _self_link(resource)
    required = {"type": type_of(resource), "id": _ID, "attributes": attributes, "links": links}
    relationships = _relationships(resource, graph)
    relationships["description"] = "Those in `include`, and those that the request changed."
    optional = {"relationships": relationships, "meta": reference("schemas", "Authorship")}
    return object_of(required, optional)


def _authorship() -> Json:
    members = {
        name: {**one.value_schema, "example": one.sample, **one.metadata}
        for name, one in AUTHORSHIP.items()
    }
    description = "Who created and last changed the resource, and when, as far as it is known."
    return {**object_of({}, members), "description": description}


def _any_resource(graph: Graph) -> Json:
    references = {resource.type: schema_of(resource, "Resource") for resource in graph.values()}
    mapping = {name: schema["$ref"] for name, schema in references.items()}
    discriminator = {"propertyName": "type", "mapping": mapping}
    return {"oneOf": list(references.values()), "discriminator": discriminator}


def _request(data: Json) -> Json:
    return object_of({"data": data}, closed=False)


def _attributes(resource: Resource, names: Collection[str], *, creating: bool = False) -> Json:
    """Return the schema of `attributes`. Only creation has required attributes and defaults."""
    attributes = {name: one for name, one in resource.attributes.items() if name in names}
    properties = {name: attribute.openapi_schema() for name, attribute in attributes.items()}
    for name in resource.unique_attributes.keys() & attributes:
        described = f"{properties[name].get('description', '')} {_unique(resource, name)}"
        properties[name]["description"] = described.lstrip()
    if creating:
        required = {name: properties[name] for name, one in attributes.items() if one.required}
        return object_of(required, properties)
    for schema in properties.values():
        schema.pop("default", None)
    return object_of({}, properties)


def _unique(resource: Resource, name: str) -> str:
    case = ", whatever the case of letters" if resource.attributes[name].ignores_case else ""
    return f"No two {resource.collection} have the same{case}."


def _relationships(resource: Resource, graph: Graph) -> Json:
    relationships: Json = {}
    for name, relationship in resource.relationships.items():
        pages = _page_links() if relationship.to_many else None
        links = _linkage_links("The path of the linkage.", pages)
        data = linkage(relationship, graph, "Identifier")
        relationships[name] = object_of({"data": data, "links": links})
    return object_of({}, relationships)


def _or_null(schema: Json) -> Json:
    if "oneOf" not in schema:
        return {**schema, "nullable": True}
    first, *others = schema["oneOf"]
    # Beside `oneOf` it has no effect in OpenAPI 3.0, but some generators look for it there.
    return {"oneOf": [_or_null(first), *others], "nullable": True}


def _error() -> Json:
    types = error_types()
    links = {
        "about": text("The path of the resource that has the value of a unique attribute."),
        "type": text("The error type in the cursor profile.", format="uri"),
    }
    max_size = {"type": "integer", "description": "The maximum page size."}
    source = {
        "pointer": text("A JSON Pointer into the request document."),
        "parameter": text("The name of the query parameter."),
    }
    required = {
        "id": text("The request id, which is in the log too."),
        "status": text("The HTTP status.", enum=sorted({str(one.status) for one in types})),
        "code": text("The error type.", enum=sorted(one.code for one in types)),
        "title": text("A summary of the error type."),
        "detail": text("An explanation of this error."),
    }
    optional = {
        "source": object_of({}, source),
        "links": object_of({}, links),
        "meta": object_of({}, {"page": object_of({}, {"maxSize": max_size})}),
    }
    return object_of(required, optional)


def query_parameter(name: str, description: str, schema: Json) -> Json:
    """Return a query parameter; items of an array are separated by commas."""
    style = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
    return {"name": name, "in": "query", "description": description, "schema": schema, **style}
