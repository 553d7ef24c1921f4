"""The graph -> OpenAPI 3.0.0: what there is, what it takes and what it answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from aiohttp import hdrs

import registry
from registry import openapi_examples as examples
from registry.jsonapi.errors import ApiError
from registry.jsonapi.media import MEDIA_TYPE
from registry.jsonapi.query import MAX_INCLUDE_STEPS
from registry.middleware import REQUEST_ID_HEADER
from registry.openapi_schemas import OPENAPI, Json, reference, schema_of, schemas, title
from registry.resource import Graph, Resource

_CONVENTIONS = f"""\
Every body, sent or answered, is `{MEDIA_TYPE}`. What can be read with GET can be asked for with
HEAD; OPTIONS answers with the methods of a path in `Allow`, and so does the 405 that any other
method gets. An unknown path is answered 404, an unknown query parameter 400. Whatever goes wrong
is answered with an error document."""


def describe(graph: Graph, public_url: str | None = None) -> dict[str, Any]:
    """Return the OpenAPI document of a service with these types.

    public_url: where clients reach the service, if that is not where they read the document.
    """
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "Person and Computer Registry",
            "version": registry.__version__,
            "description": f"{registry.__doc__}\n\n{_CONVENTIONS}",
        },
        "servers": [{"url": public_url or "/"}],
        "tags": [_tag(resource) for resource in graph.values()],
        "paths": {
            path: item
            for resource in graph.values()
            for path, item in (
                (resource.collection_path, _collection(resource, graph)),
                (resource.detail_path, _detail(resource, graph)),
            )
        },
        "components": {
            "schemas": schemas(graph),
            "parameters": _parameters(graph),
            "responses": _error_responses(graph),
            "headers": {
                "RequestId": _header("The id of the request in the log.", examples.REQUEST_ID)
            },
        },
    }


def _tag(resource: Resource) -> Json:
    attributes = ", ".join(f"`{name}`" for name in resource.attributes)
    relationships = ", ".join(
        f"`{name}` ({'many' if one.to_many else 'one'} `{one.target}`)"
        for name, one in resource.relationships.items()
    )
    return {
        "name": title(resource),
        "description": f"Attributes: {attributes}. Relationships: {relationships or 'none'}.",
    }


def _collection(resource: Resource, graph: Graph) -> Json:
    return {"get": _list(resource, graph), "post": _create(resource, graph)}


def _detail(resource: Resource, graph: Graph) -> Json:
    return {
        "parameters": [reference("parameters", "Id")],
        "get": _read(resource, graph),
        "patch": _update(resource, graph),
    }


def _list(resource: Resource, graph: Graph) -> Json:
    names, query = resource.collection, ",".join(resource.relationships)
    included = examples.included(resource, graph)
    documents = {
        "plain": examples.collection(resource, examples.plain(resource)),
        "included": examples.collection(resource, included, f"?include={query}"),
    }
    return _operation(
        resource,
        graph,
        operation_id=f"list_{names}",
        summary=f"List all {names}",
        description="By rising id. `meta.count` says how many there are.",
        problems=examples.reading_problems(resource, graph),
        answer={"200": _answer(f"The {names}.", schema_of(resource, "Collection"), documents)},
    )


def _create(resource: Resource, graph: Graph) -> Json:
    answer = _answer(
        f"The new {resource.type}.",
        schema_of(resource, "Document"),
        {"created": examples.created(resource)},
        {hdrs.LOCATION: _header("The path of the resource.", resource.path(1))},
    )
    return _operation(
        resource,
        graph,
        operation_id=f"create_{resource.type}",
        summary=f"Create {_a(resource.type)}",
        description="The service assigns the id. What is named in `relationships` and linked "
        "elsewhere moves. Without `fields`, the answer shows the attributes that can be sent.",
        problems=examples.writing_problems(resource, graph),
        answer={"201": answer},
        body=_body(schema_of(resource, "Create"), examples.creation(resource)),
    )


def _read(resource: Resource, graph: Graph) -> Json:
    documents = {"plain": examples.plain(resource), "included": examples.included(resource, graph)}
    answer = _answer(f"The {resource.type}.", schema_of(resource, "Document"), documents)
    return _operation(
        resource,
        graph,
        operation_id=f"read_{resource.type}",
        summary=f"Read {_a(resource.type)}",
        description="One resource, by its id.",
        problems=examples.finding_problems(resource, graph),
        answer={"200": answer},
    )


def _update(resource: Resource, graph: Graph) -> Json:
    answer = _answer(
        f"The {resource.type} as it is now.",
        schema_of(resource, "Document"),
        {"updated": examples.updated(resource)},
    )
    return _operation(
        resource,
        graph,
        operation_id=f"update_{resource.type}",
        summary=f"Update {_a(resource.type)}",
        description="Changes what is sent and nothing else, all of it or nothing. A list of "
        "identifiers replaces the relationship; what is linked elsewhere moves.",
        problems=examples.writing_problems(resource, graph),
        answer={"200": answer},
        body=_body(schema_of(resource, "Update"), examples.update(resource)),
    )


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _operation(
    resource: Resource,
    graph: Graph,
    *,
    operation_id: str,
    summary: str,
    description: str,
    problems: Iterable[ApiError],
    answer: Json,
    body: Json | None = None,
) -> Json:
    """Return an operation; problems: those it can be answered with in place of the answer."""
    parameters = [f"{title(resource)}Include"] if resource.relationships else []
    parameters += [f"{title(one)}Fields" for one in graph.values()]
    return {
        "tags": [title(resource)],
        "operationId": operation_id,
        "summary": summary,
        "description": description,
        "parameters": [reference("parameters", name) for name in parameters],
        **({"requestBody": body} if body else {}),
        "responses": answer
        | {
            str(same[0].status): reference("responses", _name(resource, same))
            for same in _by_status(problems)
        },
    }


def _parameters(graph: Graph) -> Json:
    found: Json = {
        "Id": {
            "name": "id",
            "in": "path",
            "required": True,
            "description": "The id of the resource. What is not the id of any is answered 404.",
            "schema": {"type": "integer", "format": "int64", "minimum": 1},
            "example": 1,
        }
    }
    for resource in graph.values():
        found[f"{title(resource)}Fields"] = _list_parameter(
            f"fields[{resource.type}]",
            f"The only fields to show of each `{resource.type}`; its type, id and links are always "
            "there, its relationships follow `include`.",
            sorted(resource.field_names),
            list(resource.attributes),
        )
        if resource.relationships:
            found[f"{title(resource)}Include"] = _list_parameter(
                "include",
                "The relationships to follow; what they lead to is added in `included`.",
                list(_include_paths(resource, graph)),
                list(resource.relationships),
            )
    return found


def _list_parameter(name: str, description: str, values: list[str], example: list[str]) -> Json:
    """Return a parameter that takes a comma-separated list, which may be empty."""
    return {
        "name": name,
        "in": "query",
        "description": description,
        "style": "form",
        "explode": False,
        "allowEmptyValue": True,
        "schema": {"type": "array", "items": {"type": "string", "enum": values}},
        "example": example,
    }


def _include_paths(
    resource: Resource, graph: Graph, steps: int = MAX_INCLUDE_STEPS
) -> Iterator[str]:
    if steps:
        for name, relationship in resource.relationships.items():
            yield name
            for path in _include_paths(graph[relationship.target], graph, steps - 1):
                yield f"{name}.{path}"


def _body(schema: Json, example: Json) -> Json:
    return {"required": True, "content": {MEDIA_TYPE: {"schema": schema, "example": example}}}


def _answer(description: str, schema: Json, documents: Json, headers: Json | None = None) -> Json:
    """Return a response; documents: examples by name; headers: those beside the request id."""
    named = {name: {"value": example} for name, example in documents.items()}
    return {
        "description": description,
        "headers": {REQUEST_ID_HEADER: reference("headers", "RequestId"), **(headers or {})},
        "content": {MEDIA_TYPE: {"schema": schema, "examples": named}},
    }


def _header(description: str, example: str) -> Json:
    return {"description": description, "schema": {"type": "string"}, "example": example}


def _error_responses(graph: Graph) -> Json:
    """Return a response for each set of problems that share a status in some operation."""
    return {
        _name(resource, same): _error_response(same)
        for resource in graph.values()
        for problems in (examples.finding_problems, examples.writing_problems)
        for same in _by_status(problems(resource, graph))
    }


def _error_response(problems: list[ApiError]) -> Json:
    return _answer(
        " ".join(type(problem).__doc__ or "" for problem in problems),
        reference("schemas", "ErrorDocument"),
        {problem.code: examples.error(problem) for problem in problems},
        {
            name: _header("Seconds to wait before the next attempt.", value)
            for problem in problems
            for name, value in problem.headers.items()
        },
    )


def _by_status(problems: Iterable[ApiError]) -> list[list[ApiError]]:
    found: dict[int, list[ApiError]] = defaultdict(list)
    for problem in problems:
        found[problem.status].append(problem)
    return [found[status] for status in sorted(found)]


def _name(resource: Resource, problems: Iterable[ApiError]) -> str:
    return title(resource) + "Or".join(type(problem).__name__ for problem in problems)
