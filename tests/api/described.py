"""The description of a service that requires access tokens, and what its parts mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openapi_schema_validator import OAS30Validator, oas30_format_checker

from registry.model.graph import Graph
from registry.openapi.description import describe
from registry.resources import RESOURCES
from registry.settings import Settings

DESCRIPTION = describe(Graph(RESOURCES), Settings(auth="on"))
"""Of a service that requires access tokens: it describes more than that of the other tests."""


def resolve(part: Any) -> Any:
    """Return the target of a reference in the description, or the part itself."""
    while "$ref" in part:
        target: Any = DESCRIPTION
        for step in part["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        part = target
    return part


def operations() -> Iterator[tuple[str, str, Any]]:
    """Yield path, method and description of each operation."""
    for path, item in DESCRIPTION["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def parameters() -> Iterator[Any]:
    for _, _, operation in operations():
        yield from map(resolve, operation["parameters"])


def schema_errors(schema: Any, document: Any) -> list[str]:
    """Return the messages of the validation of a document against a schema of the description."""
    standalone = {**schema, "components": DESCRIPTION["components"]}
    validator = OAS30Validator(standalone, format_checker=oas30_format_checker)
    return [error.message for error in validator.iter_errors(document)]
