"""`Schema.dump`, compiled from the fields of a schema that is used often: a fifth of the time.

For `PersonSchema(only=["full_name", "email"])` this is generated:

    lambda records: [
        {
            "full_name": f"{record.get('first_name') or ''} {record.get('last_name') or ''}",
            "email": record.get("email"),
        }
        for record in records
    ]

A value of a field whose class serializes in another way comes from its `serialize`. A schema that
overrides how it dumps is not compiled.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from marshmallow import Schema, fields, missing
from marshmallow.decorators import POST_DUMP, PRE_DUMP
from marshmallow.fields import Field

from registry.model.attributes import kind_of, same
from registry.model.base_schema import RecordSchema
from registry.model.fields import ComputedText, Date, Integer
from registry.model.implicit_attributes import StoredTime
from registry.model.record import Record

Dump: TypeAlias = Callable[[Sequence[Record]], list[dict[str, Any]]]
"""Takes records and returns the attributes of each, as `Schema.dump(records, many=True)`."""

_IDENTITIES = {Field._serialize, fields.String._serialize, Integer._serialize}
"""Methods, which marshmallow documents as those to override, that return a value as it is."""


_JOINED = (ComputedText.get_value, fields.String._serialize)


def compile_dump(schema: Schema) -> Dump | None:
    """Return the function for a schema of records; None if it overrides serialization."""
    if overrides_dump(type(schema)):
        return None
    namespace: dict[str, Any] = {"accessor": schema.get_attribute, "present": _present}
    namespace |= {f"field_{name}": field for name, field in schema.dump_fields.items()}
    members = (f"{name!r}: {_value(name, field)}" for name, field in schema.dump_fields.items())
    source = f"lambda records: [{{{', '.join(members)}}} for record in records]"
    compiled = eval(source, namespace)  # noqa: S307 - of declared names, never from a request

    def dump(records: Sequence[Record]) -> list[dict[str, Any]]:
        try:
            shown: list[dict[str, Any]] = compiled(records)
        except KeyError:  # a record lacks a value that others have: the schema leaves it out
            shown = schema.dump(records, many=True)
        return shown

    return dump


def _value(name: str, field: Field[Any]) -> str:
    """Return the expression for the value of a field."""
    own = type(field)
    if isinstance(field, ComputedText) and (own.get_value, own._serialize) == _JOINED:
        texts = (f"{{record.get({part!r}) or ''}}" for part in field.parts)
        return f'f"{" ".join(texts)}"'
    is_same = own._serialize in _IDENTITIES and kind_of(field).restore is same
    is_same = is_same or own._serialize in {Date._serialize, StoredTime._serialize}
    if is_same and (own.serialize, own.get_value) == (Field.serialize, Field.get_value):
        if field.dump_default is None:
            return f"record.get({name!r})"
        if field.dump_default is missing and field.required:
            return f"record[{name!r}]"
    return f"present(field_{name}.serialize({name!r}, record, accessor=accessor))"


def _present(value: Any) -> Any:
    if value is missing:
        raise KeyError
    return value


def overrides_dump(schema: type[Schema]) -> bool:
    """Whether a class of schemas has hooks of `dump`, or methods of its own that it calls."""
    if (schema.dump, schema.get_attribute) != (Schema.dump, RecordSchema.get_attribute):
        return True
    methods = (getattr(schema, name) for name in dir(schema))
    hooks = (getattr(method, "__marshmallow_hook__", None) or {} for method in methods)
    return any(PRE_DUMP in tags or POST_DUMP in tags for tags in hooks)
