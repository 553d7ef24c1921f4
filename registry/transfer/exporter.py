"""The export of a snapshot: persons with their computers, or computers with their owner."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from registry.jsonapi.filtering import Condition
from registry.jsonapi.query import Query
from registry.model.attributes import Operator
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.snapshot import Snapshot
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


class Exporter:
    """Exports resources of a snapshot as rows, in constant memory.

    resource: persons with their computers, or computers with their owner. query: the filters and
    the order of these, and their fields, by default DEFAULT_FIELDS. Without the relationship among
    the fields, rows have no related resources.
    """

    def __init__(self, snapshot: Snapshot, resource: Resource, query: Query, graph: Graph) -> None:
        self._snapshot = snapshot
        self._resource = resource
        self._query = replace(query, fields={**DEFAULT_FIELDS, **query.fields})
        self._persons, self._computers = graph[PERSON], graph[COMPUTER]
        self._key = self._computers.relationships[OWNER].foreign_key
        fields = self._query.fields[resource.type]
        self._has_related = not fields.isdisjoint(resource.relationships)
        self.columns = list(self._columns())
        """Those of a CSV file that shows what the rows have."""

    async def rows(self) -> AsyncGenerator[list[Row]]:
        """Yield the rows in the order of the query, in chunks.

        Without filters, computers without an owner follow the persons, one per row. Raises
        Unavailable, QueryTimeout or Overloaded.
        """
        is_of_persons = self._resource.type == PERSON
        render = self._person_rows if is_of_persons else self._computer_rows
        async for rows in self._listed(self._resource, self._query, render):
            yield rows
        if is_of_persons and self._has_related and not self._query.filters:
            has_no_owner = Condition(self._key, Operator.EQ, None)
            unowned = Query(self._query.fields, filters=(has_no_owner,))
            async for rows in self._listed(self._computers, unowned, self._computer_rows):
                yield rows

    def _columns(self) -> Iterator[str]:
        is_of_persons = self._resource.type == PERSON
        if is_of_persons or self._has_related:
            yield from self._names(self._persons)
        if SERIAL in self._names(self._computers) and (self._has_related or not is_of_persons):
            yield SERIALS

    async def _listed(
        self,
        resource: Resource,
        query: Query,
        render: Callable[[list[Record]], Awaitable[list[Row]]],
    ) -> AsyncGenerator[list[Row]]:
        async with self._snapshot.listing(resource, query).chunks() as chunks:
            async for records in chunks:
                yield await render(records)

    async def _person_rows(self, records: list[Record]) -> list[Row]:
        computers: dict[int, list[Attributes]] = defaultdict(list)
        if self._has_related:
            ids, fields = [record["_id"] for record in records], self._names(self._computers)
            owned = await self._snapshot.find(self._computers, self._key, ids, frozenset(fields))
            for record, each in zip(owned, self._attributes(self._computers, owned), strict=True):
                computers[record[self._key]].append(each)
        persons = self._attributes(self._persons, records)
        return [
            Row(person, computers.get(record["_id"], ()))
            for record, person in zip(records, persons, strict=True)
        ]

    async def _computer_rows(self, records: list[Record]) -> list[Row]:
        owners: dict[int | None, Attributes] = {}
        if self._has_related:
            ids = {key for record in records if (key := record.get(self._key)) is not None}
            fields = frozenset(self._names(self._persons))
            found = await self._snapshot.find(self._persons, "_id", ids, fields)
            for record, each in zip(found, self._attributes(self._persons, found), strict=True):
                owners[record["_id"]] = each
        computers = self._attributes(self._computers, records)
        return [
            Row(owners.get(record.get(self._key)), [computer])
            for record, computer in zip(records, computers, strict=True)
        ]

    def _names(self, resource: Resource) -> list[str]:
        """Return the names of the attributes in the rows, in the order of their declaration."""
        return [name for name in resource.attributes if name in self._query.fields[resource.type]]

    def _attributes(self, resource: Resource, records: Sequence[Record]) -> list[Attributes]:
        """Return the attributes of each record, as in JSON."""
        names, computed = self._names(resource), resource.computed
        stored = [name for name in names if name not in computed]
        computations = {name: computed[name].compute for name in names if name in computed}
        return [
            {name: record.get(name) for name in stored}
            | {name: compute(record) for name, compute in computations.items()}
            for record in records
        ]
