"""Attributes as a client sends them -> values to store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from marshmallow import Schema

from registry.model.resource import Resource


def load_attributes(
    resource: Resource, values: Mapping[str, Any], *, creating: bool
) -> dict[str, Any]:
    """Return stored values by name for JSON values by name.

    creating: required attributes have to be there, and others get their defaults. Raises
    ValidationError with the messages of all attributes by name.
    """
    loaded: dict[str, Any] = _schema(resource).load(values, partial=not creating)
    return loaded


@lru_cache(maxsize=64)
def _schema(resource: Resource) -> Schema:
    return resource.schema()
