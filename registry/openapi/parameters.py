"""OpenAPI parameters: path, query string and headers.

All are components, as hundreds of operations share most of them.
"""

import re
from collections.abc import Collection
from functools import partial
from itertools import islice
from typing import Any

from registry.http.request_headers import PATTERN
from registry.jsonapi.parameter_schemas import MAX_LISTED, NUMBER, STRING, Variant
from registry.jsonapi.query import AFTER, QueryScope
from registry.jsonapi.query_parameters import QUERY_PARAMETERS, AppliesTo, QueryParameter
from registry.model.graph import Graph
from registry.openapi.schemas import Json, reference
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

_ID = _parameter(
    "path", "id", "The id of the resource; 404 if it does not exist.", NUMBER, required=True
)

_FIXED: Json = {
    # Swagger UI prefills it, but not the other: nobody changes or deletes a resource without having
    # typed its id.
    "id": {**_ID, "example": 1},
    "changed-id": _ID,
    "If-Match": _header(
        "If-Match",
        "Entity tags. A read with none of them, or a change of a resource whose current version "
        "has none of them, gets 412. `*` matches any.",
    ),
    "If-None-Match": _header(
        "If-None-Match",
        "Entity tags. A read with one of them gets 304; a change of a resource whose current "
        "version has one of them gets 412. `*` matches any.",
    ),
    IDEMPOTENCY_KEY: _header(
        IDEMPOTENCY_KEY,
        "Unique for each request of this client. The request is executed once; a repetition within "
        "24 hours gets the response of the first that succeeded, with "
        f"`{IDEMPOTENCY_REPLAYED}: true`, and waits for it if it is in progress. 422 if path, "
        "query string, body or preferences differ.",
        {**STRING, "pattern": PATTERN},
    ),
    PREFER: _header(
        PREFER,
        f"Preferences (RFC 7240), separated by commas. `{MERGE}`: updates, as PATCH does, the "
        "resource that has the value of a unique attribute, instead of adding one; 400 without a "
        f"unique attribute. `{ROLL_BACK}`: checks and executes everything, but stores nothing; the "
        "response is otherwise the same, with ids that no resource has. Other preferences are "
        "ignored.",
    ),
    LAST_EVENT_ID: _header(
        LAST_EVENT_ID,
        f"The same, sent by browsers that connect again. It precedes `{AFTER}`.",
    ),
}
"""The components of what is not in a query string, by name."""


class ParameterComponents:
    """The parameters of the operations, which refer to them. components: by name."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.components = dict(_FIXED)

    def of_query(self, scope: QueryScope, *, with_rows: bool) -> list[Json]:
        """Return references to those of documents with resources, and of the import of a file."""
        applying = {AppliesTo.RESOURCES}
        if scope.many:
            applying.add(AppliesTo.COLLECTIONS)
        if with_rows:
            applying.add(AppliesTo.ROWS)
        return self._refer_to(scope, applying)

    def of_feed(self) -> list[Json]:
        """Return references to those of the change feed."""
        return [
            *self._refer_to(self._graph, {AppliesTo.FEED}),
            reference("parameters", LAST_EVENT_ID),
        ]

    def _refer_to(self, scope: QueryScope | Graph, applying: Collection[AppliesTo]) -> list[Json]:
        return [
            self._refer(row, variant)
            for row in QUERY_PARAMETERS
            if row.describe and row.applies_to in applying
            for variant in islice(row.describe(scope), MAX_LISTED)
        ]

    def _refer(self, row: QueryParameter, variant: Variant) -> Json:
        name = ".".join(re.findall(r"[\w-]+", variant.name))  # what names of components may contain
        if variant.owner:
            name = f"{variant.owner}-{name}"
        if name not in self.components:
            condition = f"For `{CSV_TYPE}` only. " if row.applies_to is AppliesTo.ROWS else ""
            description = f"{condition}{row.sentence} {variant.detail}".rstrip()
            self.components[name] = _parameter(
                "query", variant.name, description, variant.schema, **variant.more
            )
        return reference("parameters", name)
