"""The attributes of a request, checked by the schema, which need not look at what is plain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from marshmallow import Schema, missing

from registry.model.attributes import PlainText
from registry.model.resource import Resource

Validation: TypeAlias = Callable[[Mapping[str, Any], bool], dict[str, Any]]
"""Takes attributes by name, and whether all that are required have to be there; returns what to
store. Raises ValidationError."""


@lru_cache(maxsize=64)
def validator_for(resource: Resource) -> Validation:
    """Return the validator of the attributes of a type."""
    return validation(resource.schema())


def validation(schema: Schema) -> Validation:
    """Return what does as `Schema.load` does.

    Nearly all requests hold what each field takes as it is, and `Schema.load` takes ten times as
    long to find that out.
    """

    def load(sent: Mapping[str, Any], whole: bool) -> dict[str, Any]:
        loaded: dict[str, Any] = schema.load(sent, partial=not whole)
        return loaded

    fields = schema.load_fields
    plain = {name: field for name, field in fields.items() if isinstance(field, PlainText)}
    # marshmallow has no public word for the methods of a schema that look at what is loaded.
    all_plain = len(plain) == len(fields) and not any(schema._hooks.values())
    return _of_plain(plain, load) if all_plain else load


def _of_plain(plain: Mapping[str, PlainText], load: Validation) -> Validation:
    """Return what takes attributes that are plainly right, and leaves others to `load`."""
    is_trivially_valid = {name: field.is_trivially_valid for name, field in plain.items()}
    required = {name for name, field in plain.items() if field.required}
    defaults = {
        name: field.load_default
        for name, field in plain.items()
        if field.load_default is not missing
    }

    def take(sent: Mapping[str, Any], whole: bool) -> dict[str, Any]:
        if whole and not required <= sent.keys():
            return load(sent, whole)
        for name, value in sent.items():
            if name not in is_trivially_valid or not is_trivially_valid[name](value):
                return load(sent, whole)
        return {**defaults, **sent} if whole else dict(sent)

    return take
