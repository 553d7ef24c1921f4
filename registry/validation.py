"""The attributes of a request, checked by the schema, which need not look at what is plain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from marshmallow import Schema, missing

from registry.attributes import PlainText

Validation: TypeAlias = Callable[[Mapping[str, Any], bool], dict[str, Any]]
"""Takes attributes by name, and whether all that are required have to be there; returns what to
store. Raises ValidationError."""


def validation(schema: Schema) -> Validation:
    """Return what does as `Schema.load` does.

    Nearly all requests hold what each field takes as it is, and `Schema.load` takes ten times as
    long to find that out.
    """
    quick = _quick(schema)

    def validate(sent: Mapping[str, Any], whole: bool) -> dict[str, Any]:
        taken = quick(sent, whole) if quick else None
        if taken is None:
            taken = schema.load(sent, partial=not whole)
        return taken

    return validate


def _quick(schema: Schema) -> Callable[[Mapping[str, Any], bool], dict[str, Any] | None] | None:
    """Return what takes attributes that are plainly right; None if the schema has to see all."""
    fields = dict(schema.load_fields)
    plain = {name: field for name, field in fields.items() if isinstance(field, PlainText)}
    # marshmallow has no public word for the methods of a schema that look at what is loaded.
    if len(plain) < len(fields) or any(schema._hooks.values()):
        return None
    accepts = {name: field.accepts for name, field in plain.items()}
    required = {name for name, field in plain.items() if field.required}
    defaults = {name: field.load_default for name, field in plain.items()}
    defaults = {name: value for name, value in defaults.items() if value is not missing}

    def take(sent: Mapping[str, Any], whole: bool) -> dict[str, Any] | None:
        for name, value in sent.items():
            if name not in accepts or not accepts[name](value):
                return None
        if not whole:
            return dict(sent)
        return {**defaults, **sent} if required <= sent.keys() else None

    return take
