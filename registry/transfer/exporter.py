"""The export of a snapshot: persons with their computers, or computers with their owner."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from registry.jsonapi.cursors import Cursors
from registry.jsonapi.filtering import Condition
from registry.jsonapi.pagination import CursorPage
from registry.jsonapi.query import Query
from registry.jsonapi.sorting import BY_ID, Key
from registry.model.attributes import Operator
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource_type import ResourceType
from registry.storage import Listing, Snapshot
from registry.transfer.rows import (
    COMPUTER,
    COMPUTER_ATTRIBUTES,
    COMPUTERS,
    OWNER,
    PERSON,
    PERSON_ATTRIBUTES,
    SERIAL,
    SERIALS,
    Attributes,
    Row,
)

DEFAULT_FIELDS: Mapping[str, frozenset[str]] = {
    PERSON: frozenset({*PERSON_ATTRIBUTES, COMPUTERS}),
    COMPUTER: frozenset({*COMPUTER_ATTRIBUTES, OWNER}),
}
"""The fields of each type that an import needs to lose nothing."""

MAX_COMPUTERS = 5_000
"""Computers per row, and in memory at a time: the longest serials, escaped, fit in `MAX_ROW`."""


class Exporter:
    """Exports resources of a snapshot as rows, in constant memory.

    resource: persons with their computers, or computers with their owner. query: the filters and
    the order of these, and their fields, by default DEFAULT_FIELDS. Without the relationship among
    the fields, rows have no related resources.
    """

    def __init__(
        self, snapshot: Snapshot, resource: ResourceType, query: Query, graph: Graph
    ) -> None:
        self._snapshot = snapshot
        self._resource = resource
        self._query = replace(query, fields={**DEFAULT_FIELDS, **query.fields})
        self._persons, self._computers = graph[PERSON], graph[COMPUTER]
        self._foreign_key = self._computers.relationships[OWNER].foreign_key
        fields = self._query.fields[resource.type]
        self._has_related = not fields.isdisjoint(resource.relationships)
        self.columns = list(self._columns())
        """The columns of a CSV file of these rows."""

    async def rows(self) -> AsyncGenerator[list[Row]]:
        """Yield the rows in the order of the query, in chunks.

        Without filters, computers without an owner follow the persons, one per row. Raises
        Unavailable, QueryTimeout or BulkheadFull.
        """
        is_of_persons = self._resource.type == PERSON
        parts = [self._person_part() if is_of_persons else self._computer_part(self._query)]
        if is_of_persons and self._has_related and not self._query.filters:
            has_no_owner = Condition(self._foreign_key, Operator.EQ, None)
            parts.append(self._computer_part(Query(self._query.fields, filters=(has_no_owner,))))
        for part in parts:
            async with aclosing(part) as chunks:
                async for rows in chunks:
                    yield rows

    def _columns(self) -> Iterator[str]:
        is_of_persons = self._resource.type == PERSON
        if is_of_persons or self._has_related:
            yield from self._names(self._persons)
        if SERIAL in self._names(self._computers) and (self._has_related or not is_of_persons):
            yield SERIALS

    async def _person_part(self) -> AsyncGenerator[list[Row]]:
        async with self._snapshot.listing(self._persons, self._query).chunks() as chunks:
            async for records in chunks:
                async with aclosing(self._person_rows(records)) as parts:
                    async for rows in parts:
                        yield rows

    async def _computer_part(self, query: Query) -> AsyncGenerator[list[Row]]:
        async with self._snapshot.listing(self._computers, query).chunks() as chunks:
            async for records in chunks:
                yield await self._computer_rows(records)

    async def _person_rows(self, records: Sequence[Record]) -> AsyncGenerator[list[Row]]:
        """Yield the rows of persons, whose computers are read together if these are not too many.

        A person who has more computers alone gets several rows.
        """
        if not self._has_related:
            yield self._with_computers(records, ())
            return
        groups = [records]
        while groups:
            group = groups.pop()
            owned, page = self._owned(group)
            window = await owned.window(page)
            if window.more and len(group) > 1:
                middle = len(group) // 2
                groups += [group[middle:], group[:middle]]
                continue
            yield self._with_computers(group, window.records)
            while window.more:
                window = await owned.window(replace(page, position=window.last))
                rows = self._with_computers(group, window.records)
                yield [replace(row, continues=True) for row in rows]

    def _owned(self, persons: Sequence[Record]) -> tuple[Listing, CursorPage]:
        """Return the computers of persons, ordered by person, and their first page."""
        ids = tuple(record["_id"] for record in persons)
        order = (Key(self._foreign_key), *BY_ID)
        owners = Condition(self._foreign_key, Operator.IN, ids)
        query = Query(self._query.fields, order=order, filters=(owners,))
        page = CursorPage(MAX_COMPUTERS, Cursors(self._computers.type, order))
        return self._snapshot.listing(self._computers, query), page

    def _with_computers(self, records: Sequence[Record], owned: Sequence[Record]) -> list[Row]:
        computers: dict[int, list[Attributes]] = defaultdict(list)
        for record, each in zip(owned, self._attributes(self._computers, owned), strict=True):
            computers[record[self._foreign_key]].append(each)
        persons = self._attributes(self._persons, records)
        return [
            Row(person, computers.get(record["_id"], ()))
            for record, person in zip(records, persons, strict=True)
        ]

    async def _computer_rows(self, records: list[Record]) -> list[Row]:
        owners: dict[int | None, Attributes] = {}
        keys = [record.get(self._foreign_key) for record in records]
        if self._has_related:
            ids = {key for key in keys if key is not None}
            fields = frozenset(self._names(self._persons))
            found = await self._snapshot.read_by_ids(self._persons, ids, fields)
            for record, each in zip(found, self._attributes(self._persons, found), strict=True):
                owners[record["_id"]] = each
        computers = self._attributes(self._computers, records)
        return [
            Row(owners.get(key), [computer]) for key, computer in zip(keys, computers, strict=True)
        ]

    def _names(self, resource: ResourceType) -> list[str]:
        """Return the names of the attributes in the rows, in the order of their declaration."""
        return [name for name in resource.attributes if name in self._query.fields[resource.type]]

    def _attributes(self, resource: ResourceType, records: Sequence[Record]) -> list[Attributes]:
        """Return the attributes of each record, as in JSON."""
        names, computed = self._names(resource), resource.computed
        stored = [name for name in names if name not in computed]
        computations = {name: computed[name].compute for name in names if name in computed}
        return [
            {name: record.get(name) for name in stored}
            | {name: compute(record) for name, compute in computations.items()}
            for record in records
        ]
