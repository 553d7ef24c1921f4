"""`attributes` of requests -> values to store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from marshmallow import Schema

from registry.model.resource import Resource


def load_attributes(
    resource: Resource, values: Mapping[str, Any], *, creating: bool
) -> dict[str, Any]:
    """Return the values to store for JSON values, by attribute name.

    creating: required attributes must be present, and missing ones get their defaults. Raises
    ValidationError with the messages for all attributes by name.
    """
    loaded: dict[str, Any] = _schema(resource).load(values, partial=not creating)
    return loaded


@lru_cache(maxsize=64)
def _schema(resource: Resource) -> Schema:
    return resource.schema()
