"""Sort keys -> the fields that MongoDB compares, and conditions on their values."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

from pymongo import ASCENDING, DESCENDING

from registry.jsonapi.cursors import Position
from registry.jsonapi.sorting import Key, Order
from registry.model.record import Record

Conditions: TypeAlias = Sequence[Mapping[str, Any]]
"""MongoDB queries, all of which a record has to match."""

_OTHER_TYPES = ("timestamp", "regex", "javascript", "maxKey")
_COMPOUND_TYPES = ("object", "array", "binData", "objectId", "bool", "date", *_OTHER_TYPES)
_TYPES_AFTER: Sequence[tuple[type | tuple[type, ...], Sequence[str]]] = (
    (str, _COMPOUND_TYPES),
    (bool, ("date", *_OTHER_TYPES)),
    ((int, float, Decimal), ("string", *_COMPOUND_TYPES)),
    (datetime, _OTHER_TYPES),
)
"""For a class, the BSON types that MongoDB sorts after its values."""

RELATED = "_related"
"""The field of a record with the sort fields of related resources, by relationship."""


def sort_field(key: Key) -> str:
    """Return the path of the field that a key of an order compares."""
    prefix = f"{RELATED}.{key.relationship.name}." if key.relationship else ""
    return prefix + key.stored_name


def split(conditions: Conditions) -> tuple[Conditions, Conditions]:
    """Return the conditions on the fields of records, and those on fields of related resources."""
    related = [one for one in conditions if any(path.startswith(RELATED) for path in one)]
    return [one for one in conditions if one not in related], related


def sort_document(order: Order) -> dict[str, int]:
    """Return an order as MongoDB takes it."""
    return {sort_field(key): DESCENDING if key.descending else ASCENDING for key in order}


def position_of(record: Record, order: Order) -> Position:
    """Return the values of the sort keys in a record; None for missing ones."""
    return tuple(value_of(record, key) for key in order)


def value_of(record: Record, key: Key) -> Any:
    """Return the value of a sort key in a record; None if it is missing."""
    value: Any = record
    for name in sort_field(key).split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def equal(key: Key, value: Any) -> dict[str, Any]:
    """Return the condition for records with this value."""
    return {sort_field(key): {"$eq": value}}


def beyond(key: Key, value: Any) -> list[dict[str, Any]]:
    """Return the condition for records after all with this value; empty if there are none.

    MongoDB compares `$gt` and `$lt` within one type; null, which sorts first, is a different type.
    """
    path = sort_field(key)
    if value is None:
        return [] if key.descending else [{path: {"$ne": None}}]
    if not key.descending:
        return [{path: {"$gt": value}}]
    return [{path: {"$lt": value}} if path == "_id" else {path: {"$not": {"$gte": value}}}]


def up_to(key: Key, value: Any) -> list[dict[str, Any]]:
    """Return the condition for records up to and including this value; empty for all."""
    path = sort_field(key)
    if key.descending:
        return [] if value is None else [{path: {"$gte": value}}]
    return [{path: {"$eq": None} if value is None else {"$not": {"$gt": value}}}]


def is_same_type(value: Any, other: Any) -> bool:
    """Whether a value is null or has the type of another, as all of one attribute do."""
    if value is None or value.__class__ is other.__class__:
        return True
    return _types_after(value) == _types_after(other)


def up_to_type(key: Key, value: Any) -> dict[str, Any]:
    """Return the condition for records whose value is of no type that sorts after that of `value`.

    value: not null. External writers may store values of several types in one field.
    """
    return {sort_field(key): {"$not": {"$type": _types_after(value)}}}


def _types_after(value: Any) -> Sequence[str]:
    types = (types for class_, types in _TYPES_AFTER if isinstance(value, class_))
    return next(types, _COMPOUND_TYPES)  # its own type too, so that no pages repeat
