"""The values of unique attributes in a unit of work: who has them, as the writes have left them."""

import decimal
import logging
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import replace
from typing import Any

from marshmallow import ValidationError

from registry.jsonapi.changes import Write
from registry.jsonapi.error_objects import ErrorCollector, RequestError
from registry.jsonapi.error_types import Unavailable, ValueTaken, invalid_attributes
from registry.jsonapi.resource_objects import path_of
from registry.model.record import ID, Record
from registry.model.resource_field import ResourceField
from registry.model.resource_type import ResourceType
from registry.storage.errors import DUPLICATE_KEY, VALIDATION_FAILURE, RecordRefused
from registry.storage.indexes import equal_texts, unique_find
from registry.storage.mongo.transactions import Transaction, WriteRejected
from registry.storage.writes.identity_map import IdentityMap
from registry.storage.writes.write_requests import Outcome

_log = logging.getLogger("registry")


def completed(write: Write, errors: ErrorCollector) -> Write:
    """Return the creation that a write which merges stands for; add why it is not valid."""
    resource, change = write.resource, write.change
    try:
        attributes = resource.load(change.sent or {}, partial=False)
    except ValidationError as error:
        errors.extend(invalid_attributes(resource, error.messages_dict, write.position))
        return write
    return replace(write, change=replace(change, attributes=attributes, read_only={}))


def comparable(attribute: ResourceField, value: Any) -> Hashable:
    """Return what is equal for values of an attribute that have the same meaning."""
    if value is None:
        return None
    if attribute.kind.stored_type is decimal.Decimal:  # else of the driver's class
        return decimal.Decimal(str(value))
    compared: Hashable = value.lower() if attribute.kind.ignores_case else value
    return compared


class UniqueValues:
    """Finds the records that have values of unique attributes, before the database compares them.

    records: of the unit. Only loaded values are known.
    """

    def __init__(self, transaction: Transaction, records: IdentityMap) -> None:
        self._transaction = transaction
        self._records = records
        self._ids: dict[tuple[str, str, Hashable], list[int]] = defaultdict(list)
        self._equal: dict[str, str] = {}

    def load(self, writes: Iterable[Write]) -> Mapping[str, Set[int]]:
        """Find the records with the values that writes set; return the ids to load, by type."""
        values: dict[tuple[ResourceType, str], dict[Any, None]] = defaultdict(dict)
        for write in writes:
            for name, value in write.unique_values.items():
                values[write.resource, name][value] = None
        ids: dict[str, set[int]] = defaultdict(set)
        for (resource, name), sought in values.items():
            attribute = resource.attributes[name]
            query, options = unique_find(name, attribute, list(sought))
            found = self._transaction.find(
                resource.collection, query, {ID: True, name: True}, **options
            )
            if attribute.kind.ignores_case:
                self._compare({*sought, *(record[name] for record in found)})
            for record in found:
                self.update(resource, record)
                ids[resource.type].add(record[ID])
        return ids

    def _compare(self, texts: Set[str]) -> None:
        """Learn which texts the collation equates, if some have other letters than ASCII.

        It also equates decomposed, full-width and other forms of letters, unlike `lower`; but not
        `ß` and `ss`, unlike `casefold`.
        """
        if all(text.isascii() for text in texts):
            return
        stages, options = equal_texts(sorted(texts))
        for group in self._transaction.aggregate(stages, **options):
            first = min(group["texts"])
            self._equal.update(
                dict.fromkeys(group["texts"], first.lower() if first.isascii() else first)
            )

    def _key(self, attribute: ResourceField, value: Any) -> Hashable:
        """Return a key that is equal for values that the attribute's index does not tell apart."""
        equal = self._equal.get(value) if attribute.kind.ignores_case else None
        return equal or comparable(attribute, value)

    def update(self, resource: ResourceType, record: Record) -> None:
        """Add the values of a record, as it is stored or a write has left it."""
        for name, attribute in resource.unique_attributes.items():
            if record.get(name) is not None:
                key = self._key(attribute, record[name])
                self._ids[resource.type, name, key].append(record[ID])

    def matching_id(self, write: Write) -> int | None:
        """Return the id of the record that has one of the values of a write, None without one."""
        ids = (self.holder(write.resource, *item) for item in write.unique_values.items())
        return next((id_ for id_ in ids if id_ is not None), None)

    def conflicts(self, write: Write, target: int) -> list[ValueTaken]:
        """Return an error for each value of a write that another record than its target has."""
        resource, before = write.resource, self._records.before_request
        errors: list[ValueTaken] = []
        for name, value in write.unique_values.items():
            id_ = self.holder(resource, name, value)
            if id_ not in (None, target):
                is_new = before.get((resource.type, id_), {}) is None  # and will not be stored
                # Scopes to write a type include reading it, so the link needs no other scope.
                about = None if is_new or id_ is None else path_of(resource, id_)
                pointer = write.position / "attributes" / name
                errors.append(ValueTaken(resource.type, name, pointer, about))
        return errors

    def holder(self, resource: ResourceType, name: str, value: Any) -> int | None:
        """Return the id of the record that has a value of a unique attribute, None without one."""
        attribute = resource.attributes[name]
        key = self._key(attribute, value)
        for id_ in self._ids.get((resource.type, name, key), ()):
            current = (self._records.get((resource.type, id_)) or {}).get(name)
            if current is not None and self._key(attribute, current) == key:
                return id_
        return None


def rejection(outcome: Outcome, rejected: WriteRejected) -> RequestError:
    """Return why MongoDB has rejected what a request with this outcome has stored."""
    error = rejected.error
    key = list(error.get("keyPattern", ())) if error["code"] == DUPLICATE_KEY else []
    for result in reversed(outcome if isinstance(outcome, list) else []):
        write, resource = result.write, result.write.resource
        is_rejected = (resource.collection, result.record[ID]) == (rejected.collection, rejected.id)
        # Another service may have created the index.
        if is_rejected and len(key) == 1 and key[0] in write.change.attributes:
            pointer = write.position / "attributes" / key[0]
            return ValueTaken(resource.type, key[0], pointer, None)
    _log.error("MongoDB rejects %s/%s: %s", rejected.collection, rejected.id, error.get("errmsg"))
    return RecordRefused() if error["code"] == VALIDATION_FAILURE else Unavailable()
