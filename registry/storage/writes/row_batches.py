"""Batches of rows: a transaction for each, in which a row is stored, or invalid by itself."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from registry.jsonapi.changes import Change, Identifier, Linkage, Verb, Write
from registry.jsonapi.error_objects import ApiError, JsonPointer, RequestError, quoted
from registry.jsonapi.error_types import InvalidFile, ValueTaken
from registry.model.graph import Graph
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.rows.rows import InvalidRow, Mention, Row, RowError
from registry.storage.counters import NewIds
from registry.storage.mongo.transactions import Transaction
from registry.storage.records import is_same
from registry.storage.writes.identity_map import RecordKey
from registry.storage.writes.row_matches import RowMatches, value_of, values_of
from registry.storage.writes.row_memory import FIRST_DRY_ID, RowMemory
from registry.storage.writes.unit_of_work import UnitOfWork
from registry.storage.writes.write_requests import Outcome, WriteRequest, WriteResult

_ROWS_PER_TURN = 16
"""Rows that are applied before the event loop serves others: about 1 ms."""

_RELATED = 0
"""The line of a resource that a row has created, but that is not its own."""

_OWN = -1
"""The placeholder of a new resource of a row; those of related ones are below."""


class RowBatch(WriteRequest):
    """A request to write rows, in a transaction of its own.

    memory: of the import. refused: what MongoDB has refused before, by the index of a row. unit:
    that of the last transaction.
    """

    __slots__ = ("memory", "refused", "rows", "unit")

    unit: "RowUnit"

    def __init__(
        self,
        rows: Sequence[Row],
        memory: RowMemory,
        author: str | None,
        refused: Mapping[int, RowError],
        *,
        rolls_back: bool,
    ) -> None:
        super().__init__((), None, author, rolls_back=rolls_back)
        self.rows, self.memory, self.refused = rows, memory, refused
        self.is_alone = self.is_large = True


class _DryIds(NewIds):
    """Gives out ids that no resource has."""

    def __init__(self, transaction: Transaction, memory: RowMemory) -> None:
        super().__init__(transaction, None)
        self._memory = memory

    def load(self, *, holds: bool) -> None:
        """Leave the counters to others."""

    def take(self, _: str) -> int:
        """Return an id for a resource of any type."""
        return next(self._memory.new_ids)


class RowUnit(UnitOfWork):
    """The unit of work of a batch of rows, whose `run` applies each row as a request of its own.

    A row has only errors of its own: what MongoDB alone refuses is raised, as UnitOfWork does.
    errors: of the rows, by index. effects: how many resources were `created`, `updated` or
    `unchanged`, with their type.
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
        self._batch, self._memory, self._is_alone = batch, batch.memory, True
        self._matches = RowMatches(self._records, self._unique)
        self._lines: dict[RecordKey, int] = {}
        self._results: list[WriteResult] = []
        self.errors: dict[int, Sequence[RowError]] = {}
        self.effects = Counter[tuple[str, str]]()
        if batch.rolls_back:
            self._records.new_ids = _DryIds(transaction, self._memory)

    async def run(self, requests: Sequence[WriteRequest]) -> list[Outcome]:
        """Apply the rows, and store the result; return all results.

        Raises InvalidFile, or as UnitOfWork.
        """
        await self._transaction.run(partial(self._load, requests))
        if self._batch.rolls_back:
            self._recall()
        for index, row in enumerate(self._batch.rows):
            if index % _ROWS_PER_TURN == 0:
                await asyncio.sleep(0)
            self._results += self._apply_row(index, row)
        store = partial(self._store, requests, [self._results])
        await self._transaction.run(store, commits=not self._batch.rolls_back)
        return [self._results]

    def _load(self, requests: Sequence[WriteRequest]) -> None:
        batch = self._batch
        mentions = [mention for row in batch.rows for mention in row.mentions]
        matching = self._matches.load(self._transaction, mentions)
        batch.writes = [
            *(_needing(each.resource, each.stored("id"), each.loaded) for each in mentions),
            *(
                _needing(self._graph[name], id_, {})
                for name, ids in matching.items()
                for id_ in ids
            ),
        ]
        batch.changes_links = any(row.links for row in batch.rows)
        super()._load(requests)

    def remember(self) -> None:
        """Remember what later batches depend on, when the transaction has ended."""
        self._memory.add_lines(self._lines)
        for result in self._results if self._batch.rolls_back else ():
            if result.is_changed:
                self._memory.add_record(result.write.resource.type, result.record)

    def _recall(self) -> None:
        """Add the records that earlier rows of a dry run have changed."""
        memory, keys = self._memory, dict.fromkeys(self._records)
        for mention in (mention for row in self._batch.rows for mention in row.mentions):
            resource = mention.resource
            for names in {mention.key, *((name,) for name in resource.unique)} - {("id",)}:
                values = values_of(mention, names)
                if any(value is not None for value in values):
                    ids = memory.ids((resource.type, names), values)
                    keys |= dict.fromkeys((resource.type, id_) for id_ in ids)
        for type_name, record in memory.records(keys):
            self._records.add(type_name, [record])
            self._matches.add(self._graph[type_name], record)
            self._unique.update(self._graph[type_name], record)

    def _apply_row(self, index: int, row: Row) -> Sequence[WriteResult]:
        """Apply a row, or nothing of it; return the results. Raises InvalidFile."""
        self._records.savepoint(self._batch.author)
        self._set_unique.clear()  # no row changes a resource of an earlier one
        try:
            if index in self._batch.refused:
                raise InvalidRow(self._batch.refused[index])
            writes = self._writes(index, row)
            results = self._apply_part(writes, {})
            self._add_history(changes_links=bool(row.links))
        except InvalidFile:
            raise
        except InvalidRow as invalid:
            self.errors[index] = invalid.errors
        except RequestError as error:
            self.errors[index] = [_row_error(each, row) for each in error.errors]
        else:
            self._count(row, results)
            return results
        self._records.undo()
        return ()

    def _count(self, row: Row, results: Sequence[WriteResult]) -> None:
        """Count what a row has changed, for the report and for later rows."""
        for result in results:
            resource = result.write.resource
            is_new, is_own = result.write.verb is Verb.ADD, result is results[-1]
            self._matches.add(resource, result.record)
            if is_own or is_new:
                self._lines[resource.type, result.record[ID]] = row.line if is_own else _RELATED
                effect = "created" if is_new else "updated" if result.is_changed else "unchanged"
                self.effects[effect, resource.type] += 1

    def _writes(self, index: int, row: Row) -> list[Write]:
        """Return the writes for a row: of related resources first. Raises InvalidRow."""
        own, writes, linkages = row.own, list[Write](), list[Linkage]()
        record = self._matches.find(own)
        if record is not None:
            self._check_repetition(row, record)
        position = JsonPointer(f"/{index}")
        for name, linked in row.links.items():
            targets: tuple[Identifier, ...] = ()
            if linked is not None:
                target = self._matches.find(linked)
                if target is None:
                    _check_creation(linked)
                    writes.append(_addition(linked, _OWN - 1 - len(writes), position / name))
                    targets = (writes[-1].target,)
                else:
                    self._check_agreement(linked, target)
                    targets = (_identifier(target[ID]),)
            linkages.append(Linkage(own.resource.to_one[name], targets))
        if record is None:
            writes.append(_addition(own, _OWN, position, linkages))
        else:
            # A key has found the resource, perhaps without regard to case.
            attributes = {name: value for name, value in own.loaded.items() if name not in own.key}
            change = Change(attributes, tuple(linkages))
            target_id = _identifier(record[ID])
            writes.append(Write(Verb.UPDATE, own.resource, target_id, change, position=position))
        return writes

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
                raise InvalidRow(own.error(detail, names[0]))
            return
        if line == _RELATED:
            return
        origin = f"line {line}" if line else f"what is stored, the `{resource.type}` {id_}"
        raise InvalidFile(
            f"Line {row.line} repeats {origin}. Name what tells {resource.collection} apart by "
            f"`rows[key]`, one or more of {quoted(*own.sent)}, so that nothing is stored twice; or "
            "create a new resource from each row by `rows[create]=true`."
        )

    def _check_agreement(self, linked: Mention, record: Record) -> None:
        """Raise InvalidRow if a row says something else of a related resource than its record."""
        resource, id_, errors = linked.resource, record[ID], list[RowError]()
        for name, value in {**linked.loaded, **linked.fixed}.items():
            if name not in linked.key and not is_same(value, value_of(resource, name, record)):
                shown = resource.json_value(name, record)
                is_earlier = (resource.type, id_) in self._lines or id_ >= FIRST_DRY_ID
                origin = "of an earlier row" if is_earlier else str(id_)
                has = "no value" if shown is None else quoted(str(shown))
                errors.append(linked.error(f"The `{resource.type}` {origin} has {has}.", name))
        if errors:
            raise InvalidRow(*errors)


def _needing(resource: ResourceType, id_: int | None, attributes: dict[str, Any]) -> Write:
    """Return a write that needs the records which a row needs, by its id and unique values."""
    return Write(Verb.ADD, resource, _identifier(id_ or _OWN), Change(attributes, ()))


def _identifier(id_: int) -> Identifier:
    return Identifier(id_, "", None)


def _addition(
    mention: Mention, placeholder: int, position: JsonPointer, linkages: Sequence[Linkage] = ()
) -> Write:
    """Return the write that creates a mentioned resource. Raises InvalidRow."""
    change = Change(mention.complete(), tuple(linkages))
    target = _identifier(placeholder)
    return Write(Verb.ADD, mention.resource, target, change, position=position)


def _check_creation(linked: Mention) -> None:
    """Raise InvalidRow if the columns that are there do not create a related resource."""
    resource, link = linked.resource, linked.link
    missing = [
        f"{link}.{name}"
        for name, attribute in resource.writable.items()
        if attribute.required and name not in linked.sent
    ]
    if missing or linked.fixed:
        needed = f"needs {quoted(*missing)}" if missing else "must not have read-only columns"
        detail = f"There is no `{resource.type}` with this {quoted(*linked.key)}."
        detail = f"{detail} To create one, the row {needed}."
        raise InvalidRow(linked.error(detail, linked.key[0]))


def _row_error(error: ApiError, row: Row) -> RowError:
    """Return an error of a row. Its pointer has the index of the row, the link and the name."""
    match (error.pointer or "").split("/"):
        case ["", _, "attributes", name]:
            return row.own.error(error, name)
        case ["", _, link, "attributes", name] if linked := row.links.get(link):
            return linked.error(error, name)
    return RowError(error)


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

    async def write(self, rows: Sequence[Row]) -> Mapping[tuple[str, str], int]:
        """Store the rows that are valid, and add their errors to the others.

        Returns how many resources were `created`, `updated` or `unchanged`, with their type. Raises
        InvalidFile, or as Repository.write; then nothing of these rows is stored.
        """
        refused: dict[int, RowError] = {}
        while True:
            batch = RowBatch(rows, self._memory, self._author, refused, rolls_back=self._rolls_back)
            try:
                await self._run(batch, not self._has_begun)
                break
            except ValueTaken as error:
                # Only the index could know it. The other rows are not affected.
                index = int((error.pointer or "/0").split("/")[1])
                if index in refused:
                    raise
                refused[index] = _row_error(error, rows[index])
        self._has_begun = True
        batch.unit.remember()
        for index, errors in batch.unit.errors.items():
            rows[index].errors += errors
        return batch.unit.effects
