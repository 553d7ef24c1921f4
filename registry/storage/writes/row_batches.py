"""Batches of rows: a transaction for each, in which a row is stored, or invalid by itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from registry.jsonapi.changes import Change, Identifier, Linkage, Verb, Write
from registry.jsonapi.error_objects import JsonPointer, RequestError, quoted
from registry.jsonapi.error_types import (
    InvalidField,
    InvalidFile,
    NotFound,
    ValueTaken,
)
from registry.model.graph import Graph
from registry.model.record import ID, Record
from registry.rows.row_reader import Mention, Row
from registry.storage.counters import NewIds
from registry.storage.mongo.transactions import Transaction
from registry.storage.records import is_same
from registry.storage.writes.identity_map import RecordKey
from registry.storage.writes.row_matches import RowMatches, value_of, values_of
from registry.storage.writes.row_memory import FIRST_DRY_ID, RowMemory
from registry.storage.writes.row_writes import (
    NEW,
    InvalidPart,
    InvalidRow,
    check_creation,
    complete,
    identifier_of,
    is_unique,
    needed_by,
    place_of,
)
from registry.storage.writes.unit_of_work import UnitOfWork
from registry.storage.writes.write_requests import Outcome, WriteRequest, WriteResult

_ROWS_PER_TURN = 16
"""Rows that are applied before the event loop serves others: about 1 ms."""

_RELATED = 0
"""The line of a resource that a row has created, but that is not its own."""


class RowOutcome(NamedTuple):
    """What becomes of a row: it is invalid, or has effects such as `created` on some types."""

    invalid: Sequence[InvalidPart] = ()
    effects: Sequence[tuple[str, str]] = ()


class RowBatch(WriteRequest):
    """A request to write rows, in a transaction of its own.

    memory: of the import. refused: what MongoDB has refused before, by the index of a row. unit:
    that of the last transaction, whose outcomes are those of the rows.
    """

    __slots__ = ("memory", "refused", "rows", "unit")

    unit: "RowUnit"

    def __init__(
        self,
        rows: Sequence[Row],
        memory: RowMemory,
        author: str | None,
        refused: Mapping[int, InvalidPart],
        *,
        rolls_back: bool,
    ) -> None:
        super().__init__((), None, author, rolls_back=rolls_back)
        self.rows, self.memory, self.refused = rows, memory, refused
        self.is_alone, self.size = True, len(rows)


class _DryIds(NewIds):
    """Gives out ids that no resource has."""

    def __init__(self, transaction: Transaction, memory: RowMemory) -> None:
        super().__init__(transaction, None)
        self._memory = memory

    def take(self, type_name: str) -> int:
        return self._memory.new_id(type_name)


class RowUnit(UnitOfWork):
    """The unit of work of a batch of rows, whose `run` applies each row as a request of its own.

    A row has only errors of its own: what MongoDB alone refuses is raised, as UnitOfWork does.
    outcomes: of the rows.
    """

    def __init__(
        self,
        batch: RowBatch,
        transaction: Transaction,
        graph: Graph,
        last_ids: Mapping[str, int] | None,
    ) -> None:
        super().__init__(transaction, graph, last_ids)
        batch.unit = self
        self._batch, self._memory = batch, batch.memory
        self._matches = RowMatches()
        self._lines: dict[RecordKey, int] = {}
        self.outcomes: list[RowOutcome] = []

    async def run(self, requests: Sequence[WriteRequest]) -> list[Outcome]:
        """Apply the rows, and store the result unless it is rolled back; return all results.

        Raises InvalidFile, or as UnitOfWork.
        """
        batch, self._is_alone = self._batch, True
        batch.writes = await self._find_all()
        batch.changes_links = any(write.changes_links for write in batch.writes)
        await self._load(requests)
        if batch.rolls_back:
            self.new_ids = _DryIds(self._transaction, self._memory)
            self._recall()
        results = list[WriteResult]()
        for index, row in enumerate(batch.rows):
            if index % _ROWS_PER_TURN == 0:
                await asyncio.sleep(0)
            results += await self._apply_row(index, row)
        if not batch.rolls_back:
            await self._store(requests, [results])
        return [results]

    def remember(self) -> None:
        """Remember what later batches depend on, when the transaction has ended."""
        self._memory.add_lines(self._lines)
        if self._batch.rolls_back:
            changes = self._records.take_changes()
            for resource in self._graph.writable:
                for change in changes.get(resource.type, ()):
                    if change.after:
                        self._memory.add_record(resource.type, change.after)

    async def _find_all(self) -> list[Write]:
        """Find the records that rows mean; return writes that need the same ones as the rows."""
        rows = self._batch.rows
        mentions = [mention for row in rows for mention in row.mentions]
        matched = [
            mention
            for mention in mentions
            if mention.key and mention.key != ("id",) and not is_unique(mention)
        ]
        writes = [needed_by(row) for row in rows]
        writes += [
            Write(Verb.ADD, mention.resource, identifier_of(NEW), Change(mention.loaded, ()))
            for mention in mentions
            if mention.relationship and mention.loaded
        ]
        writes += [
            Write(Verb.UPDATE, self._graph[type_name], identifier_of(id_), Change({}, ()))
            for type_name, ids in (await self._matches.load(self._transaction, matched)).items()
            for id_ in ids
        ]
        return writes

    def _recall(self) -> None:
        """Add the records that earlier rows of a dry run have changed."""
        memory, records = self._memory, self._records
        keys = dict.fromkeys(records)
        for row in self._batch.rows:
            for mention in row.mentions:
                resource = mention.resource
                shapes = {mention.key, *((name,) for name in resource.unique)} - {("id",)}
                for names in shapes:
                    values = values_of(mention, names)
                    if any(value is not None for value in values):
                        for id_ in memory.ids((resource.type, names), values):
                            keys[resource.type, id_] = None
        for type_name, record in memory.records(keys):
            records.add(type_name, [record])
            self._matches.add(self._graph[type_name], record)
            self._unique.update(self._graph[type_name], record)

    async def _apply_row(self, index: int, row: Row) -> list[WriteResult]:
        """Apply a row, or nothing of it; return the results. Raises InvalidFile."""
        self._records.savepoint(self._batch.author)
        self.new_ids.savepoint()
        self._set_unique.clear()  # by the rows before, each of other resources
        try:
            if index in self._batch.refused:
                raise InvalidRow([self._batch.refused[index]])
            writes = self._writes(index, row)
            results = self._apply_part(writes, {})
            await self._add_history(changes_links=any(write.changes_links for write in writes))
        except InvalidFile:
            raise
        except InvalidRow as error:
            self.outcomes.append(RowOutcome(error.invalid))
        except RequestError as error:
            self.outcomes.append(RowOutcome([place_of(each)[1] for each in error.errors]))
        else:
            for result in results:
                resource, id_ = result.write.resource, result.record[ID]
                self._matches.add(resource, result.record)
                if result.write.verb is Verb.ADD:
                    self._lines[resource.type, id_] = _RELATED
            self._lines[row.own.resource.type, results[-1].record[ID]] = row.line
            effects = [(_effect(result), result.write.resource.type) for result in results]
            self.outcomes.append(RowOutcome((), effects))
            return results
        self._records.undo()
        self.new_ids.undo()
        return []

    def _writes(self, index: int, row: Row) -> list[Write]:
        """Return the writes for a row: of related resources first. Raises InvalidRow."""
        own, writes = row.own, list[Write]()
        record = self._find(own)
        if record is not None:
            self._check_repetition(row, record)
        linkages = list[Linkage]()
        for name, linked in row.links.items():
            relationship = own.resource.to_one[name]
            if linked is not None:
                target = self._target(index, linked, writes)
                linkages.append(Linkage(relationship, (target,)))
            elif record is not None:
                linkages.append(Linkage(relationship, ()))
        position = JsonPointer(f"/{index}")
        if record is None:
            attributes = complete(own, position)
            change = Change(attributes, tuple(linkages))
            target = Identifier(NEW, "", None)
            writes.append(Write(Verb.ADD, own.resource, target, change, position=position))
        else:
            # A key has found the resource, perhaps without regard to case.
            attributes = {name: value for name, value in own.loaded.items() if name not in own.key}
            change = Change(attributes, tuple(linkages))
            target = identifier_of(record[ID])
            writes.append(Write(Verb.UPDATE, own.resource, target, change, position=position))
        return writes

    def _find(self, mention: Mention) -> Record | None:
        """Return the record that is mentioned, None for a new one. Raises InvalidRow."""
        resource, names, records = mention.resource, mention.key, self._records
        if not names:
            return None
        if names == ("id",):
            record = records.get((resource.type, mention.stored("id")))
            if record is None:
                detail = (
                    f"There is no `{resource.type}` with the id {quoted(mention.id or '')}. Ids of "
                    "another registry do not count here: leave the column out, or name a key."
                )
                raise InvalidRow([InvalidPart(NotFound(detail), mention.link, "id")])
            return record
        if is_unique(mention):
            id_ = self._unique.holder(resource, names[0], mention.stored(names[0]))
            return None if id_ is None else records.get((resource.type, id_))
        ids, count = self._matches.find(mention, records)
        if count > 1:
            shown = ", ".join(map(str, ids))
            detail = f"This is ambiguous: {count} {resource.collection} match, such as {shown}."
            raise InvalidRow([InvalidPart(InvalidField(detail), mention.link, names[0])])
        return records.get((resource.type, ids[0])) if ids else None

    def _check_repetition(self, row: Row, record: Record) -> None:
        """Raise InvalidRow or InvalidFile if the resource of a row is that of an earlier one.

        Without a key, it must not be stored either.
        """
        own, id_ = row.own, record[ID]
        resource, names = own.resource, own.key
        key = (resource.type, id_)
        line = self._lines.get(key, self._memory.line(key))
        if own.is_named:
            if line:
                detail = f"The row repeats line {line}: the same {quoted(*names)}."
                raise InvalidRow([InvalidPart(InvalidField(detail), None, names[0])])
            return
        if line == _RELATED:
            return
        origin = f"line {line}" if line else f"what is stored, the `{resource.type}` {id_}"
        raise InvalidFile(
            f"Line {row.line} repeats {origin}. Name what tells {resource.collection} apart by "
            f"`rows[key]`, one or more of {quoted(*own.sent)}, so that nothing is stored twice; or "
            "create a new resource from each row by `rows[create]=true`."
        )

    def _target(self, index: int, linked: Mention, writes: list[Write]) -> Identifier:
        """Return the related resource; add the write that creates it. Raises InvalidRow."""
        record, link, resource = self._find(linked), linked.link, linked.resource
        if record is None:
            placeholder = Identifier(NEW - 1 - len(writes), "", None)
            check_creation(linked)
            position = JsonPointer(f"/{index}/{link}")
            change = Change(complete(linked, position), ())
            writes.append(Write(Verb.ADD, resource, placeholder, change, position=position))
            return placeholder
        invalid = list[InvalidPart]()
        for name, value in {**linked.loaded, **linked.fixed}.items():
            other = value_of(resource, name, record)
            if name not in linked.key and not is_same(value, other):
                shown = resource.json_value(name, record)
                key = (resource.type, record[ID])
                origin = f"`{resource.type}` {record[ID]}"
                if key in self._lines or record[ID] >= FIRST_DRY_ID:
                    origin = f"`{resource.type}` of an earlier row"
                detail = f"The {origin} has {'no value' if shown is None else quoted(str(shown))}."
                invalid.append(InvalidPart(InvalidField(detail), link, name))
        if invalid:
            raise InvalidRow(invalid)
        return identifier_of(record[ID])


def _effect(result: WriteResult) -> str:
    if result.write.verb is Verb.ADD:
        return "created"
    return "updated" if result.is_changed else "unchanged"


class RowImport:
    """Writes the rows of one file, batch by batch.

    run: executes a batch, which may be refused for overload if it is the first; raises as
    Repository.write.
    """

    def __init__(
        self,
        run: Callable[[RowBatch, bool], Awaitable[object]],
        memory: RowMemory,
        author: str | None,
        *,
        rolls_back: bool,
    ) -> None:
        self._run, self._memory = run, memory
        self._author, self._rolls_back = author, rolls_back
        self._has_begun = False

    async def write(self, rows: Sequence[Row]) -> list[RowOutcome]:
        """Store the rows that are valid; return what becomes of each.

        Raises InvalidFile, or as Repository.write; then nothing of these rows is stored.
        """
        refused: dict[int, InvalidPart] = {}
        while True:
            batch = RowBatch(rows, self._memory, self._author, refused, rolls_back=self._rolls_back)
            try:
                await self._run(batch, not self._has_begun)
                self._has_begun = True
            except ValueTaken as error:
                # Only the index could know it. The other rows are not affected.
                index, part = place_of(error)
                if index in refused:
                    raise
                refused[index] = part
                continue
            batch.unit.remember()
            return batch.unit.outcomes
