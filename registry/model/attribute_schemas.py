"""A field of a schema -> the OpenAPI schema of the attribute."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from marshmallow import missing, validate

from registry.model.fields import EmailAddress
from registry.model.resource_field import ResourceField


def attribute_schema(attribute: ResourceField) -> dict[str, Any]:
    """Return the OpenAPI schema of an attribute: its class, validators, defaults and metadata."""
    field = attribute.field
    schema = {**attribute.kind.schema, **_limits(field.validators), "example": attribute.example}
    schema |= {
        name: value
        for name, value in field.metadata.items()
        if name == "description" or name.startswith("x-")
    }
    if attribute.nullable:
        schema["nullable"] = True
        if "enum" in schema:  # OpenAPI 3.0 requires null among the values
            schema["enum"] = [*schema["enum"], None]
    if attribute.is_read_only:
        schema["readOnly"] = True
    elif not attribute.is_shown:
        schema["writeOnly"] = True
    has_default = field.load_default is not missing and not callable(field.load_default)
    if has_default and not attribute.is_read_only:
        schema["default"] = field.serialize("value", {"value": field.load_default})
    return schema


def _limits(validators: Iterable[Any]) -> dict[str, Any]:
    """Return the keywords that say what validators accept, as far as JSON Schema can."""
    limits: dict[str, Any] = {}
    for validator in validators:
        for described, keywords in _KEYWORDS.items():
            if isinstance(validator, described):
                found = keywords(validator)
                limits |= {name: value for name, value in found.items() if value is not None}
    return limits


def _length(validator: validate.Length) -> dict[str, Any]:
    least, most, equal = validator.min, validator.max, validator.equal
    return {"minLength": least, "maxLength": most} | (
        {} if equal is None else {"minLength": equal, "maxLength": equal}
    )


def _range(validator: validate.Range) -> dict[str, Any]:
    least, most = validator.min, validator.max
    return {
        "minimum": least,
        "maximum": most,
        "exclusiveMinimum": None if least is None or validator.min_inclusive else True,
        "exclusiveMaximum": None if most is None or validator.max_inclusive else True,
    }


_KEYWORDS: Mapping[type, Callable[[Any], Mapping[str, Any]]] = {
    validate.And: lambda each: _limits(each.validators),
    validate.Length: _length,
    validate.Range: _range,
    validate.OneOf: lambda each: {"enum": [*each.choices]},
    validate.Equal: lambda each: {"enum": [each.comparable]},
    validate.Regexp: lambda each: {"pattern": each.regex.pattern},
    EmailAddress: lambda each: {"format": "email", "maxLength": each.max_length},
    validate.Email: lambda _: {"format": "email"},
    validate.URL: lambda _: {"format": "uri"},
}
"""The keywords for each class of validators; those with None do not apply."""
