"""Records: the stored form of resources, what reads return of them, and updates that write them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from registry.jsonapi.changes import Change
from registry.model.authorship import created
from registry.model.record import TEXT_BLOCK, VERSION, LinkedIds, Record
from registry.model.resource_type import ResourceType
from registry.storage.text_blocks import searched_names

Stage: TypeAlias = dict[str, Any]
"""A stage of an aggregation pipeline."""

Conditions: TypeAlias = Sequence[Mapping[str, Any]]
"""MongoDB queries, all of which a record has to match."""

ONE_BATCH = 10_000
"""Records per reply. Few replies have more; while the driver decodes one, no other thread runs."""

NEXT_VERSION: Stage = {"$add": [{"$ifNull": [f"${VERSION}", 0]}, 1]}
"""The aggregation expression for the version of a record after a change."""


@lru_cache(maxsize=1024)  # bounded, as clients choose the names
def fields_of(resource: ResourceType, names: frozenset[str]) -> tuple[str, ...]:
    """Return the stored fields of the named attributes, without duplicates.

    All foreign keys are among them. A computed attribute is represented by its parts, as
    serialization computes it from them.
    """
    parts = {name: attribute.parts for name, attribute in resource.computed.items()}
    selected = [name for name in resource.readable if name in names]
    fields = [part for name in selected for part in parts.get(name, (name,))]
    foreign_keys = (link.foreign_key for link in resource.links)
    return tuple(dict.fromkeys([*fields, *foreign_keys]))


@lru_cache(maxsize=64)
def visible_fields(resource: ResourceType) -> tuple[str, ...]:
    """Return all stored fields that responses are built from, besides `_id`.

    Hidden fields never leave the database.
    """
    return (*fields_of(resource, frozenset(resource.readable)), VERSION)


def projection(fields: Iterable[str]) -> dict[str, bool]:
    """Return the projection to these fields and the id; an empty one would return all fields."""
    return dict.fromkeys(("_id", *fields), True)


def new_record(resource: ResourceType, id_: int, change: Change, time: str) -> Record:
    """Return the record of a resource that a request creates. time: of the write, as stored."""
    record = {
        "_id": id_,
        **resource.read_only_defaults,
        **{link.foreign_key: None for link in resource.links},
        **change.attributes,
        **foreign_keys(change),
        **created(change.author, time),
        VERSION: 1,
    }
    return record | {name: text.compute(record) for name, text in resource.computed.items()}


def conjunction(conditions: Conditions) -> dict[str, Any]:
    """Return the query for records that match all conditions; every record if none are given."""
    return {"$and": conditions} if conditions else {}


def id_condition(ids: Sequence[int]) -> Any:
    """Return the condition that a field has one of these ids, at least one."""
    # At 1 connection, a list of one id takes 17.5 % more CPU time of mongod.
    return {"$in": ids} if len(ids) > 1 else ids[0]


def foreign_keys(change: Change) -> dict[str, LinkedIds]:
    """Return the foreign keys that to-one linkages set on the record itself, by field."""
    return {
        linkage.relationship.foreign_key: linkage.linked_ids
        for linkage in change.linkages
        if not linkage.relationship.to_many
    }


def changed_fields(resource: ResourceType, record: Record, values: Mapping[str, Any]) -> Record:
    """Return the fields that these values change, with computed ones; empty if none changes.

    A record whose texts change leaves its text block.
    """
    fields = {name: value for name, value in values.items() if not is_same(value, record.get(name))}
    for name, text in resource.computed.items() if fields else ():
        if not fields.keys().isdisjoint(text.parts):
            fields[name] = text.compute({**record, **fields})
    if not fields.keys().isdisjoint(searched_names(resource)):
        fields[TEXT_BLOCK] = None
    return fields


def is_same(value: Any, stored: Any) -> bool:
    """Whether a value is equal to the stored one and also has the same JSON form."""
    # As texts: the decimals 1.0 == 1.00, and the driver has a class of its own for them.
    return str(value) == str(stored) and (value is None) == (stored is None)


def recompute(resource: ResourceType) -> list[Stage]:
    """Return the update that sets the computed fields; empty for a type without any."""
    computed = computed_texts(resource)
    return [{"$set": {**computed, TEXT_BLOCK: None}}] if computed else []


def computed_texts(resource: ResourceType) -> dict[str, Stage]:
    """Return the aggregation expressions for the computed fields of a record, by name."""
    return {name: _concatenation(text.parts) for name, text in resource.computed.items()}


def _concatenation(parts: tuple[str, ...]) -> Stage:
    """Return the stored parts, joined by spaces."""
    texts: list[Any] = []
    for part in parts:
        stored = {"$convert": {"input": f"${part}", "to": "string", "onError": "", "onNull": ""}}
        texts += [" ", stored]
    return {"$concat": texts[1:]}
