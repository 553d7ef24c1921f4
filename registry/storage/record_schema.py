"""The schema of records: MongoDB validates what is written, the service what it has read."""

import datetime
import decimal
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from types import NoneType
from typing import Any

from bson.decimal128 import Decimal128
from bson.int64 import Int64

from registry.model.attributes import Attribute, ComputedText
from registry.model.record import MAX_VERSION, VERSION, Record
from registry.model.resource_type import ResourceType
from registry.model.serialization import compile_function
from registry.model.stored_fields import ID, record_attributes
from registry.storage.errors import InvalidRecord

_log = logging.getLogger("registry")

_BSON_TYPES: Mapping[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("bool",),
    int: ("int", "long"),
    decimal.Decimal: ("decimal",),
    datetime.datetime: ("date",),
}
"""The BSON types of stored values, by the class that an attribute declares."""

_CLASSES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "bool": (bool,),
    "int": (int,),
    "long": (Int64,),
    "decimal": (decimal.Decimal, Decimal128),  # the driver applies codecs to cursors only
    "date": (datetime.datetime,),
    "null": (NoneType,),
}
"""The classes of the values that the driver returns, by BSON type."""

VALIDATION_FAILURE = 121
"""MongoDB's error code for a record that a validator refuses."""

_LIMITS: Mapping[str, Mapping[str, int]] = {
    ID: {"minimum": 1},
    VERSION: {"minimum": 0, "maximum": MAX_VERSION},
}


@lru_cache(maxsize=64)
def record_schema(resource: ResourceType) -> Mapping[str, Any]:
    """Return the schema of the records of a type, as `$jsonSchema` of MongoDB takes it.

    Fields that may be null may be missing too, and so may computed ones. Other fields may be added.
    """
    attributes = record_attributes(resource)
    return {
        "bsonType": "object",
        "required": [name for name, one in attributes.items() if not _may_be_missing(one)],
        "properties": {
            name: {"bsonType": _bson_types(one), **_LIMITS.get(name, {})}
            for name, one in attributes.items()
        },
    }


def require_valid(
    resource: ResourceType, records: Iterable[Record], fields: tuple[str, ...]
) -> None:
    """Raise InvalidRecord for the first record in which one of the fields is not valid, if any.

    fields: those that the records were read with; the id is checked too.
    """
    invalid = _invalid_record_finder(resource, fields)(records)
    if invalid is not None:
        reasons = invalid_fields(resource, invalid, (ID, *fields)).values()
        raise _logged(InvalidRecord(resource.collection, invalid[ID], "; ".join(reasons)))


def refused_record(resource: ResourceType, id_: object, error: Mapping[str, Any]) -> InvalidRecord:
    """Return the error for a record that the validator of its collection has refused.

    error: an element of `writeErrors` in the reply to a command.
    """
    rules = error.get("errInfo", {}).get("details", {}).get("schemaRulesNotSatisfied", ())
    names = [
        name
        for rule in rules
        for name in (
            *(one["propertyName"] for one in rule.get("propertiesNotSatisfied", ())),
            *rule.get("missingProperties", ()),
        )
    ]
    reason = f"the validator of the collection refuses {', '.join(names) or 'it'}"
    return _logged(InvalidRecord(resource.collection, id_, reason))


def _logged(error: InvalidRecord) -> InvalidRecord:
    _log.error("%s", error)
    return error


def invalid_fields(
    resource: ResourceType, record: Record, fields: Iterable[str] | None = None
) -> Mapping[str, str]:
    """Return the fields of a record that are not valid, each with the reason.

    fields: those to check, by default all.
    """
    properties = record_schema(resource)["properties"]
    names = properties if fields is None else dict.fromkeys(fields)
    defects = {name: _defect(name, record.get(name), properties[name]) for name in names}
    return {name: defect for name, defect in defects.items() if defect}


def _defect(name: str, value: Any, schema: Mapping[str, Any]) -> str:
    types: list[str] = schema["bsonType"]
    if value.__class__ not in _classes(types):
        # The value itself may be confidential.
        stored = "missing" if value is None else f"of the type {value.__class__.__name__}"
        return f"{name} is {stored} instead of {' or '.join(types)}"
    least, most = schema.get("minimum", value), schema.get("maximum", value)
    return f"{name} is {value}" if value is not None and not least <= value <= most else ""


@lru_cache(maxsize=1024)  # bounded, as clients choose the fields
def _invalid_record_finder(
    resource: ResourceType, fields: tuple[str, ...]
) -> Callable[[Iterable[Record]], Record | None]:
    """Return a function that returns the first record with an id or a class that is not valid."""
    properties = record_schema(resource)["properties"]
    names = dict.fromkeys((ID, *fields))
    namespace = {
        f"classes_{number}": _classes(properties[name]["bsonType"])
        for number, name in enumerate(names)
    }
    checks = [f"get({name!r}).__class__ in classes_{number}" for number, name in enumerate(names)]
    checks.append(f"get({ID!r}) >= {_LIMITS[ID]['minimum']}")
    source = f"""\
def first_invalid(records):
    for record in records:
        get = record.get
        if not ({" and ".join(checks)}):
            return record
"""
    return compile_function("first_invalid", source, namespace)


def _classes(bson_types: Iterable[str]) -> frozenset[type]:
    return frozenset(chain.from_iterable(_CLASSES[name] for name in bson_types))


def _bson_types(attribute: Attribute) -> list[str]:
    types = _BSON_TYPES[attribute.stored_type]
    return [*types, "null"] if _may_be_missing(attribute) else [*types]


def _may_be_missing(attribute: Attribute) -> bool:
    return attribute.nullable or isinstance(attribute, ComputedText)
