"""OpenAPI parameters: path, query string and headers."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from registry.http.request_headers import PATTERN
from registry.jsonapi.parameter_schemas import NUMBER, STRING
from registry.jsonapi.query import AFTER, QueryScope
from registry.jsonapi.query_parameters import QUERY_PARAMETERS, AppliesTo
from registry.model.graph import Graph
from registry.openapi.schemas import Json
from registry.protocol import (
    CSV_TYPE,
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_REPLAYED,
    LAST_EVENT_ID,
    MERGE,
    PREFER,
    ROLL_BACK,
)


def _parameter(place: str, name: str, description: str, schema: Json = STRING, **more: Any) -> Json:
    """Return a parameter; items of an array are separated by commas."""
    style = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
    parameter = {"name": name, "in": place, "description": description, "schema": schema}
    return {**parameter, **style, **more}


_header = partial(_parameter, "header")

ID = _parameter(
    "path", "id", "The id of the resource; 404 if it does not exist.", NUMBER, required=True
)
"""The id in the path. Swagger UI prefills it only where `example` is added: nobody changes or
deletes a resource without having typed its id."""

PRECONDITIONS = (
    _header(
        "If-Match",
        "Entity tags. A read with none of them, or a change of a resource whose current version "
        "has none of them, gets 412. `*` matches any.",
    ),
    _header(
        "If-None-Match",
        "Entity tags. A read with one of them gets 304; a change of a resource whose current "
        "version has one of them gets 412. `*` matches any.",
    ),
)

IDEMPOTENCY = _header(
    IDEMPOTENCY_KEY,
    "Unique for each request of this client. The request is executed once; a repetition within "
    "24 hours gets the response of the first that succeeded, with "
    f"`{IDEMPOTENCY_REPLAYED}: true`, and waits for it if it is in progress. 422 if path, query "
    "string, body or preferences differ.",
    {**STRING, "pattern": PATTERN},
)

PREFERENCES = _header(
    PREFER,
    f"Preferences (RFC 7240), separated by commas. `{MERGE}`: updates, as PATCH does, the resource "
    "that has the value of a unique attribute, instead of adding one; 400 without a unique "
    f"attribute. `{ROLL_BACK}`: checks and executes everything, but stores nothing; the response "
    "is otherwise the same, with ids that no resource has. Other preferences are ignored.",
)


def query_parameters(scope: QueryScope) -> list[Json]:
    """Return the query parameters of documents with resources, in the order of the table."""
    kinds = (AppliesTo.RESOURCES, AppliesTo.COLLECTIONS) if scope.many else (AppliesTo.RESOURCES,)
    return list(_described(scope, *kinds))


def row_parameters(scope: QueryScope) -> list[Json]:
    """Return the parameters of the import of a file."""
    described = list(_described(scope, AppliesTo.ROWS))
    for parameter in described:
        parameter["description"] = f"For `{CSV_TYPE}` only. {parameter['description']}"
    return described


def feed_parameters(graph: Graph) -> list[Json]:
    """Return the parameters of the change feed."""
    again = f"The same, sent by browsers that connect again. It precedes `{AFTER}`."
    return [*_described(graph, AppliesTo.FEED), _header(LAST_EVENT_ID, again)]


def _described(scope: QueryScope | Graph, *applying: AppliesTo) -> Iterator[Json]:
    for row in QUERY_PARAMETERS:
        is_described = row.describe is not None and row.applies_to in applying
        for variant in row.describe(scope) if row.describe and is_described else ():
            description = f"{row.sentence} {variant.detail}".rstrip()
            yield _parameter("query", variant.name, description, variant.schema, **variant.more)
