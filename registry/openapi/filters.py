"""The graph -> OpenAPI query parameters of filters."""

from registry.jsonapi.filter_parsing import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_PART_LENGTH,
    MAX_VALUES,
    NULL,
    filter_operators,
    related_fields,
    related_operator,
)
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.model.stored_fields import StoredField, stored_fields
from registry.openapi.schema_objects import Json, query_parameter, title

_STRING: Json = {"type": "string"}


def filter_parameters(resource: ResourceType, graph: Graph) -> Json:
    """Return the parameters that filter resources of a type, by component name.

    One for conditions in JSON, and one for each field, with any operator: one for each operator
    would multiply the parameters, of which Swagger UI shows all.
    """
    fields = [*stored_fields(resource).values(), *related_fields(resource, graph)]
    components = {f"{title(resource)}Filter": _conditions(resource)}
    for field in fields:
        components[f"{title(resource)}Filter.{field.name}"] = _comparison(field)
    return components


def _conditions(resource: ResourceType) -> Json:
    # A string: many generators of clients drop an operation if a parameter has JSON as `content`,
    # or a recursive schema.
    description = (
        "Conditions in JSON, combined by AND: "
        '`[{"name": "...", "op": "...", "val": ...}]`, with the fields and operators of '
        "`filter[...]`; `and`, `or` and `not` can be nested, in JSON of at most "
        f"{MAX_DEPTH} levels and {MAX_CONDITIONS} conditions. `in` has an array of at most "
        f"{MAX_VALUES:,} values, `prefix` and `contains` {MAX_PART_LENGTH:,} characters."
    )
    for name, relationship in resource.relationships.items():
        description += (
            f' `{{"name": "{name}", "op": "{related_operator(relationship)}", "val": {{...}}}}` is '
            f"satisfied if {'any' if relationship.to_many else 'the'} resource of `{name}` "
            "satisfies the condition in `val`, which can be combined too."
        )
    return query_parameter("filter", description, _STRING)


def _comparison(field: StoredField) -> Json:
    operators = list(filter_operators(field.attribute))
    if not field.attribute.nullable:
        operators.remove(NULL)
    related = " None without a related resource." if "." in field.name else ""
    description = (
        f"Resources whose `{field.name}` equals the value, or one of several.{related} "
        f"`filter[{field.name}][...]` compares by an operator: "
        f"{', '.join(f'`{one}`' for one in operators)}."
    )
    value = dict(field.attribute.value_schema)
    if field.attribute.nullable and value != _STRING:
        value = {"anyOf": [value, {**_STRING, "enum": [NULL]}]}
    return query_parameter(f"filter[{field.name}]", description, {"type": "array", "items": value})
