"""What a client sees of revisions: nothing of types that it must not read."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from registry.jsonapi.filtering import AnyOf, Condition, Filter
from registry.jsonapi.query import Query
from registry.model.attributes import Operator
from registry.model.record import Record
from registry.model.resource_type import ResourceType
from registry.model.revisions import AFTER, BEFORE, subject_of

_NONE = Condition("_id", Operator.EQ, None)


def visible_revisions(revisions: ResourceType, readable: Collection[str]) -> Filter:
    """Return the condition for the revisions of the types that a client may read."""
    keys = [link.foreign_key for link in revisions.links if link.target in readable]
    return AnyOf(tuple(Condition(key, Operator.NE, None) for key in keys) or (_NONE,))


def is_visible(resource: ResourceType, record: Record, query: Query) -> bool:
    """Whether a client may see a record of a type, which may be a revision."""
    if resource.subject is None or query.readable is None:
        return True
    subject = subject_of(resource, record)
    return subject is not None and subject[0] in query.readable


def visible_values(
    resource: ResourceType, records: Sequence[Record], query: Query
) -> Sequence[Record]:
    """Return records without the links, among the values of revisions, to other types."""
    if resource.subject is None or query.readable is None:
        return records
    return [
        record
        | {name: _readable(record.get(name) or {}, query.readable) for name in (BEFORE, AFTER)}
        for record in records
    ]


def _readable(values: Mapping[str, Any], readable: Collection[str]) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if not isinstance(value, dict) or value["type"] in readable
    }
