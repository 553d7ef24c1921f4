"""The operations on a type: on its collection and on one resource."""

from dataclasses import replace

from registry.jsonapi.query import QueryScope
from registry.jsonapi.resource_objects import collection_path, resource_path
from registry.model.resource_type import ResourceType
from registry.openapi import examples
from registry.openapi.error_examples import ErrorExamples
from registry.openapi.operations import (
    REPLAYED,
    TAGGED,
    TAGGED_PAGE,
    Operation,
    body,
    header,
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
from registry.openapi.schema_objects import Json, absolute, schema_of, title


def collection_item(scope: QueryScope, errors: ErrorExamples) -> Json:
    """Return the Path Item Object of a collection."""
    return {"get": _list(replace(scope, many=True), errors), "post": _create(scope, errors)}


def detail_item(scope: QueryScope, errors: ErrorExamples) -> Json:
    """Return the Path Item Object of one resource."""
    return {
        "get": _read(scope, errors),
        "patch": _update(scope, errors),
        "delete": _delete(scope.resource, errors),
    }


def collection_responses(scope: QueryScope, path: str) -> Json:
    """Return the successful responses with a collection. path: of the examples."""
    resource, url = scope.resource, absolute(path)
    plain = examples.collection(examples.plain(resource), url)
    query = f"?include={','.join(resource.relationships)}"
    documents = {
        "plain": plain,
        "included": examples.collection(examples.included(resource, scope.graph), url + query),
        "page": examples.page(plain, scope.sizes),
    }
    description, schema = f"The {resource.collection}.", schema_of(resource, "Collection")
    return {
        "200": response(description, schema, documents, TAGGED_PAGE),
        **not_modified(TAGGED_PAGE),
    }


def _moves(resource: ResourceType) -> str:
    to_many = [f"`{name}`" for name, each in resource.relationships.items() if each.to_many]
    return f"Resources in {', '.join(to_many)} that are linked elsewhere move. " if to_many else ""


def _list(scope: QueryScope, errors: ErrorExamples) -> Json:
    resource = scope.resource
    return Operation(
        tag=title(resource),
        operation_id=f"list_{resource.collection}",
        summary=f"List {resource.collection}",
        description="The whole collection, or the resources that `filter` selects, or a page of "
        "them. `meta.count` is the number of resources in the response.",
        parameters=query_parameters(scope) | PRECONDITIONS,
        responses=collection_responses(scope, collection_path(resource)),
        errors=[*errors.query(scope), *errors.preconditions()],
    ).to_object()


def _create(scope: QueryScope, errors: ErrorExamples) -> Json:
    resource = scope.resource
    location = header("The path of the resource.", resource_path(resource, 1))
    schema, documents = schema_of(resource, "Document"), {"created": examples.created(resource)}
    headers = {"Location": location, **TAGGED, **REPLAYED}
    created = response(f"The new {resource.type}.", schema, documents, headers)
    return Operation(
        tag=title(resource),
        operation_id=f"create_{resource.type}",
        summary=f"Create {with_article(resource.type)}",
        description="The service assigns the id. "
        f"{_moves(resource)}Without `fields`, the response contains the writable attributes.",
        parameters=query_parameters(scope) | PRECONDITIONS | IDEMPOTENCY,
        responses={"201": created},
        errors=[
            *errors.query(scope),
            *errors.missing(resource),
            *errors.preconditions(),
            *errors.idempotency(),
            *errors.resource(resource),
        ],
        body=body(schema_of(resource, "Create"), examples.creation(resource)),
    ).to_object()


def _read(scope: QueryScope, errors: ErrorExamples) -> Json:
    resource = scope.resource
    included = examples.included(resource, scope.graph)
    documents = {"plain": examples.plain(resource), "included": included}
    schema = schema_of(resource, "Document")
    document = response(f"The {resource.type}.", schema, documents, TAGGED)
    return Operation(
        tag=title(resource),
        operation_id=f"read_{resource.type}",
        summary=f"Read {with_article(resource.type)}",
        description="One resource by its id.",
        parameters=ID | query_parameters(scope) | PRECONDITIONS,
        responses={"200": document, **not_modified()},
        errors=[*errors.query(scope), *errors.missing(resource), *errors.preconditions()],
    ).to_object()


def _update(scope: QueryScope, errors: ErrorExamples) -> Json:
    resource = scope.resource
    schema, documents = schema_of(resource, "Document"), {"updated": examples.plain(resource)}
    updated = response(f"The updated {resource.type}.", schema, documents, TAGGED)
    return Operation(
        tag=title(resource),
        operation_id=f"update_{resource.type}",
        summary=f"Update {with_article(resource.type)}",
        description="Changes only the attributes and relationships in the request, all of them or "
        f"none. {_moves(resource)}Linkage replaces the relationship. A read-only attribute may be "
        "sent back with the value of the resource, and changes nothing.",
        parameters=ID_TO_WRITE | query_parameters(scope) | PRECONDITIONS,
        responses={"200": updated},
        errors=[
            *errors.query(scope),
            *errors.missing(resource),
            *errors.preconditions(),
            *errors.resource(resource),
        ],
        body=body(schema_of(resource, "Update"), examples.update(resource)),
    ).to_object()


def _delete(resource: ResourceType, errors: ErrorExamples) -> Json:
    return Operation(
        tag=title(resource),
        operation_id=f"delete_{resource.type}",
        summary=f"Delete {with_article(resource.type)}",
        description="Resources that are linked to it remain, without the link.",
        parameters=ID_TO_WRITE | PRECONDITIONS,
        responses=no_content(),
        errors=[*errors.no_query(), *errors.missing(resource), *errors.preconditions()],
    ).to_object()
