"""The operations on a relationship: on its linkage and on the related resources."""

from dataclasses import replace

from registry.jsonapi.query import QueryScope
from registry.jsonapi.resource_objects import related_path
from registry.model.resource_type import Relationship, ResourceType
from registry.openapi import examples
from registry.openapi.error_examples import ErrorExamples
from registry.openapi.operations import (
    REPLAYED,
    TAGGED,
    Operation,
    body,
    no_content,
    not_modified,
    response,
    with_article,
)
from registry.openapi.parameters import (
    ID,
    ID_TO_WRITE,
    IDEMPOTENCY,
    PRECONDITIONS,
    query_parameters,
)
from registry.openapi.resources import collection_responses
from registry.openapi.schema_objects import Json, schema_of, title

_VERBS = {"replace": "Replace", "add": "Add to", "remove": "Remove from"}
_EFFECTS = {
    "replace": "Resources that are linked elsewhere move; members not in the request are removed.",
    "add": "Resources that are linked elsewhere move; those that are members already stay.",
    "remove": "The resources are no longer linked; those that are not members are ignored.",
}


def related_item(scope: QueryScope, relationship: Relationship, errors: ErrorExamples) -> Json:
    """Return the Path Item Object of the related resources.

    scope: of one resource that has the relationship.
    """
    resource, name = scope.resource, relationship.name
    related = _related_scope(scope, relationship)
    if relationship.to_many:
        verb, description = "List", "Supports the same parameters as any collection."
        responses = collection_responses(related, related_path(resource, 1, name))
    else:
        verb, description = "Read", "The related resource; `data` is null if there is none."
        responses = _to_one_responses(resource, related.resource, name)
    get = Operation(
        tag=title(resource),
        operation_id=f"{verb.lower()}_{resource.type}_{name}",
        summary=f"{verb} the {name} of {with_article(resource.type)}",
        description=description,
        parameters=ID | query_parameters(related) | PRECONDITIONS,
        responses=responses,
        errors=[*errors.query(related), *errors.missing(resource), *errors.preconditions()],
    )
    return {"get": get.to_object()}


def linkage_item(scope: QueryScope, relationship: Relationship, errors: ErrorExamples) -> Json:
    """Return the Path Item Object of the linkage. scope: as for `related_item`."""
    methods = {"patch": "replace", "post": "add", "delete": "remove"}
    actions = methods if relationship.to_many else {"patch": "replace"}
    return {
        "get": _read_linkage(scope, relationship, errors),
        **{name: _change(action, scope, relationship, errors) for name, action in actions.items()},
    }


def _related_scope(scope: QueryScope, relationship: Relationship) -> QueryScope:
    target = scope.graph[relationship.target]
    return replace(scope, resource=target, many=relationship.to_many)


def _to_one_responses(resource: ResourceType, target: ResourceType, name: str) -> Json:
    documents = {
        "related": examples.related(examples.plain(target), resource, name),
        "none": examples.related(None, resource, name),
    }
    schema = schema_of(target, "DocumentOrNull")
    document = response(f"The {target.type}, or null.", schema, documents, TAGGED)
    return {"200": document, **not_modified()}


def _read_linkage(scope: QueryScope, relationship: Relationship, errors: ErrorExamples) -> Json:
    resource, name = scope.resource, relationship.name
    linkage = replace(_related_scope(scope, relationship), linkage=(resource, relationship))
    schema = schema_of(linkage.resource, f"{_cardinality(relationship)}Linkage")
    documents = {"linkage": examples.linkage_document(resource, relationship)}
    identifiers = response("The resource identifiers.", schema, documents, TAGGED)
    return Operation(
        tag=title(resource),
        operation_id=f"read_{resource.type}_{name}_linkage",
        summary=f"Read the linkage of the {name} of {with_article(resource.type)}",
        description="Resource identifiers only; `include` adds the resources.",
        parameters=ID | query_parameters(linkage) | PRECONDITIONS,
        responses={"200": identifiers, **not_modified()},
        errors=[*errors.query(linkage), *errors.missing(resource), *errors.preconditions()],
    ).to_object()


def _change(
    action: str, scope: QueryScope, relationship: Relationship, errors: ErrorExamples
) -> Json:
    resource, name = scope.resource, relationship.name
    suffix, is_post = "Removal" if action == "remove" else "Change", action == "add"
    to_one = "Sets the related resource, or clears it with null."
    schema = schema_of(scope.graph[relationship.target], _cardinality(relationship) + suffix)
    return Operation(
        tag=title(resource),
        operation_id=f"{action}_{resource.type}_{name}",
        summary=f"{_VERBS[action]} the {name} of {with_article(resource.type)}",
        description=_EFFECTS[action] if relationship.to_many else to_one,
        parameters=ID_TO_WRITE | PRECONDITIONS | (IDEMPOTENCY if is_post else {}),
        responses=no_content(REPLAYED if is_post else None),
        errors=[
            *errors.no_query(),
            *errors.missing(resource),
            *errors.preconditions(),
            *(errors.idempotency() if is_post else ()),
            *errors.linkage(relationship),
        ],
        body=body(schema, {"data": examples.linkage(relationship)}),
    ).to_object()


def _cardinality(relationship: Relationship) -> str:
    return "ToMany" if relationship.to_many else "ToOne"
