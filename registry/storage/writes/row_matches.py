"""Which resources rows mean: found by what tells them apart, as the rows so far have left them."""

import decimal
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from registry.model.record import ID, Record
from registry.model.resource_field import ResourceField
from registry.model.resource_type import ResourceType
from registry.rows.row_reader import Mention
from registry.storage.mongo.transactions import Transaction
from registry.storage.writes.identity_map import IdentityMap

Shape: TypeAlias = tuple[str, tuple[str, ...]]
"""A type, and the names of the attributes that tell its resources apart."""

Values: TypeAlias = tuple[Hashable, ...]
"""The values of these attributes; equal if they mean the same resource."""


def value_of(resource: ResourceType, name: str, record: Record) -> Any:
    """Return the value of an attribute in a record, also of one that is computed."""
    computed = resource.computed.get(name)
    return record.get(name) if computed is None else computed.compute(record)


def _comparable(attribute: ResourceField, value: Any) -> Hashable:
    if value is None:
        return None
    if attribute.stored_type is decimal.Decimal:  # else of the driver's class
        return decimal.Decimal(str(value))
    comparable: Hashable = value.lower() if attribute.kind.ignores_case else value
    return comparable


def values_in(resource: ResourceType, names: Sequence[str], record: Record) -> Values:
    """Return the values that tell a record apart."""
    attributes = resource.readable
    return tuple(_comparable(attributes[name], value_of(resource, name, record)) for name in names)


def values_of(mention: Mention, names: Sequence[str]) -> Values:
    """Return the values that tell a mentioned resource apart."""
    attributes = mention.resource.readable
    return tuple(_comparable(attributes[name], mention.stored(name)) for name in names)


class RowMatches:
    """The records with the values that mentions have, by shape; not those found by id.

    count: those that are stored may be more than the ids that are known: the lowest and highest.
    """

    def __init__(self) -> None:
        self._ids: dict[Shape, dict[Values, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._more: dict[tuple[Shape, Values], int] = {}

    async def load(
        self, transaction: Transaction, mentions: Iterable[Mention]
    ) -> Mapping[str, set[int]]:
        """Find the stored records; return their ids, to be loaded, by type."""
        wanted: dict[Shape, dict[Values, Mention]] = defaultdict(dict)
        for mention in mentions:
            shape = mention.resource.type, mention.key
            wanted[shape].setdefault(values_of(mention, mention.key), mention)
        ids = defaultdict[str, set[int]](set)
        for shape, sought in wanted.items():
            names, resource = shape[1], next(iter(sought.values())).resource
            found = await transaction.aggregate(
                _stages(names, [*sought.values()]), resource.collection
            )
            by_values = self._ids[shape]
            for group in found:
                some = {group["first"], group["last"]}
                values = tuple(
                    _comparable(resource.readable[name], group[ID].get(name)) for name in names
                )
                by_values[values] |= some
                if more := group["count"] - len(some):
                    self._more[shape, values] = self._more.get((shape, values), 0) + more
                ids[resource.type] |= some
        return ids

    def add(self, resource: ResourceType, record: Record) -> None:
        """Add a record, as a row has left it."""
        for (type_name, names), ids in self._ids.items():
            if type_name == resource.type:
                ids[values_in(resource, names, record)].add(record[ID])

    def find(self, mention: Mention, records: IdentityMap) -> tuple[list[int], int]:
        """Return the ids of the records that match now, and how many do."""
        type_name = mention.resource.type
        shape, values = (type_name, mention.key), values_of(mention, mention.key)
        ids = [
            id_
            for id_ in sorted(self._ids[shape].get(values, ()))
            if (record := records.get((type_name, id_)))
            and values_in(mention.resource, mention.key, record) == values
        ]
        return ids, len(ids) + self._more.get((shape, values), 0)


def _stages(names: Sequence[str], mentions: Sequence[Mention]) -> list[dict[str, Any]]:
    """Return the pipeline that counts the records with the values, and finds one or two of them."""
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
    return [
        {"$match": query},
        {
            "$group": {
                ID: {name: f"${name}" for name in names},
                "count": {"$sum": 1},
                "first": {"$min": f"${ID}"},
                "last": {"$max": f"${ID}"},
            }
        },
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
