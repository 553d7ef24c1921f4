"""`attributes` of requests -> values to store."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from marshmallow import ValidationError

from registry.model.resource_type import ResourceType

Validator: TypeAlias = Callable[[Mapping[str, Any], bool], dict[str, Any]]
"""Takes JSON values by name, and whether a resource is created: then required attributes must be
present, and missing ones get their defaults. Returns the values to store by name. Raises
ValidationError with the messages for all attributes by name."""


@lru_cache(maxsize=64)
def validator_for(resource: ResourceType) -> Validator:
    """Return the validator of a type, equivalent to `Schema.load`.

    It calls the attributes directly, which saves 6 % of a creation. Invalid values are passed to
    `Schema.load`, which collects all errors.
    """
    schema = resource.schema()
    writable = {name: resource.attributes[name] for name in schema.load_fields}
    required = {name for name, attribute in writable.items() if attribute.required}
    defaults = {name: one.load_default for name, one in writable.items() if not one.required}

    def load(values: Mapping[str, Any], creating: bool) -> dict[str, Any]:
        loaded: dict[str, Any] = schema.load(values, partial=not creating)
        return loaded

    def validate(values: Mapping[str, Any], creating: bool) -> dict[str, Any]:
        if creating and not required <= values.keys():
            return load(values, creating)
        loaded = dict(defaults) if creating else {}
        try:
            for name, value in values.items():
                attribute = writable[name]
                is_null = value is None and attribute.nullable
                loaded[name] = None if is_null else attribute.load(value)
        except (KeyError, ValidationError):
            return load(values, creating)
        return loaded

    # Private: marshmallow has no public list of the hooks of a schema, such as `validates_schema`;
    # tests/model/test_validation.py fails if it changes.
    return load if any(schema._hooks.values()) else validate
