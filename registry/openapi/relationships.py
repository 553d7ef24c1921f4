"""The operations on a relationship: on its linkage, and on the resources that it leads to."""

from __future__ import annotations

from dataclasses import replace

from registry.jsonapi.links import related_path
from registry.jsonapi.query import Scope
from registry.model.resource import Relationship
from registry.openapi import error_examples as problems
from registry.openapi import examples
from registry.openapi.operations import (
    NO_CONTENT,
    NOT_MODIFIED,
    TAGGED,
    a,
    answer,
    body,
    operation,
)
from registry.openapi.parameters import ID, IF_MATCH, IF_NONE_MATCH, query_parameters, references
from registry.openapi.resources import collection_answers
from registry.openapi.schemas import Json, schema_of, title


def related_item(scope: Scope, relationship: Relationship) -> Json:
    """Return the description of the path of what a relationship leads to.

    scope: of one resource that has the relationship.
    """
    read = _list_related if relationship.to_many else _read_related
    return {"parameters": references(ID), "get": read(scope, relationship)}


def linkage_item(scope: Scope, relationship: Relationship) -> Json:
    """Return the description of the path of the linkage of a relationship; scope: as above."""
    found = {
        "parameters": references(ID),
        "get": _read_linkage(scope, relationship),
        "patch": _replace(scope, relationship),
    }
    if relationship.to_many:
        found |= {"post": _add(scope, relationship), "delete": _remove(scope, relationship)}
    return found


def _related_scope(scope: Scope, relationship: Relationship) -> Scope:
    target = scope.graph[relationship.target]
    return replace(scope, resource=target, many=relationship.to_many)


def _list_related(scope: Scope, relationship: Relationship) -> Json:
    resource, name = scope.resource, relationship.name
    related = _related_scope(scope, relationship)
    return operation(
        title(resource),
        f"list_{resource.type}_{name}",
        f"List the {name} of {a(resource.type)}",
        "A collection like any other.",
        query_parameters(related) | IF_NONE_MATCH,
        collection_answers(related, related_path(resource, 1, name)),
        [*problems.of_query(related), *problems.of_id(resource)],
    )


def _read_related(scope: Scope, relationship: Relationship) -> Json:
    resource, name = scope.resource, relationship.name
    related = _related_scope(scope, relationship)
    documents = {
        "related": examples.related(examples.plain(related.resource), resource, name),
        "none": examples.related(None, resource, name),
    }
    schema = schema_of(related.resource, "DocumentOrNull")
    found = answer(f"The {related.resource.type}, or null.", schema, documents, TAGGED)
    return operation(
        title(resource),
        f"read_{resource.type}_{name}",
        f"Read the {name} of {a(resource.type)}",
        "The resource itself, `data` is null if there is none.",
        query_parameters(related) | IF_NONE_MATCH,
        {"200": found, **NOT_MODIFIED},
        [*problems.of_query(related), *problems.of_id(resource)],
    )


def _read_linkage(scope: Scope, relationship: Relationship) -> Json:
    resource, name = scope.resource, relationship.name
    linkage = replace(_related_scope(scope, relationship), linkage=(resource, relationship))
    schema = schema_of(linkage.resource, f"{_kind(relationship)}Linkage")
    documents = {"linkage": examples.linkage_document(resource, relationship)}
    return operation(
        title(resource),
        f"read_{resource.type}_{name}_linkage",
        f"Read which {name} {a(resource.type)} has",
        "The identifiers alone, of which the resources can be had by `include`.",
        query_parameters(linkage) | IF_NONE_MATCH,
        {"200": answer("The identifiers.", schema, documents, TAGGED), **NOT_MODIFIED},
        [*problems.of_query(linkage), *problems.of_id(resource)],
    )


def _replace(scope: Scope, relationship: Relationship) -> Json:
    description = "What is linked elsewhere moves; what is not named is no longer linked."
    return _change(scope, relationship, "replace", "Replace", description)


def _add(scope: Scope, relationship: Relationship) -> Json:
    description = "What is linked elsewhere moves; what is linked here already stays."
    return _change(scope, relationship, "add", "Add to", description)


def _remove(scope: Scope, relationship: Relationship) -> Json:
    description = "They are no longer linked; those that are not linked here are no error."
    return _change(scope, relationship, "remove", "Remove from", description)


def _change(
    scope: Scope, relationship: Relationship, code: str, verb: str, description: str
) -> Json:
    resource, name = scope.resource, relationship.name
    kind = "Removal" if code == "remove" else "Change"
    schema = schema_of(scope.graph[relationship.target], _kind(relationship) + kind)
    return operation(
        title(resource),
        f"{code}_{resource.type}_{name}",
        f"{verb} the {name} of {a(resource.type)}",
        description,
        IF_MATCH,
        NO_CONTENT,
        [
            *problems.of_no_query(),
            *problems.of_id(resource),
            *problems.of_if_match(),
            *problems.of_linkage(relationship),
        ],
        body(schema, {"data": examples.linkage(relationship)}),
    )


def _kind(relationship: Relationship) -> str:
    return "ToMany" if relationship.to_many else "ToOne"
