"""The graph -> OpenAPI schemas of resource objects, resource identifiers and linkage."""

from collections.abc import Collection

from registry.jsonapi.resource_objects import resource_path
from registry.model.attributes.identifier import ID_PATTERN
from registry.model.authorship import AUTHORSHIP
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.openapi.schema_objects import (
    POSITIVE,
    Json,
    code,
    object_of,
    or_null,
    schema_of,
    text,
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


def request_relationships(resource: ResourceType, graph: Graph, suffix: str) -> Json:
    """Return the schema of `relationships` in a request. suffix: of the identifiers."""
    relationships = {
        name: with_data(linkage(relationship, graph, suffix))
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


def linkage(relationship: Relationship, graph: Graph, suffix: str) -> Json:
    """Return the schema of resource linkage. suffix: of its identifiers."""
    target = graph[relationship.target]
    if relationship.to_many:
        return {"type": "array", "items": schema_of(target, suffix)}
    return or_null(identifier(target, suffix))  # OpenAPI 3.0 has no nullable references


def identifier(resource: ResourceType, suffix: str) -> Json:
    """Return the schema of a resource identifier.

    suffix: `Identifier`, `Reference`, `Removal`, `LocalReference` or `LocalRemoval`.
    """
    alternatives = [
        object_of({"type": _type_of(resource), **member}, closed=suffix == "Identifier")
        for member in _IDENTIFIERS[suffix]
    ]
    return alternatives[0] if len(alternatives) == 1 else {"oneOf": alternatives}


def _type_of(resource: ResourceType) -> Json:
    """Return the schema of the member `type`."""
    return {"type": "string", "enum": [resource.type], "example": resource.type}


def with_data(data: Json) -> Json:
    """Return the schema of a document or relationship of a request."""
    return object_of({"data": data}, closed=False)


def _attributes(resource: ResourceType, names: Collection[str], *, creating: bool = False) -> Json:
    """Return the schema of `attributes`. Only creation has required attributes and defaults."""
    attributes = {name: one for name, one in resource.readable.items() if name in names}
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


def _unique(resource: ResourceType, name: str) -> str:
    case = ", whatever the case of letters" if resource.attributes[name].ignores_case else ""
    return f"No two {resource.collection} have the same{case}."


def response_resource(resource: ResourceType, graph: Graph) -> Json:
    """Return the schema of a resource object in a response."""
    attributes = _attributes(resource, resource.readable)
    attributes["description"] = f"Those in `fields`, by default all but {code(AUTHORSHIP)}."
    links = self_link(resource)
    required = {"type": _type_of(resource), "id": _ID, "attributes": attributes, "links": links}
    relationships = _response_relationships(resource, graph)
    relationships["description"] = "Those in `include`, and those that the request changed."
    return object_of(required, {"relationships": relationships})


def _response_relationships(resource: ResourceType, graph: Graph) -> Json:
    relationships: Json = {}
    for name, relationship in resource.relationships.items():
        pages = page_links() if relationship.to_many else None
        links = linkage_links("The path of the linkage.", pages)
        data = linkage(relationship, graph, "Identifier")
        relationships[name] = object_of({"data": data, "links": links})
    return object_of({}, relationships)


def self_link(resource: ResourceType) -> Json:
    """Return the schema of `links` of a resource object, and of the document with it alone."""
    return object_of({"self": {"type": "string", "example": resource_path(resource, 1)}})


def page_links() -> Json:
    """Return the schemas of the links to other pages, by name."""
    links = {name: text(f"The {name} page.") for name in ("first", "last")}
    return links | {name: text(f"The {name} page.", nullable=True) for name in ("prev", "next")}


def linkage_links(own: str, pages: Json | None = None) -> Json:
    """Return the schema of `links` of linkage. own: describes its own link."""
    links = {"self": text(own), "related": text("The path of the related resources.")}
    return object_of(links, pages)
