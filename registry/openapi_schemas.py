"""The graph -> OpenAPI schemas of the documents that the service takes and gives."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin

from registry.jsonapi.document import JSONAPI
from registry.jsonapi.errors import ApiError
from registry.jsonapi.payload import ID
from registry.resource import Graph, Relationship, Resource

Json: TypeAlias = dict[str, Any]

OPENAPI = "3.0.0"

_CONVERTER = MarshmallowPlugin.Converter(OPENAPI, lambda _: None, APISpec("", "", OPENAPI))
_ID: Json = {"type": "string", "pattern": f"^{ID.pattern}$", "example": "1"}
_ID_OR_NUMBER: Json = {
    "oneOf": [_ID, {"type": "integer", "format": "int64", "minimum": 1}],
    "example": "1",
}
_EXAMPLES = {
    "string": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "date": "1906-12-09",
    "date-time": "1906-12-09T12:00:00Z",
}
"""By type or format, for attributes that are declared without one."""


def schemas(graph: Graph) -> Json:
    """Return the component schemas: those of each type, and those that all types share."""
    found: Json = {}
    for resource in graph.values():
        name = title(resource)
        found |= {
            f"{name}Document": _single(resource),
            f"{name}Collection": _collection(resource),
            f"{name}Resource": _resource(resource, graph),
            f"{name}Identifier": _identifier(resource, sent=False),
            f"{name}Create": _request(resource, graph, creating=True),
            f"{name}Update": _request(resource, graph, creating=False),
            f"{name}Reference": _identifier(resource, sent=True),
        }
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


def collection_url(resource: Resource, query: str = "") -> str:
    """Return an example of the URL of a collection."""
    return f"http://localhost:8080{resource.collection_path}{query}"


def attribute(resource: Resource, name: str) -> Json:
    """Return the schema of an attribute, with an example."""
    found: Json = _CONVERTER.field2property(resource.full_schema.fields[name])
    kind = found.get("format") if found.get("format") in _EXAMPLES else found.get("type")
    return {"example": found.get("enum", [_EXAMPLES.get(kind or "")])[0]} | found


def _object(properties: Json, *, required: Iterable[str] = (), closed: bool = True) -> Json:
    """Return the schema of an object; a closed one has no other members."""
    found: Json = {"type": "object", "properties": properties}
    if names := list(required):
        found["required"] = names
    if closed:
        found["additionalProperties"] = False
    return found


def _single(resource: Resource) -> Json:
    return _document(schema_of(resource, "Resource"), self_link=_path(resource))


def _collection(resource: Resource) -> Json:
    url = {
        "type": "string",
        "format": "uri",
        "description": "The URL as requested.",
        "example": collection_url(resource),
    }
    count = {"type": "integer", "minimum": 0, "example": 1}
    return _document(
        {"type": "array", "items": schema_of(resource, "Resource")},
        self_link=url,
        meta=_object({"count": count}, required=["count"]),
    )


def _document(data: Json, self_link: Json, **more: Json) -> Json:
    properties = {
        "data": data,
        "included": {
            "type": "array",
            "items": reference("schemas", "AnyResource"),
            "description": "Related resources, each once; present when `include` is sent.",
        },
        "jsonapi": reference("schemas", "JsonApi"),
        "links": _object({"self": self_link}, required=["self"]),
        **more,
    }
    return _object(properties, required=properties.keys() - {"included"})


def _path(resource: Resource) -> Json:
    return {"type": "string", "example": resource.path(1)}


def _resource(resource: Resource, graph: Graph) -> Json:
    properties = {
        "type": _type(resource),
        "id": _ID,
        "attributes": {
            **_attributes(resource, resource.attributes),
            "description": "Those that `fields` asks for, by default all.",
        },
        "relationships": {
            **_relationships(resource, graph, sent=False),
            "description": "Those that `include` asks for and those that the request changed.",
        },
        "links": _object({"self": _path(resource)}, required=["self"]),
    }
    return _object(properties, required=properties.keys() - {"relationships"})


def _any_resource(graph: Graph) -> Json:
    references = {resource.type: schema_of(resource, "Resource") for resource in graph.values()}
    mapping = {name: found["$ref"] for name, found in references.items()}
    return {
        "oneOf": list(references.values()),
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }


def _request(resource: Resource, graph: Graph, *, creating: bool) -> Json:
    attributes = _attributes(resource, resource.writable, creating=creating)
    properties = {
        "type": _type(resource),
        "id": {"description": "Discarded, whatever it is.", "example": "1"},
        "attributes": attributes,
        "relationships": {
            **_relationships(resource, graph, sent=True),
            "description": "Each replaces all that the relationship led to before.",
        },
    }
    required = ["type", "attributes"] if "required" in attributes else ["type"]
    data = _object(properties, required=required, closed=False)
    return _object({"data": data}, required=["data"], closed=False)


def _attributes(resource: Resource, names: Collection[str], *, creating: bool = False) -> Json:
    """Return the schema of `attributes`; what is required or has a default is so at creation."""
    properties = {name: attribute(resource, name) for name in resource.attributes if name in names}
    if creating:
        fields = resource.full_schema.fields
        return _object(properties, required=[name for name in properties if fields[name].required])
    for found in properties.values():
        found.pop("default", None)
    return _object(properties)


def _relationships(resource: Resource, graph: Graph, *, sent: bool) -> Json:
    """Return the schema of `relationships`, as clients may send it or as it is answered."""
    return _object(
        {
            name: _object(
                {"data": _linkage(relationship, graph, sent=sent)},
                required=["data"],
                closed=not sent,
            )
            for name, relationship in resource.relationships.items()
        }
    )


def _linkage(relationship: Relationship, graph: Graph, *, sent: bool) -> Json:
    target = graph[relationship.target]
    if relationship.to_many:
        return {"type": "array", "items": schema_of(target, "Reference" if sent else "Identifier")}
    # OpenAPI 3.0 has no way to say that a reference may be null.
    return {**_identifier(target, sent=sent), "nullable": True}


def _identifier(resource: Resource, *, sent: bool) -> Json:
    return _object(
        {"type": _type(resource), "id": _ID_OR_NUMBER if sent else _ID},
        required=["type", "id"],
        closed=not sent,
    )


def _type(resource: Resource) -> Json:
    return {"type": "string", "enum": [resource.type], "example": resource.type}


def _json_api() -> Json:
    version = JSONAPI["version"]
    return _object(
        {"version": {"type": "string", "enum": [version], "example": version}},
        required=["version"],
    )


def _error_document() -> Json:
    properties = {
        "errors": {"type": "array", "minItems": 1, "items": reference("schemas", "Error")},
        "jsonapi": reference("schemas", "JsonApi"),
    }
    return _object(properties, required=properties)


def _error() -> Json:
    kinds = ApiError.__subclasses__()
    pointer = "A JSON Pointer into the document that was sent."
    source = {"pointer": _text(pointer), "parameter": _text("The name of the query parameter.")}
    properties = {
        "id": _text("The id of the request, under which the log has it."),
        "status": _text("The HTTP status.", enum=sorted({str(kind.status) for kind in kinds})),
        "code": _text("The kind of the problem.", enum=sorted(kind.code for kind in kinds)),
        "title": _text("What this kind of problem is called."),
        "detail": _text("What is wrong with this request."),
        "source": _object(source),
    }
    return _object(properties, required=properties.keys() - {"source"})


def _text(description: str, **more: list[str]) -> Json:
    return {"type": "string", "description": description, **more}
