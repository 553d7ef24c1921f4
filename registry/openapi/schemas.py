"""The graph -> the component schemas: resource objects, identifiers, linkage and documents."""

from collections.abc import Collection

from registry.jsonapi.documents import JSONAPI
from registry.jsonapi.error_types import error_types
from registry.jsonapi.resource_objects import collection_path, resource_path
from registry.model.attributes.identifier import ID_PATTERN
from registry.model.authorship import AUTHORSHIP
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.openapi.schema_objects import (
    POSITIVE,
    Json,
    absolute,
    code,
    object_of,
    or_null,
    reference,
    schema_of,
    text,
    title,
)

_ID: Json = {"type": "string", "pattern": f"^{ID_PATTERN}$", "example": "1"}
_REFERENCE: Json = {"id": {"oneOf": [_ID, POSITIVE], "example": "1"}}
_REMOVAL: Json = {"id": {"oneOf": [{"type": "string"}, {"type": "integer"}], "example": "1"}}
_LOCAL_ID: Json = {"lid": text("The `lid` of a resource that a preceding operation adds.")}

_IDENTIFIERS: dict[str, tuple[Json, ...]] = {
    "Identifier": ({"id": _ID},),
    "Reference": (_REFERENCE,),
    "Removal": (_REMOVAL,),
    "LocalReference": (_REFERENCE, _LOCAL_ID),
    "LocalRemoval": (_REMOVAL, _LOCAL_ID),
}
"""The members of which a resource identifier has one beside its type, by the suffix of the schema:
in a response, in a request that links, in one that removes members, where the resource need not
exist, and the last two in operations."""

IDENTITIES: dict[str, Json] = {"Id": _REFERENCE, "LocalId": _LOCAL_ID}
"""The member that identifies a resource in an operation, beside its type."""

_COUNT: Json = {"type": "integer", "minimum": 0, "example": 1}
_META = object_of(
    {"count": {**_COUNT, "description": "The number of resources in `data`."}},
    {
        "total": {**_COUNT, "description": "The number of resources on all pages."},
        "page": object_of(
            {
                name: text(f"For `page[{name}]`; null if there is no such page.", nullable=True)
                for name in ("before", "after")
            }
        ),
    },
)


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
        "JsonApi": object_of({"version": version}),
        "ErrorDocument": object_of({"errors": errors, "jsonapi": reference("schemas", "JsonApi")}),
        "Error": _error(),
    }


def identifier(resource: ResourceType, suffix: str) -> Json:
    """Return the schema of a resource identifier. suffix: one of `_IDENTIFIERS`."""
    alternatives = [
        object_of({"type": _type_of(resource), **member}, closed=suffix == "Identifier")
        for member in _IDENTIFIERS[suffix]
    ]
    return alternatives[0] if len(alternatives) == 1 else {"oneOf": alternatives}


def linkage(relationship: Relationship, graph: Graph, suffix: str) -> Json:
    """Return the schema of resource linkage. suffix: of its identifiers."""
    target = graph[relationship.target]
    if relationship.to_many:
        return {"type": "array", "items": schema_of(target, suffix)}
    return or_null(identifier(target, suffix))  # OpenAPI 3.0 has no nullable references


def request_relationships(resource: ResourceType, graph: Graph, suffix: str) -> Json:
    """Return the schema of `relationships` in a request. suffix: of the identifiers."""
    relationships = {
        name: _with_data(linkage(relationship, graph, suffix))
        for name, relationship in resource.relationships.items()
    }
    description = {"description": "Linkage replaces that of the relationship."}
    return object_of({}, relationships) | description


def request_resource(resource: ResourceType, suffix: str, *, creating: bool) -> Json:
    """Return the schema of a resource object in a request. suffix: of its identifiers."""
    attributes = _attributes(resource, resource.writable, creating=creating)
    relationships = schema_of(resource, f"{suffix}Linkages")
    required = {"type": _type_of(resource)}
    optional = {"id": {"description": "Ignored.", "example": "1"}, "relationships": relationships}
    (required if "required" in attributes else optional)["attributes"] = attributes
    return object_of(required, optional, closed=False)


def _type_schemas(resource: ResourceType, graph: Graph) -> Json:
    url = text("The request URL.", format="uri", example=absolute(collection_path(resource)))
    links = object_of({"self": url}, _page_links())
    resources = {"type": "array", "items": schema_of(resource, "Resource")}
    return {
        "Document": _document(schema_of(resource, "Resource"), _self_link(resource)),
        "Collection": _document(resources, links, meta=_META),
        "Resource": _response_resource(resource, graph),
        "Identifier": identifier(resource, "Identifier"),
        "Create": _with_data(request_resource(resource, "Reference", creating=True)),
        "Update": _with_data(request_resource(resource, "Reference", creating=False)),
        "Reference": identifier(resource, "Reference"),
        "ReferenceLinkages": request_relationships(resource, graph, "Reference"),
    }


def _target_schemas(target: ResourceType, graph: Graph) -> Json:
    """Return the schemas of documents of relationships with this target."""
    components: Json = {}
    for relationship in (one for each in graph.values() for one in each.relationships.values()):
        if relationship.target == target.type:
            components |= (_to_many if relationship.to_many else _to_one)(relationship, graph)
    return components


def _to_one(relationship: Relationship, graph: Graph) -> Json:
    resource = or_null(_response_resource(graph[relationship.target], graph))
    links = _linkage_links("The request path.")
    return {
        "DocumentOrNull": _document(resource, object_of({"self": text("The request path.")})),
        "ToOneLinkage": _document(linkage(relationship, graph, "Identifier"), links),
        "ToOneChange": _with_data(linkage(relationship, graph, "Reference")),
    }


def _to_many(relationship: Relationship, graph: Graph) -> Json:
    links = _linkage_links("The request URL.", _page_links())
    return {
        "ToManyLinkage": _document(linkage(relationship, graph, "Identifier"), links, meta=_META),
        "ToManyChange": _with_data(linkage(relationship, graph, "Reference")),
        "ToManyRemoval": _with_data(linkage(relationship, graph, "Removal")),
        "Removal": identifier(graph[relationship.target], "Removal"),
    }


def _type_of(resource: ResourceType) -> Json:
    return {"type": "string", "enum": [resource.type], "example": resource.type}


def _with_data(data: Json) -> Json:
    """Return the schema of a document or relationship of a request."""
    return object_of({"data": data}, closed=False)


def _attributes(resource: ResourceType, names: Collection[str], *, creating: bool = False) -> Json:
    """Return the schema of `attributes`. Only creation has required attributes and defaults."""
    attributes = {name: one for name, one in resource.readable.items() if name in names}
    properties = {name: attribute.openapi_schema() for name, attribute in attributes.items()}
    for name in resource.unique_attributes.keys() & attributes:
        case = ", whatever the case of letters" if resource.attributes[name].ignores_case else ""
        unique = f"No two {resource.collection} have the same{case}."
        described = f"{properties[name].get('description', '')} {unique}"
        properties[name]["description"] = described.lstrip()
    if creating:
        required = {name: properties[name] for name, one in attributes.items() if one.required}
        return object_of(required, properties)
    for schema in properties.values():
        schema.pop("default", None)
    return object_of({}, properties)


def _response_resource(resource: ResourceType, graph: Graph) -> Json:
    attributes = _attributes(resource, resource.readable)
    attributes["description"] = f"Those in `fields`, by default all but {code(AUTHORSHIP)}."
    links = _self_link(resource)
    required = {"type": _type_of(resource), "id": _ID, "attributes": attributes, "links": links}
    relationships: Json = {}
    for name, relationship in resource.relationships.items():
        pages = _page_links() if relationship.to_many else None
        members = {"data": linkage(relationship, graph, "Identifier")}
        members["links"] = _linkage_links("The path of the linkage.", pages)
        relationships[name] = object_of(members)
    shown = {"description": "Those in `include`, and those that the request changed."}
    return object_of(required, {"relationships": object_of({}, relationships) | shown})


def _self_link(resource: ResourceType) -> Json:
    return object_of({"self": {"type": "string", "example": resource_path(resource, 1)}})


def _page_links() -> Json:
    links = {name: text(f"The {name} page.") for name in ("first", "last")}
    return links | {name: text(f"The {name} page.", nullable=True) for name in ("prev", "next")}


def _linkage_links(own: str, pages: Json | None = None) -> Json:
    """Return the schema of `links` of linkage. own: describes its own link."""
    return object_of(
        {"self": text(own), "related": text("The path of the related resources.")}, pages
    )


def _document(data: Json, links: Json, **more: Json) -> Json:
    included = {
        "type": "array",
        "items": reference("schemas", "AnyResource"),
        "description": "Related resources, each once; present if the request has `include`.",
    }
    required = {"data": data, "jsonapi": reference("schemas", "JsonApi"), "links": links, **more}
    return object_of(required, {"included": included})


def _any_resource(graph: Graph) -> Json:
    references = {resource.type: schema_of(resource, "Resource") for resource in graph.values()}
    mapping = {name: schema["$ref"] for name, schema in references.items()}
    discriminator = {"propertyName": "type", "mapping": mapping}
    return {"oneOf": list(references.values()), "discriminator": discriminator}


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
        "id": text("The request id, which is in the log too; that of a second error ends in `-2`."),
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
