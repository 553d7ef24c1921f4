"""A field of a schema -> the OpenAPI schema of the attribute."""

from collections.abc import Iterable
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
        if isinstance(validator, validate.And):
            limits |= _limits(validator.validators)
        elif isinstance(validator, validate.Length | validate.Range):
            limits |= _range(validator)
        else:
            limits |= _format(validator)
    return limits


def _format(validator: Any) -> dict[str, Any]:
    match validator:
        case validate.OneOf(choices=choices):
            return {"enum": [*choices]}
        case validate.Equal(comparable=value):
            return {"enum": [value]}
        case validate.Regexp(regex=regex):
            return {"pattern": regex.pattern}
        case EmailAddress(max_length=most):
            return {"format": "email", "maxLength": most}
        case validate.Email() | validate.URL():
            return {"format": "email" if isinstance(validator, validate.Email) else "uri"}
    return {}


def _range(validator: validate.Length | validate.Range) -> dict[str, Any]:
    least, most = validator.min, validator.max
    if isinstance(validator, validate.Range):
        return {
            **_given(minimum=least, maximum=most),
            **({} if least is None or validator.min_inclusive else {"exclusiveMinimum": True}),
            **({} if most is None or validator.max_inclusive else {"exclusiveMaximum": True}),
        }
    if validator.equal is not None:
        least = most = validator.equal
    return _given(minLength=least, maxLength=most)


def _given(**keywords: Any) -> dict[str, Any]:
    return {name: value for name, value in keywords.items() if value is not None}
