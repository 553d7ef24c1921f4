"""The graph -> a description of its types, small enough that forms and tables are built from it."""

from typing import Any, TypeAlias

from registry.jsonapi.filtering import NULL, filter_operators, related_fields
from registry.jsonapi.pagination import sort_names
from registry.jsonapi.resource_objects import path_of
from registry.model.attribute_schemas import attribute_schema
from registry.model.attributes import Operator
from registry.model.fields import ComputedText
from registry.model.graph import Graph
from registry.model.implicit_attributes import Moment
from registry.model.resource_field import ResourceField
from registry.model.resource_type import ResourceType
from registry.model.revisions import REVISIONS

_Json: TypeAlias = dict[str, Any]


def describe_types(graph: Graph) -> list[_Json]:
    """Return the description of each type, in JSON; those that clients can write come first.

    `attributes` and `authorship` have the OpenAPI schema of each attribute by name, with `required`
    and `unique` where they are true, and the names of the `parts` of computed ones; `relationships`
    the types of what each can link to; `filters` the operators of each field that filters can name.
    `history` is the relationship whose periods a type records, if its name follows from that.
    """
    types = sorted(graph.values(), key=lambda resource: resource.read_only)
    return [_describe(resource, graph) for resource in types]


def describe_operators() -> dict[str, _Json]:
    """Return what people need of each operator that compares with something, by its name."""
    return {
        each.value: {"label": each.label, "time_label": each.time_label, "operand": each.operand}
        for each in Operator
    }


def _describe(resource: ResourceType, graph: Graph) -> _Json:
    compared = [*resource.filterable.values(), *related_fields(resource.relationships, graph)]
    return {
        "type": resource.type,
        "path": path_of(resource),
        "writable": not resource.read_only,
        **_history(resource, graph),
        "attributes": {
            name: _attribute(resource, attribute) for name, attribute in resource.attributes.items()
        },
        "authorship": {
            name: _attribute(resource, attribute)
            for name, attribute in resource.readable.items()
            if name not in resource.attributes
        },
        "relationships": _relationships(resource),
        "sort": sort_names(resource, graph),
        "filters": [
            {"name": field.name, "operators": _operators(field)}
            for field in compared
            if not isinstance(field.field, Moment)
        ],
    }


def _relationships(resource: ResourceType) -> _Json:
    described: _Json = {
        name: {
            "types": [relationship.target],
            "many": relationship.to_many,
            "inverse": relationship.inverse,
            "writable": not relationship.read_only,
        }
        for name, relationship in resource.relationships.items()
    }
    if resource.subject:
        types = [link.target for link in resource.links]
        described[resource.subject] = {
            "types": types,
            "many": False,
            "inverse": REVISIONS,
            "writable": False,
        }
    return described


def _history(resource: ResourceType, graph: Graph) -> _Json:
    link = resource.history_of
    sources = [each.type for each in graph.values() if link in each.links]
    if link is None or resource.type != f"{sources[0]}_{link.name}_period":
        return {}
    return {"history": {"type": sources[0], "relationship": link.name}}


def _attribute(resource: ResourceType, attribute: ResourceField) -> _Json:
    schema = attribute_schema(attribute)
    if attribute.required and attribute.is_writable:
        schema["required"] = True
    if attribute.name in resource.unique:
        schema["unique"] = True
    if isinstance(attribute.field, ComputedText):
        schema["parts"] = list(attribute.field.parts)
    return schema


def _operators(field: ResourceField) -> list[str]:
    return [each for each in filter_operators(field) if field.nullable or each != NULL]
