"""Which resources rows mean: found by what tells them apart, as the rows so far have left them."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import NotFound
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.rows.rows import InvalidRow, Mention
from registry.storage.mongo.transactions import Transaction
from registry.storage.writes.identity_map import IdentityMap
from registry.storage.writes.unique_values import UniqueValues, comparable

Shape: TypeAlias = tuple[str, tuple[str, ...]]
"""A type, and the names of the attributes that tell its resources apart."""

Values: TypeAlias = tuple[Hashable, ...]
"""The values of these attributes; equal if they mean the same resource."""

_MAX_MATCHES = 3
"""Records of a shape with the same values that are found: a row is invalid if it means several."""


def value_of(resource: ResourceType, name: str, record: Record) -> Any:
    """Return the value of an attribute in a record, also of one that is computed."""
    computed = resource.computed.get(name)
    return record.get(name) if computed is None else computed.compute(record)


def values_in(resource: ResourceType, names: Sequence[str], record: Record) -> Values:
    """Return the values that tell a record apart."""
    attributes = resource.readable
    return tuple(comparable(attributes[name], value_of(resource, name, record)) for name in names)


def values_of(mention: Mention, names: Sequence[str]) -> Values:
    """Return the values that tell a mentioned resource apart."""
    attributes = mention.resource.readable
    return tuple(comparable(attributes[name], mention.stored(name)) for name in names)


class RowMatches:
    """Finds the records that rows mean among those of a unit of work, which `load` tells.

    Those with an id or a unique value are found by it, others by the values of any attributes.
    """

    def __init__(self, records: IdentityMap, unique: UniqueValues) -> None:
        self._records, self._unique = records, unique
        self._ids: dict[Shape, dict[Values, set[int]]] = defaultdict(lambda: defaultdict(set))

    def load(self, transaction: Transaction, mentions: Sequence[Mention]) -> Mapping[str, set[int]]:
        """Find the stored records with values; return the ids of those to load, by type."""
        wanted: dict[Shape, dict[Values, Mention]] = defaultdict(dict)
        for mention in mentions:
            if mention.key not in {(), ("id",)} and not _is_unique(mention):
                shape = mention.resource.type, mention.key
                wanted[shape].setdefault(values_of(mention, mention.key), mention)
        ids = defaultdict[str, set[int]](set)
        for shape, sought in wanted.items():
            names, resource = shape[1], next(iter(sought.values())).resource
            stages, by_values = _stages(names, [*sought.values()]), self._ids[shape]
            for group in transaction.aggregate(stages, resource.collection):
                values = tuple(
                    comparable(resource.readable[name], group[ID].get(name)) for name in names
                )
                by_values[values].update(group["ids"])
                ids[resource.type].update(group["ids"])
        return ids

    def add(self, resource: ResourceType, record: Record) -> None:
        """Add a record, as a row has left it."""
        for (type_name, names), ids in self._ids.items():
            if type_name == resource.type:
                ids[values_in(resource, names, record)].add(record[ID])

    def find(self, mention: Mention) -> Record | None:
        """Return the record that is mentioned, None for a new one. Raises InvalidRow."""
        resource, names = mention.resource, mention.key
        if not names:
            return None
        if names == ("id",):
            record = self._records.get((resource.type, mention.stored("id")))
            if record is None:
                detail = (
                    f"There is no `{resource.type}` with the id {quoted(mention.id or '')}. Ids of "
                    "another registry do not count here: leave the column out, or name a key."
                )
                raise InvalidRow(mention.error(NotFound(detail), "id"))
            return record
        if _is_unique(mention):
            id_ = self._unique.holder(resource, names[0], mention.stored(names[0]))
            return None if id_ is None else self._records.get((resource.type, id_))
        records = self._matching(mention)
        if len(records) > 1:
            shown = ", ".join(str(record[ID]) for record in records)
            detail = f"This is ambiguous: several {resource.collection} match, such as {shown}."
            raise InvalidRow(mention.error(detail, names[0]))
        return records[0] if records else None

    def _matching(self, mention: Mention) -> list[Record]:
        """Return the records that have the values now."""
        resource, names, values = mention.resource, mention.key, values_of(mention, mention.key)
        ids = sorted(self._ids[resource.type, names].get(values, ()))
        found = (self._records.get((resource.type, id_)) for id_ in ids)
        return [
            record for record in found if record and values_in(resource, names, record) == values
        ]


def _is_unique(mention: Mention) -> bool:
    """Whether a unique attribute alone tells the resource apart."""
    return len(mention.key) == 1 and mention.key[0] in mention.resource.unique


def _stages(names: Sequence[str], mentions: Sequence[Mention]) -> list[dict[str, Any]]:
    """Return the pipeline that finds some of the records with the values of each mention."""
    if len(names) == 1:
        spelled = dict.fromkeys(text for each in mentions for text in _spellings(each, names[0]))
        query: dict[str, Any] = {names[0]: {"$in": [*spelled]}}
    else:
        query = {
            "$or": [
                {name: {"$in": [*_spellings(mention, name)]} for name in names}
                for mention in mentions
            ]
        }
    ids = {"$minN": {"input": f"${ID}", "n": _MAX_MATCHES}}
    return [
        {"$match": query},
        {"$group": {ID: {name: f"${name}" for name in names}, "ids": ids}},
    ]


def _spellings(mention: Mention, name: str) -> Iterator[Any]:
    """Yield a value, in all usual spellings if its case does not matter."""
    value = mention.stored(name)
    yield value
    if value is None or not mention.resource.readable[name].kind.ignores_case:
        return
    local, at, domain = value.lower().partition("@")
    for spelled in (local, local.title(), local.capitalize()):
        yield f"{spelled}{at}{domain}"
    yield value.upper()
