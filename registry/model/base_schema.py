"""The base of all schemas: how records are read, and the authorship."""

from collections.abc import Callable
from typing import Any

from marshmallow import Schema, fields, missing

from registry.model.attributes import kind_of, same
from registry.model.implicit_attributes import PrincipalName, StoredTime


class RecordSchema(Schema):
    """Dumps records: values are in their stored form, and missing ones are null if they can be."""

    def __init__(self, **options: Any) -> None:
        self._restore: dict[str, Callable[[Any], Any]] = {}
        super().__init__(**options)

    def on_bind_field(self, field_name: str, field_obj: fields.Field[Any]) -> None:
        """Adapt a field to what is stored and to JSON. Raises ValueError for one without a kind."""
        kind = kind_of(field_obj)
        if kind.restore is not same:
            self._restore[field_name] = kind.restore
        if kind.check:
            field_obj.validators = [*field_obj.validators, kind.check]
        if field_obj.allow_none and field_obj.dump_default is missing:
            field_obj.dump_default = None
        if isinstance(field_obj, fields.Decimal):
            field_obj.as_string = True  # JSON has no exact numbers
        super().on_bind_field(field_name, field_obj)

    def get_attribute(self, obj: Any, attr: str, default: Any) -> Any:
        """Return a value of a record, as `load` returned it before it was stored."""
        if obj.__class__ is not dict:  # from a hook
            return super().get_attribute(obj, attr, default)
        value = obj.get(attr, default)
        if attr not in self._restore or value is None or value is default:
            return value
        return self._restore[attr](value)


class ResourceSchema(RecordSchema):
    """The base of the schemas of resources: their authorship."""

    created_at = StoredTime("When the resource was created.")
    created_by = PrincipalName("Who created it")
    updated_at = StoredTime("When its attributes were last changed; relationships do not matter.")
    updated_by = PrincipalName("Who changed its attributes")


class PeriodSchema(RecordSchema):
    """The base of the schemas of histories, whose times are attributes: who began and ended one."""

    created_by = PrincipalName("Who began it")
    updated_by = PrincipalName("Who ended it")
