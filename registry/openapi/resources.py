"""The operations on a type: on all its resources, and on one of them."""

from __future__ import annotations

from dataclasses import replace

from registry.jsonapi.links import collection_path, resource_path
from registry.jsonapi.query import Scope
from registry.openapi import error_examples as problems
from registry.openapi import examples
from registry.openapi.operations import (
    NO_CONTENT,
    NOT_MODIFIED,
    TAGGED,
    TAGGED_PAGE,
    a,
    answer,
    body,
    header,
    operation,
)
from registry.openapi.parameters import ID, IF_MATCH, IF_NONE_MATCH, query_parameters, references
from registry.openapi.schemas import Json, absolute, schema_of, title


def collection_item(scope: Scope) -> Json:
    """Return the description of the path of a collection."""
    return {"get": _list(replace(scope, many=True)), "post": _create(scope)}


def detail_item(scope: Scope) -> Json:
    """Return the description of the path of one resource."""
    return {
        "parameters": references(ID),
        "get": _read(scope),
        "patch": _update(scope),
        "delete": _delete(scope),
    }


def collection_answers(scope: Scope, path: str) -> Json:
    """Return the answers to a request for resources of a type; path: an example of theirs."""
    resource, url = scope.resource, absolute(path)
    whole = examples.collection(examples.plain(resource), url)
    query = f"?include={','.join(resource.relationships)}"
    documents = {
        "plain": whole,
        "included": examples.collection(examples.included(resource, scope.graph), url + query),
        "page": examples.page(whole, scope.sizes),
    }
    description, schema = f"The {resource.collection}.", schema_of(resource, "Collection")
    return {"200": answer(description, schema, documents, TAGGED_PAGE), **NOT_MODIFIED}


def _list(scope: Scope) -> Json:
    resource = scope.resource
    return operation(
        title(resource),
        f"list_{resource.collection}",
        f"List {resource.collection}",
        "All of them, or those that `filter` picks, or a page of them. `meta.count` says how many "
        "there are in the answer.",
        query_parameters(scope) | IF_NONE_MATCH,
        collection_answers(scope, collection_path(resource)),
        problems.of_query(scope),
    )


def _create(scope: Scope) -> Json:
    resource = scope.resource
    location = header("The path of the resource.", resource_path(resource, 1))
    found = answer(
        f"The new {resource.type}.",
        schema_of(resource, "Document"),
        {"created": examples.created(resource)},
        {"Location": location, **TAGGED},
    )
    return operation(
        title(resource),
        f"create_{resource.type}",
        f"Create {a(resource.type)}",
        "The service assigns the id. What is named in `relationships` and linked elsewhere moves. "
        "Without `fields`, the answer shows the attributes that can be sent.",
        query_parameters(scope),
        {"201": found},
        [
            *problems.of_query(scope),
            *problems.of_id(resource),
            *problems.of_resource(resource),
        ],
        body(schema_of(resource, "Create"), examples.creation(resource)),
    )


def _read(scope: Scope) -> Json:
    resource = scope.resource
    documents = {
        "plain": examples.plain(resource),
        "included": examples.included(resource, scope.graph),
    }
    found = answer(f"The {resource.type}.", schema_of(resource, "Document"), documents, TAGGED)
    return operation(
        title(resource),
        f"read_{resource.type}",
        f"Read {a(resource.type)}",
        "One resource, by its id.",
        query_parameters(scope) | IF_NONE_MATCH,
        {"200": found, **NOT_MODIFIED},
        [*problems.of_query(scope), *problems.of_id(resource)],
    )


def _update(scope: Scope) -> Json:
    resource = scope.resource
    found = answer(
        f"The {resource.type} as it is now.",
        schema_of(resource, "Document"),
        {"updated": examples.updated(resource)},
        TAGGED,
    )
    return operation(
        title(resource),
        f"update_{resource.type}",
        f"Update {a(resource.type)}",
        "Changes what is sent and nothing else, all of it or nothing. A list of identifiers "
        "replaces the relationship; what is linked elsewhere moves.",
        query_parameters(scope) | IF_MATCH,
        {"200": found},
        [
            *problems.of_query(scope),
            *problems.of_id(resource),
            *problems.of_if_match(),
            *problems.of_resource(resource),
        ],
        body(schema_of(resource, "Update"), examples.update(resource)),
    )


def _delete(scope: Scope) -> Json:
    resource = scope.resource
    return operation(
        title(resource),
        f"delete_{resource.type}",
        f"Delete {a(resource.type)}",
        "What was linked to it stays, unlinked.",
        IF_MATCH,
        NO_CONTENT,
        [*problems.of_no_query(), *problems.of_id(resource), *problems.of_if_match()],
    )
