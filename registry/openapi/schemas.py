"""The graph -> the component schemas: of documents, and of atomic operations and their results."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from registry.jsonapi.documents import JSONAPI, Effect
from registry.jsonapi.error_types import error_types
from registry.jsonapi.operation_documents import MAX_OPERATIONS
from registry.jsonapi.parameter_schemas import NUMBER
from registry.jsonapi.resource_objects import path_of
from registry.model.attribute_schemas import attribute_schema
from registry.model.graph import Graph
from registry.model.implicit_attributes import ID_PATTERN
from registry.model.resource_field import ResourceField
from registry.model.resource_type import InvalidDeclaration, Relationship, ResourceType
from registry.protocol import OPERATIONS, RESULTS

Json: TypeAlias = dict[str, Any]


def title(resource_type: ResourceType) -> str:
    """Return the name of a type in the description, `Person`."""
    return resource_type.type.title().replace("_", "")


def require_distinct(names: Iterable[str]) -> None:
    """Raise InvalidDeclaration if two parts of the description get the same name."""
    (name, count), *_ = Counter(names).most_common(1)
    if count > 1:
        raise InvalidDeclaration(
            f"the API description would have two parts with the name {name}: rename a type or link"
        )


@cache
def reference(kind: str, name: str) -> Json:
    """Return a reference to a component, the same object each time, as a document has thousands.

    kind: `schemas`, `parameters`, ...
    """
    return {"$ref": f"#/components/{kind}/{name}"}


def schema_of(resource_type: ResourceType, suffix: str) -> Json:
    """Return a reference to a schema of a type, such as its `Document`."""
    return reference("schemas", title(resource_type) + suffix)


def object_of(required: Json, optional: Json | None = None, *, closed: bool = True) -> Json:
    """Return the schema of an object with these members; a closed one has no others."""
    schema: Json = {"type": "object", "properties": required | (optional or {})}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


def text(description: str, **more: Any) -> Json:
    """Return the schema of a string."""
    return {"type": "string", "description": description, **more}


def code(names: Iterable[str]) -> str:
    """Return names for a description, as Markdown."""
    return ", ".join(f"`{name}`" for name in names)


def or_null(schema: Json) -> Json:
    """Return a schema that allows null too."""
    if "oneOf" not in schema:
        return {**schema, "nullable": True}
    first, *others = schema["oneOf"]
    # Beside `oneOf` it has no effect in OpenAPI 3.0, but some generators look for it there.
    return {"oneOf": [or_null(first), *others], "nullable": True}


_ID: Json = {"type": "string", "pattern": f"^{ID_PATTERN}$", "example": "1"}
_REFERENCE: Json = {"id": {"oneOf": [_ID, NUMBER], "example": "1"}}
_REMOVAL: Json = {"id": {"oneOf": [{"type": "string"}, {"type": "integer"}], "example": "1"}}
_LOCAL_ID: Json = {"lid": text("The `lid` of a resource that a preceding operation adds.")}

_IDENTIFIERS: dict[str, tuple[Json, ...]] = {
    "Identifier": ({"id": _ID},),
    "Reference": (_REFERENCE,),
    "Removal": (_REMOVAL,),
    "LocalReference": (_REFERENCE, _LOCAL_ID),
    "LocalRemoval": (_REMOVAL, _LOCAL_ID),
}
"""The members of a resource identifier besides its type, of which it has one, by the suffix of the
schema: in a response, in a request that links, in one that removes members, where the resource need
not exist, and the last two in operations."""

_PAGE_LINKS: Json = {
    **{name: text(f"The {name} page.") for name in ("first", "last")},
    **{name: text(f"The {name} page.", nullable=True) for name in ("prev", "next")},
}
_RELATED: Json = {"related": text("The path of the related resources.")}

_JSONAPI = reference("schemas", "JsonApi")

_COUNT: Json = {"type": "integer", "minimum": 0, "example": 1}
_CURSOR = "For `page[{}]`; null if there is no such page."
_CURSORS = {name: text(_CURSOR.format(name), nullable=True) for name in ("before", "after")}
_META = object_of(
    {"count": {**_COUNT, "description": "The number of resources in `data`."}},
    {
        "total": {**_COUNT, "description": "The number of resources on all pages."},
        "page": object_of(_CURSORS),
    },
)

_MEMBER_COUNT: Json = {
    "meta": object_of({"count": {**_COUNT, "description": "The number of all members."}})
}


def schemas(graph: Graph) -> Json:
    """Return the component schemas of each type, and those that all types share."""
    operations = list(_operations(graph))  # components, as generators name a class after each
    named = [
        *(
            (title(resource_type) + suffix, schema)
            for resource_type in graph.values()
            for suffix, schema in (
                _type_schemas(resource_type, graph) | _target_schemas(resource_type, graph)
            ).items()
        ),
        *_shared_schemas(graph, [reference("schemas", name) for name, _ in operations]).items(),
        *operations,
    ]
    require_distinct(name for name, _ in named)
    return dict(named)


def _shared_schemas(graph: Graph, operations: list[Json]) -> Json:
    """Return the schemas that do not belong to a type. operations: references to their schemas."""
    version = {"type": "string", "enum": [JSONAPI["version"]], "example": JSONAPI["version"]}
    errors = {"type": "array", "minItems": 1, "items": reference("schemas", "Error")}
    oldest = text("The oldest that is kept; null if not known.", nullable=True)
    positions = object_of({"position": text("The present."), "oldest": oldest})
    own = object_of({"self": text("The request URL.")})
    array = {"type": "array", "minItems": 1, "maxItems": MAX_OPERATIONS}
    effect = object_of({"effect": {"type": "string", "enum": [*Effect]}})
    result = object_of({}, {"data": reference("schemas", "AnyResource"), "meta": effect})
    performed = {**array, "items": {"anyOf": operations}}
    return {
        "AnyResource": _any_resource(graph),
        "JsonApi": object_of({"version": version}),
        "ErrorDocument": object_of({"errors": errors, "jsonapi": _JSONAPI}),
        "Error": _error(),
        "Positions": object_of({"jsonapi": _JSONAPI, "links": own, "meta": positions}),
        "Operations": object_of({OPERATIONS: performed}, closed=False),
        "Results": object_of({RESULTS: {**array, "items": result}, "jsonapi": _JSONAPI}),
    }


def _identifier(resource_type: ResourceType, suffix: str) -> Json:
    """Return the schema of a resource identifier. suffix: one of `_IDENTIFIERS`."""
    alternatives = [
        object_of({"type": _type_of(resource_type), **member}, closed=suffix == "Identifier")
        for member in _IDENTIFIERS[suffix]
    ]
    return alternatives[0] if len(alternatives) == 1 else {"oneOf": alternatives}


def _linkage(relationship: Relationship, graph: Graph, suffix: str) -> Json:
    """Return the schema of resource linkage. suffix: of its identifiers."""
    target = graph[relationship.target]
    if relationship.to_many:
        return {"type": "array", "items": schema_of(target, suffix)}
    return or_null(_identifier(target, suffix))  # OpenAPI 3.0 has no nullable references


def _request_resource(resource_type: ResourceType, suffix: str, *, creating: bool) -> Json:
    """Return the schema of a resource object in a request. suffix: of its identifiers."""
    attributes = _attributes(resource_type, resource_type.writable, creating=creating)
    required = {"type": _type_of(resource_type)}
    optional = {"id": {"description": "Ignored.", "example": "1"}}
    optional["relationships"] = schema_of(resource_type, f"{suffix}Linkages")
    (required if "required" in attributes else optional)["attributes"] = attributes
    return object_of(required, optional, closed=False)


def _type_schemas(resource_type: ResourceType, graph: Graph) -> Json:
    """Return the schemas of a type, by the suffix of their names."""
    url = text("The request URL.", format="uri")
    links = object_of({"self": url}, _PAGE_LINKS)
    resources = {"type": "array", "items": schema_of(resource_type, "Resource")}
    components = {
        "Document": _document(schema_of(resource_type, "Resource"), _self_link(resource_type)),
        "Collection": _document(resources, links, meta=_META),
        "Resource": _response_resource(resource_type, graph),
        "Identifier": _identifier(resource_type, "Identifier"),
    }
    if resource_type.read_only:
        return components
    for suffix, creating in {"Create": True, "Update": False}.items():
        data = _request_resource(resource_type, "Reference", creating=creating)
        components[suffix] = _with_data(data)
    for suffix, creating in {"Addition": True, "Revision": False}.items():
        components[suffix] = _request_resource(resource_type, "LocalReference", creating=creating)
    added, revised = (components[suffix]["properties"] for suffix in ("Addition", "Revision"))
    added["lid"] = text("Identifies the resource in subsequent operations.")
    changes = {key: each for key, each in revised.items() if key != "id"}
    for suffix, identity in {"ById": _REFERENCE, "ByLocalId": _LOCAL_ID}.items():
        required = {"type": changes["type"], **identity}
        components[f"Revision{suffix}"] = object_of(required, changes, closed=False)
    for suffix in _IDENTIFIERS:
        components[suffix] = _identifier(resource_type, suffix)
    for suffix in ("Reference", "LocalReference"):
        linkages = {
            name: _with_data(_linkage(relationship, graph, suffix))
            for name, relationship in resource_type.writable_relationships.items()
        }
        replaced = {"description": "Linkage replaces that of the relationship."}
        components[f"{suffix}Linkages"] = object_of({}, linkages) | replaced
    return components


def _target_schemas(target: ResourceType, graph: Graph) -> Json:
    """Return the schemas of documents of relationships with this target."""
    components: Json = {}
    leading_here = [
        relationship
        for source in graph.values()
        for relationship in source.relationships.values()
        if relationship.target == target.type
    ]
    for relationship in leading_here:
        linkage = _linkage(relationship, graph, "Identifier")
        change = _with_data(_linkage(relationship, graph, "Reference"))
        if relationship.to_many:
            links = object_of({"self": text("The request URL.")} | _RELATED, _PAGE_LINKS)
            components["ToManyLinkage"] = _document(linkage, links, meta=_META)
            if not relationship.read_only:
                components["ToManyChange"] = change
                components["ToManyRemoval"] = _with_data(_linkage(relationship, graph, "Removal"))
        else:
            path = {"self": text("The request path.")}
            data = or_null(_response_resource(target, graph))
            components["DocumentOrNull"] = _document(data, object_of(path))
            components["ToOneLinkage"] = _document(linkage, object_of(path | _RELATED))
            if not relationship.read_only:
                components["ToOneChange"] = change
    return components


def _type_of(resource_type: ResourceType) -> Json:
    return {"type": "string", "enum": [resource_type.type], "example": resource_type.type}


def _with_data(data: Json) -> Json:
    """Return the schema of a document or relationship of a request."""
    return object_of({"data": data}, closed=False)


def _attributes(
    resource_type: ResourceType, attributes: Mapping[str, ResourceField], *, creating: bool = False
) -> Json:
    """Return the schema of `attributes`. Only creation has required attributes and defaults."""
    properties = {name: attribute_schema(attribute) for name, attribute in attributes.items()}
    for name in resource_type.unique_attributes.keys() & attributes:
        case = ", whatever the case of letters" if attributes[name].kind.ignores_case else ""
        unique = f"No two {resource_type.collection} have the same{case}."
        described = f"{properties[name].get('description', '')} {unique}"
        properties[name]["description"] = described.lstrip()
    if creating:
        required = {
            name: properties[name] for name, attribute in attributes.items() if attribute.required
        }
        return object_of(required, properties)
    for schema in properties.values():
        schema.pop("default", None)
    return object_of({}, properties)


def _response_resource(resource_type: ResourceType, graph: Graph) -> Json:
    attributes = _attributes(resource_type, resource_type.readable)
    others = [name for name in resource_type.readable if name not in resource_type.attributes]
    attributes["description"] = f"Those in `fields`, by default all but {code(others)}."
    identity = {"type": _type_of(resource_type), "id": _ID}
    required = identity | {"attributes": attributes, "links": _self_link(resource_type)}
    own = {"self": text("The path of the linkage.")} | _RELATED
    relationships: Json = {}
    if resource_type.subject:
        identifiers = [
            _identifier(graph[link.target], "Identifier") for link in resource_type.links
        ]
        relationships[resource_type.subject] = object_of({"data": or_null({"oneOf": identifiers})})
    for name, relationship in resource_type.relationships.items():
        data = {"data": _linkage(relationship, graph, "Identifier")}
        links = {"links": object_of(own, _PAGE_LINKS if relationship.to_many else {})}
        # Counts can be without linkage.
        members = (links, data | _MEMBER_COUNT) if relationship.count_field else (data | links,)
        relationships[name] = object_of(*members)
    described = "Those in `include` and `withCount`, and those that the request changed."
    shown = object_of({}, relationships) | {"description": described}
    return object_of(required, {"relationships": shown})


def _self_link(resource_type: ResourceType) -> Json:
    return object_of({"self": {"type": "string", "example": path_of(resource_type, 1)}})


def _document(data: Json, links: Json, **more: Json) -> Json:
    included = {
        "type": "array",
        "items": reference("schemas", "AnyResource"),
        "description": "Related resources, each once; present if the request has `include`.",
    }
    required = {"data": data, "jsonapi": _JSONAPI, "links": links, **more}
    return object_of(required, {"included": included})


def _any_resource(graph: Graph) -> Json:
    references = {
        resource_type.type: schema_of(resource_type, "Resource") for resource_type in graph.values()
    }
    mapping = {name: schema["$ref"] for name, schema in references.items()}
    discriminator = {"propertyName": "type", "mapping": mapping}
    return {"oneOf": list(references.values()), "discriminator": discriminator}


def _error() -> Json:
    types = error_types()
    required = {
        "id": text("The request id, which is in the log too; that of a second error ends in `-2`."),
        "status": text("The HTTP status.", enum=sorted({str(error.status) for error in types})),
        "code": text("The error type.", enum=sorted(error.code for error in types)),
        "title": text("A summary of the error type."),
        "detail": text("An explanation of this error."),
    }
    pointer = text("A JSON Pointer into the request document.")
    parameter = text("The name of the query parameter.")
    about = text("The path of the resource that has the value of a unique attribute.")
    type_ = text("The error type in the cursor profile.", format="uri")
    page = {"maxSize": {"type": "integer", "description": "The maximum page size."}}
    optional = {
        "source": object_of({}, {"pointer": pointer, "parameter": parameter}),
        "links": object_of({}, {"about": about, "type": type_}),
        "meta": object_of({}, {"page": object_of({}, page)}),
    }
    return object_of(required, optional)


def _operations(graph: Graph) -> Iterator[tuple[str, Json]]:
    """Yield the name and the schema of each operation.

    Those with more members come first: clients of some generators take the first schema that is
    satisfied, and leave out the members that it does not have.
    """
    for resource_type in graph.writable:
        for link in resource_type.writable_relationships.values():
            for verb in ("add", "update", "remove") if link.to_many else ("update",):
                suffix = "LocalRemoval" if verb == "remove" else "LocalReference"
                yield from _by_target(verb, resource_type, link, data=_linkage(link, graph, suffix))
    # Members that exclude each other are not described: generators of clients drop `not`.
    for resource_type in graph.writable:
        revised = schema_of(resource_type, "Revision")
        yield from _by_target("update", resource_type, data=revised)
        yield from _by_target("remove", resource_type)
    for resource_type in graph.writable:
        addition = _operation("add", data=schema_of(resource_type, "Addition"))
        addition["properties"]["href"] = _href(path_of(resource_type))
        yield f"Add{title(resource_type)}", addition
        identified = [schema_of(resource_type, f"RevisionBy{key}") for key in ("Id", "LocalId")]
        yield f"Update{title(resource_type)}", _operation("update", data={"oneOf": identified})


def _by_target(
    verb: str, resource_type: ResourceType, link: Relationship | None = None, **members: Json
) -> Iterator[tuple[str, Json]]:
    """Yield an operation whose target is given by `ref`, and the same by `href`."""
    name, path, more = f"{verb.title()}{title(resource_type)}", path_of(resource_type, "{id}"), {}
    if link:
        name, path = f"{name}{link.name.title()}", f"{path}/relationships/{link.name}"
        more = {"relationship": {"type": "string", "enum": [link.name]}}
    alternatives = _identifier(resource_type, "LocalReference")["oneOf"]
    ref = {
        "oneOf": [
            object_of(alternative["properties"] | more, closed=False)
            for alternative in alternatives
        ]
    }
    yield f"{name}ByRef", _operation(verb, ref=ref, **members)
    yield f"{name}ByHref", _operation(verb, href=_href(path), **members)


def _operation(verb: str, **members: Json) -> Json:
    return object_of({"op": {"type": "string", "enum": [verb]}, **members}, closed=False)


def _href(path: str) -> Json:
    """Return the schema of the path of a target. path: a template with {id}."""
    pattern = f"^{path.format(id=ID_PATTERN)}$"
    return text("The path of the target.", pattern=pattern, example=path.format(id=1))
