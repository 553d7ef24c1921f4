"""The graph -> OpenAPI schemas of the documents that the service takes and gives."""

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

_PAGE_LINKS = ("first", "last", "prev", "next")

NUMBER: Json = {"type": "integer", "minimum": 1, "maximum": MAX_ID}
"""The schema of what counts from 1: an id, or the number of a page."""

NEVER: Json = {"not": {}}
"""The schema of a member that is not there."""

_ID: Json = {"type": "string", "pattern": f"^{ID_PATTERN}$", "example": "1"}
_IDS: dict[str, Json] = {
    "Identifier": _ID,
    "Reference": {
        "oneOf": [_ID, {"type": "integer", "format": "int64", "minimum": 1}],
        "example": "1",
    },
    "Removal": {"oneOf": [{"type": "string"}, {"type": "number"}], "example": "1"},
}
"""The `id` of a resource identifier that is answered; that links; that unlinks, for which it may
name what does not exist."""
_LOCAL = "Local"


def schemas(graph: Graph) -> Json:
    """Return the component schemas: those of each type, and those that all types share."""
    found: Json = {}
    for resource in graph.values():
        made = _of_type(resource, graph) | _of_target(resource, graph)
        found |= {title(resource) + suffix: schema for suffix, schema in made.items()}
    return found | {
        "AnyResource": _any_resource(graph),
        "JsonApi": _json_api(),
        "ErrorDocument": _error_document(),
        "Error": _error(),
    }


def title(resource: Resource) -> str:
    """Return the name of a type in the description, `Person`."""
    return resource.type.title().replace("_", "")


def reference(kind: str, name: str) -> Json:
    """Return a reference to a component; its kind is `schemas`, `parameters`, ..."""
    return {"$ref": f"#/components/{kind}/{name}"}


def schema_of(resource: Resource, suffix: str) -> Json:
    """Return a reference to a schema of a type, such as its `Document`."""
    return reference("schemas", title(resource) + suffix)


def absolute(path: str) -> str:
    """Return an example of the URL of a path."""
    return f"http://localhost:8080{path}"


def attribute(resource: Resource, name: str) -> Json:
    """Return the schema of an attribute, with an example."""
    return resource.attributes[name].description()


def object_of(properties: Json, *, required: Iterable[str] = (), closed: bool = True) -> Json:
    """Return the schema of an object; a closed one has no other members."""
    found: Json = {"type": "object", "properties": properties}
    if names := list(required):
        found["required"] = names
    if closed:
        found["additionalProperties"] = False
    return found


def resource_sent(resource: Resource, graph: Graph, suffix: str, *, creating: bool) -> Json:
    """Return the schema of a resource object of a request; suffix: of its identifiers."""
    attributes = _attributes(resource, resource.writable, creating=creating)
    relationships = {
        name: object_of(
            {"data": linkage(relationship, graph, suffix)}, required=["data"], closed=False
        )
        for name, relationship in resource.relationships.items()
    }
    properties = {
        "type": type_of(resource),
        "id": {"description": "Discarded, whatever it is.", "example": "1"},
        "attributes": attributes,
        "relationships": {
            **object_of(relationships),
            "description": "Each replaces all that the relationship led to before.",
        },
    }
    required = ["type", "attributes"] if "required" in attributes else ["type"]
    return object_of(properties, required=required, closed=False)


def linkage(relationship: Relationship, graph: Graph, suffix: str) -> Json:
    """Return the schema of resource linkage; suffix: of its identifiers."""
    target = graph[relationship.target]
    if relationship.to_many:
        return {"type": "array", "items": schema_of(target, suffix)}
    # OpenAPI 3.0 has no way to say that a reference may be null.
    return _or_null(identifier(target, suffix))


def identifier(resource: Resource, suffix: str) -> Json:
    """Return the schema of a resource identifier.

    suffix: `Identifier`, `Reference` or `Removal`; before the last two, `Local` allows a `lid`.
    """
    if suffix.startswith(_LOCAL):
        numbered = identifier(resource, suffix.removeprefix(_LOCAL))["properties"]
        local = {"type": type_of(resource), "lid": text("Of a resource that was added before.")}
        return {
            "oneOf": [
                object_of({**numbered, "lid": NEVER}, required=numbered, closed=False),
                object_of({**local, "id": NEVER}, required=local, closed=False),
            ]
        }
    return object_of(
        {"type": type_of(resource), "id": _IDS[suffix]},
        required=["type", "id"],
        closed=suffix == "Identifier",
    )


def type_of(resource: Resource) -> Json:
    """Return the schema of the member `type`."""
    return {"type": "string", "enum": [resource.type], "example": resource.type}


def text(description: str, **more: Any) -> Json:
    """Return the schema of a text."""
    return {"type": "string", "description": description, **more}


def _of_type(resource: Resource, graph: Graph) -> Json:
    """Return the schemas of a type by what follows its name."""
    return {
        "Document": _document(schema_of(resource, "Resource"), _single_links(resource)),
        "Collection": _collection(resource),
        "Resource": _resource(resource, graph),
        "Identifier": identifier(resource, "Identifier"),
        "Create": _request(resource_sent(resource, graph, "Reference", creating=True)),
        "Update": _request(resource_sent(resource, graph, "Reference", creating=False)),
        "Reference": identifier(resource, "Reference"),
    }


def _of_target(resource: Resource, graph: Graph) -> Json:
    """Return the schemas of a type that relationships lead to."""
    found: Json = {}
    for one in graph.values():
        for relationship in one.relationships.values():
            if relationship.target == resource.type:
                found |= (_to_many if relationship.to_many else _to_one)(relationship, graph)
    return found


def _to_one(relationship: Relationship, graph: Graph) -> Json:
    resource = _or_null(_resource(graph[relationship.target], graph))
    self_link = object_of({"self": text("The path of this.")}, required=["self"])
    links = _linkage_links("The path of this.")
    return {
        "DocumentOrNull": _document(resource, self_link),
        "ToOneLinkage": _document(linkage(relationship, graph, "Identifier"), links),
        "ToOneChange": _request(linkage(relationship, graph, "Reference")),
    }


def _to_many(relationship: Relationship, graph: Graph) -> Json:
    links = _linkage_links("The URL as requested.", _page_links())
    data = linkage(relationship, graph, "Identifier")
    return {
        "ToManyLinkage": _document(data, links, meta=_meta()),
        "ToManyChange": _request(linkage(relationship, graph, "Reference")),
        "ToManyRemoval": _request(linkage(relationship, graph, "Removal")),
        "Removal": identifier(graph[relationship.target], "Removal"),
    }


def _collection(resource: Resource) -> Json:
    url = text("The URL as requested.", format="uri", example=absolute(collection_path(resource)))
    return _document(
        {"type": "array", "items": schema_of(resource, "Resource")},
        object_of({"self": url, **_page_links()}, required=["self"]),
        meta=_meta(),
    )


def _meta() -> Json:
    count = {"type": "integer", "minimum": 0}
    properties = {
        "count": {**count, "description": "How many there are in `data`.", "example": 1},
        "total": {**count, "description": "How many there are on all pages.", "example": 1},
    }
    return object_of(properties, required=["count"])


def _page_links() -> Json:
    nullable = {"prev", "next"}
    return {
        name: text(f"The {name} page.", **({"nullable": True} if name in nullable else {}))
        for name in _PAGE_LINKS
    }


def _linkage_links(own: str, pages: Json | None = None) -> Json:
    links = {"self": text(own), "related": text("Where the resources themselves are.")}
    return object_of({**links, **(pages or {})}, required=links)


def _single_links(resource: Resource) -> Json:
    return object_of({"self": _path(resource)}, required=["self"])


def _document(data: Json, links: Json, **more: Json) -> Json:
    properties = {
        "data": data,
        "included": {
            "type": "array",
            "items": reference("schemas", "AnyResource"),
            "description": "Related resources, each once; present when `include` is sent.",
        },
        "jsonapi": reference("schemas", "JsonApi"),
        "links": links,
        **more,
    }
    return object_of(properties, required=properties.keys() - {"included"})


def _path(resource: Resource) -> Json:
    return {"type": "string", "example": resource_path(resource, 1)}


def _resource(resource: Resource, graph: Graph) -> Json:
    properties = {
        "type": type_of(resource),
        "id": _ID,
        "attributes": {
            **_attributes(resource, resource.attributes),
            "description": "Those that `fields` asks for, by default all.",
        },
        "relationships": {
            **_relationships(resource, graph),
            "description": "Those that `include` asks for and those that the request changed.",
        },
        "links": _single_links(resource),
    }
    return object_of(properties, required=properties.keys() - {"relationships"})


def _any_resource(graph: Graph) -> Json:
    references = {resource.type: schema_of(resource, "Resource") for resource in graph.values()}
    mapping = {name: found["$ref"] for name, found in references.items()}
    return {
        "oneOf": list(references.values()),
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }


def _request(data: Json) -> Json:
    return object_of({"data": data}, required=["data"], closed=False)


def _attributes(resource: Resource, names: Collection[str], *, creating: bool = False) -> Json:
    """Return the schema of `attributes`; what is required or has a default is so at creation."""
    properties = {name: attribute(resource, name) for name in resource.attributes if name in names}
    if creating:
        fields = resource.attributes
        return object_of(
            properties, required=[name for name in properties if fields[name].required]
        )
    for found in properties.values():
        found.pop("default", None)
    return object_of(properties)


def _relationships(resource: Resource, graph: Graph) -> Json:
    """Return the schema of `relationships` as they are answered."""
    return object_of(
        {
            name: object_of(
                {
                    "data": linkage(relationship, graph, "Identifier"),
                    "links": _linkage_links(
                        "Where the identifiers are.",
                        _page_links() if relationship.to_many else None,
                    ),
                },
                required=["data", "links"],
            )
            for name, relationship in resource.relationships.items()
        }
    )


def _or_null(schema: Json) -> Json:
    if "oneOf" not in schema:
        return {**schema, "nullable": True}
    first, *others = schema["oneOf"]
    return {"oneOf": [_or_null(first), *others]}


def _json_api() -> Json:
    version = JSONAPI["version"]
    return object_of(
        {"version": {"type": "string", "enum": [version], "example": version}},
        required=["version"],
    )


def _error_document() -> Json:
    properties = {
        "errors": {"type": "array", "minItems": 1, "items": reference("schemas", "Error")},
        "jsonapi": reference("schemas", "JsonApi"),
    }
    return object_of(properties, required=properties)


def _error() -> Json:
    kinds = ApiError.__subclasses__()
    pointer = "A JSON Pointer into the document that was sent."
    source = {"pointer": text(pointer), "parameter": text("The name of the query parameter.")}
    largest = {"type": "integer", "description": "How many resources a page has at most."}
    properties = {
        "id": text("The id of the request, under which the log has it."),
        "status": text("The HTTP status.", enum=sorted({str(kind.status) for kind in kinds})),
        "code": text("The kind of the problem.", enum=sorted(kind.code for kind in kinds)),
        "title": text("What this kind of problem is called."),
        "detail": text("What is wrong with this request."),
        "source": object_of(source),
        "links": object_of({"type": text("What the cursor profile calls it.", format="uri")}),
        "meta": object_of({"page": object_of({"maxSize": largest})}),
    }
    return object_of(properties, required=properties.keys() - {"source", "links", "meta"})
