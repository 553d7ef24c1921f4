"""Access tokens in the OpenAPI document: the security scheme, and the scopes of each operation."""

from collections.abc import Sequence

from registry.access.principal import Action
from registry.http.views.base import Endpoint
from registry.jsonapi.authorization import Requirement
from registry.jsonapi.error_objects import DocumentPosition
from registry.jsonapi.operation_documents import OPERATIONS
from registry.model.graph import Graph
from registry.openapi.error_examples import ErrorExamples
from registry.openapi.operations import error_responses
from registry.openapi.schema_objects import Json

_SCHEME = "accessToken"

SCHEMES: Json = {
    _SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token with the scopes that each operation names. `read` and "
        "`write` are sufficient for all types, and to write includes to read. In addition, "
        "`include`, `filter` and `sort` require the scope to read each type that they name, and "
        "changes of relationships the scope to write the type of the related resources.",
    }
}


def add_security(
    paths: Json, endpoints: Sequence[Endpoint], graph: Graph, errors: ErrorExamples
) -> None:
    """Add to the operations of all paths what their endpoints require of an access token."""
    first = DocumentPosition((OPERATIONS, 0)).pointer
    by_document = [Requirement(Action.WRITE, resource, first) for resource in graph.values()]
    for endpoint in endpoints:
        item = paths[endpoint.path]
        for method in item.keys() - {"parameters"}:
            requirements = endpoint.requirements(method.upper()) or by_document
            item[method] = _secured(item[method], requirements, errors)


def _secured(operation: Json, requirements: Sequence[Requirement], errors: ErrorExamples) -> Json:
    scopes = ", ".join(dict.fromkeys(f"`{one.scope}`" for one in requirements))
    condition = " (of the types that the operations change)" if requirements[0].pointer else ""
    responses = operation["responses"] | error_responses(errors.access(requirements))
    return {
        **operation,
        "description": f"{operation['description']}\n\nRequired scopes{condition}: {scopes}.",
        "security": [{_SCHEME: []}],
        "responses": dict(sorted(responses.items())),
    }
