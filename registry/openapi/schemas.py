"""The graph -> the component schemas of an OpenAPI document."""

from registry.jsonapi.documents import JSONAPI
from registry.jsonapi.error_types import error_types
from registry.jsonapi.resource_objects import collection_path
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.openapi.resource_schemas import (
    identifier,
    linkage,
    linkage_links,
    page_links,
    request_relationships,
    request_resource,
    response_resource,
    self_link,
    with_data,
)
from registry.openapi.schema_objects import (
    Json,
    absolute,
    object_of,
    or_null,
    reference,
    schema_of,
    text,
    title,
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


def _type_schemas(resource: ResourceType, graph: Graph) -> Json:
    url = text("The request URL.", format="uri", example=absolute(collection_path(resource)))
    links = object_of({"self": url}, page_links())
    resources = {"type": "array", "items": schema_of(resource, "Resource")}
    return {
        "Document": _document(schema_of(resource, "Resource"), self_link(resource)),
        "Collection": _document(resources, links, meta=_meta()),
        "Resource": response_resource(resource, graph),
        "Identifier": identifier(resource, "Identifier"),
        "Create": with_data(request_resource(resource, "Reference", creating=True)),
        "Update": with_data(request_resource(resource, "Reference", creating=False)),
        "Reference": identifier(resource, "Reference"),
        "ReferenceLinkages": request_relationships(resource, graph, "Reference"),
    }


def _target_schemas(target: ResourceType, graph: Graph) -> Json:
    components: Json = {}
    for resource in graph.values():
        for relationship in resource.relationships.values():
            if relationship.target == target.type:
                components |= (_to_many if relationship.to_many else _to_one)(relationship, graph)
    return components


def _to_one(relationship: Relationship, graph: Graph) -> Json:
    resource = or_null(response_resource(graph[relationship.target], graph))
    links = linkage_links("The request path.")
    return {
        "DocumentOrNull": _document(resource, object_of({"self": text("The request path.")})),
        "ToOneLinkage": _document(linkage(relationship, graph, "Identifier"), links),
        "ToOneChange": with_data(linkage(relationship, graph, "Reference")),
    }


def _to_many(relationship: Relationship, graph: Graph) -> Json:
    links = linkage_links("The request URL.", page_links())
    return {
        "ToManyLinkage": _document(linkage(relationship, graph, "Identifier"), links, meta=_meta()),
        "ToManyChange": with_data(linkage(relationship, graph, "Reference")),
        "ToManyRemoval": with_data(linkage(relationship, graph, "Removal")),
        "Removal": identifier(graph[relationship.target], "Removal"),
    }


def _meta() -> Json:
    count = {"type": "integer", "minimum": 0, "example": 1}
    total = {**count, "description": "The number of resources on all pages."}
    count["description"] = "The number of resources in `data`."
    return object_of({"count": count}, {"total": total})


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
