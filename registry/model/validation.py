"""Attributes as a client sends them -> values to store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from marshmallow import Schema, ValidationError, missing

from registry.model.resource import Resource, SchemaClass

Validator: TypeAlias = Callable[[Mapping[str, Any], bool], dict[str, Any]]
"""Takes JSON values by name, and whether a resource is created, so that required attributes have to
be there and others get their defaults. Returns stored values by name. Raises ValidationError with
all messages by name."""


@lru_cache(maxsize=64)
def validator_for(resource: Resource) -> Validator:
    """Return the validator of the attributes of a type."""
    return schema_validator(resource.schema)


def schema_validator(schema_class: SchemaClass) -> Validator:
    """Return a function equivalent to `Schema.load`, which takes VALIDATION_GAIN.

    The fields are called directly; whatever they refuse goes through `Schema.load`, which collects
    all errors.
    """
    schema = schema_class()
    deserialize = {name: field.deserialize for name, field in schema.load_fields.items()}
    required = {name for name, field in schema.load_fields.items() if field.required}
    defaults = {
        name: field.load_default
        for name, field in schema.load_fields.items()
        if field.load_default is not missing
    }

    def load(sent: Mapping[str, Any], creating: bool) -> dict[str, Any]:
        loaded: dict[str, Any] = schema.load(sent, partial=not creating)
        return loaded

    def validate(sent: Mapping[str, Any], creating: bool) -> dict[str, Any]:
        if creating and not required <= sent.keys():
            return load(sent, creating)
        values = dict(defaults) if creating else {}
        try:
            for name, value in sent.items():
                values[name] = deserialize[name](value)
        except (KeyError, ValidationError):
            return load(sent, creating)
        return values

    return load if _has_rules(schema) else validate


def _has_rules(schema: Schema) -> bool:
    """Whether methods of the schema check or change what is loaded, such as `validates_schema`.

    Private, as marshmallow has no public list of them; a test of such a rule fails if it changes.
    """
    return any(schema._hooks.values())
