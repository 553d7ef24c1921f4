"""Batches of rows: a transaction for each, in which a row is stored, or invalid by itself."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from registry.jsonapi.changes import Change, Identifier, Linkage, Verb, Write
from registry.jsonapi.error_objects import ApiError, ErrorCollector, RequestError, quoted
from registry.jsonapi.error_types import InvalidFile, ValueTaken
from registry.model.graph import Graph
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.rows.rows import Mention, Row
from registry.storage.counters import NewIds
from registry.storage.mongo.transactions import Transaction
from registry.storage.records import is_same
from registry.storage.writes.identity_map import RecordKey
from registry.storage.writes.row_matches import FIRST_DRY_ID, RowMatches, RowMemory, value_of
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

    memory: of the import. refused: what MongoDB has refused before, by line. The last transaction
    sets the others. errors: of the rows, by line. effects: how many resources were `created`,
    `updated` or `unchanged`, with their type. lines: of these resources.
    """

    __slots__ = ("effects", "errors", "lines", "memory", "refused", "rows")

    errors: dict[int, Sequence[ApiError]]
    effects: Counter[tuple[str, str]]
    lines: dict[RecordKey, int]

    def __init__(
        self,
        rows: Sequence[Row],
        memory: RowMemory,
        author: str | None,
        refused: Mapping[int, ApiError],
        *,
        rolls_back: bool,
    ) -> None:
        super().__init__((), None, author, rolls_back=rolls_back)
        self.rows, self.memory, self.refused = rows, memory, refused
        self.is_alone = self.is_large = True

    @property
    def mentions(self) -> Sequence[Mention]:
        """What the rows say of resources."""
        return [mention for row in self.rows for mention in row.mentions]


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
    """

    def __init__(
        self,
        batch: RowBatch,
        transaction: Transaction,
        graph: Graph,
        last_ids: Mapping[str, int] | None,
    ) -> None:
        super().__init__(transaction, graph, last_ids)
        batch.errors, batch.effects, batch.lines = {}, Counter(), {}
        self._batch = batch
        self._is_alone = self._is_large = True
        self._matches = RowMatches(self._records, self._unique)
        if batch.rolls_back:
            self._records.new_ids = _DryIds(transaction, batch.memory)

    async def run(self, requests: Sequence[WriteRequest]) -> list[Outcome]:
        """Apply the rows, and store the result; return all results.

        Raises InvalidFile, or as UnitOfWork.
        """
        batch, results = self._batch, list[WriteResult]()
        await self._transaction.run(partial(self._load, requests))
        if batch.rolls_back:
            self._matches.recall(batch.memory, batch.mentions)
        for index, row in enumerate(batch.rows):
            if index % _ROWS_PER_TURN == 0:
                await asyncio.sleep(0)
            results += self._apply_row(row)
        store = partial(self._store, [results])
        await self._transaction.run(store, commits=not batch.rolls_back)
        return [results]

    def _load(self, requests: Sequence[WriteRequest]) -> None:
        batch, mentions = self._batch, self._batch.mentions
        batch.writes = [  # which need the same records as the rows
            *(
                _addition(each.resource, each.stored("id") or _OWN, each.loaded)
                for each in mentions
            ),
            *(
                _addition(resource, id_, {})
                for resource, id_ in self._matches.load(
                    self._transaction, mentions, batch.memory.changed
                )
            ),
        ]
        batch.changes_links = any(row.links for row in batch.rows)
        super()._load(requests)

    def _apply_row(self, row: Row) -> Sequence[WriteResult]:
        """Apply a row, or nothing of it; return the results. Raises InvalidFile."""
        batch = self._batch
        self._records.savepoint(batch.author)
        try:
            if row.line in batch.refused:
                raise batch.refused[row.line]
            results = self._apply_writes(self._writes(row), changes_links=bool(row.links))
        except InvalidFile:
            raise
        except RequestError as error:
            batch.errors[row.line] = error.errors
            self._records.undo()
            return ()
        for result in results:
            resource = result.write.resource
            is_new, is_own = result.write.verb is Verb.ADD, result is results[-1]
            self._matches.add(resource, result.record)
            if is_own or is_new:
                batch.lines[resource.type, result.record[ID]] = row.line if is_own else _RELATED
                effect = "created" if is_new else "updated" if result.is_changed else "unchanged"
                batch.effects[effect, resource.type] += 1
        return results

    def _writes(self, row: Row) -> list[Write]:
        """Return the writes for a row: of related resources first. Raises RequestError."""
        own, writes, linkages = row.own, list[Write](), list[Linkage]()
        record = self._matches.find(own)
        if record is not None:
            self._check_repetition(own, record)
        for name, linked in row.links.items():
            targets: tuple[Identifier, ...] = ()
            if linked is not None:
                target = self._matches.find(linked)
                if target is None:
                    _check_creation(linked)
                    writes.append(_creation(linked, _OWN - 1 - len(writes)))
                    targets = (writes[-1].target,)
                else:
                    self._check_agreement(linked, target)
                    targets = (_identifier(target[ID]),)
            linkages.append(Linkage(own.resource.to_one[name], targets))
        if record is None:
            writes.append(_creation(own, _OWN, linkages))
        else:
            # A key has found the resource, perhaps without regard to case.
            attributes = {name: value for name, value in own.loaded.items() if name not in own.key}
            change, target_id = Change(attributes, tuple(linkages)), _identifier(record[ID])
            writes.append(
                Write(Verb.UPDATE, own.resource, target_id, change, position=own.position)
            )
        return writes

    def _check_repetition(self, own: Mention, record: Record) -> None:
        """Raise InvalidField or InvalidFile if the resource of a row is that of an earlier one.

        Without a key, it must not be stored either.
        """
        resource, names, id_ = own.resource, own.key, record[ID]
        key = (resource.type, id_)
        line = self._batch.lines.get(key, self._batch.memory.line(key))
        if own.is_named:
            if line:
                detail = f"The row repeats line {line}: the same {quoted(*names)}."
                raise own.error(detail, names[0])
            return
        if line == _RELATED:
            return
        origin = f"line {line}" if line else f"what is stored, the `{resource.type}` {id_}"
        raise InvalidFile(
            f"Line {own.line} repeats {origin}. Name what tells {resource.collection} apart by "
            f"`rows[key]`, one or more of {quoted(*own.sent)}, so that nothing is stored twice; or "
            "create a new resource from each row by `rows[create]=true`."
        )

    def _check_agreement(self, linked: Mention, record: Record) -> None:
        """Raise RequestError if a row says something else of a related resource than its record."""
        resource, id_, errors = linked.resource, record[ID], ErrorCollector()
        for name, value in {**linked.loaded, **linked.fixed}.items():
            if name not in linked.key and not is_same(value, value_of(resource, name, record)):
                shown = resource.json_value(name, record)
                is_earlier = (resource.type, id_) in self._batch.lines or id_ >= FIRST_DRY_ID
                origin = "of an earlier row" if is_earlier else str(id_)
                has = "no value" if shown is None else quoted(str(shown))
                errors.add(linked.error(f"The `{resource.type}` {origin} has {has}.", name))
        errors.raise_any()


def _identifier(id_: int) -> Identifier:
    return Identifier(id_, "", None)


def _addition(resource: ResourceType, id_: int, attributes: dict[str, Any]) -> Write:
    return Write(Verb.ADD, resource, _identifier(id_), Change(attributes, ()))


def _creation(mention: Mention, placeholder: int, linkages: Sequence[Linkage] = ()) -> Write:
    """Return the write that creates a mentioned resource. Raises RequestError."""
    change, target = Change(mention.complete(), tuple(linkages)), _identifier(placeholder)
    return Write(Verb.ADD, mention.resource, target, change, position=mention.position)


def _check_creation(linked: Mention) -> None:
    """Raise InvalidField if the columns that are there do not create a related resource."""
    resource, link = linked.resource, linked.link
    missing = [
        f"{link}.{name}"
        for name, attribute in resource.writable.items()
        if attribute.required and name not in linked.sent
    ]
    if missing or linked.fixed:
        needed = f"needs {quoted(*missing)}" if missing else "must not have read-only columns"
        detail = f"There is no `{resource.type}` with this {quoted(*linked.key)}."
        raise linked.error(f"{detail} To create one, the row {needed}.", linked.key[0])


class RowImport:
    """Writes the rows of one file, batch by batch.

    run: executes a batch, which may be refused for overload if it is the first; raises as
    Repository.write. effects: how many resources were `created`, `updated` or `unchanged`, by type.
    """

    def __init__(
        self,
        run: Callable[[RowBatch, bool], Awaitable[Sequence[WriteResult]]],
        memory: RowMemory,
        author: str | None,
        *,
        rolls_back: bool,
    ) -> None:
        self._run, self._memory = run, memory
        self._author, self._rolls_back = author, rolls_back
        self._has_begun = False
        self.effects = {name: Counter[str]() for name in ("created", "updated", "unchanged")}

    async def write(self, rows: Sequence[Row]) -> Mapping[int, Sequence[ApiError]]:
        """Store the rows that are valid; return the errors of the others, by line.

        Their pointers are those of the Mentions. A transaction that has begun is completed even if
        the caller leaves. Raises InvalidFile, or as Repository.write; then nothing of these rows is
        stored.
        """
        refused: dict[int, ApiError] = {}
        while True:
            batch = RowBatch(rows, self._memory, self._author, refused, rolls_back=self._rolls_back)
            try:
                results = await self._run(batch, not self._has_begun)
                break
            except ValueTaken as error:
                # Only the index could know it. The other rows are not affected.
                line = int((error.pointer or "/0").split("/")[1])
                if line in refused:
                    raise
                refused[line] = error
        self._has_begun = True
        self._memory.add_lines(batch.lines)
        for result in results if self._rolls_back else ():
            if result.is_changed:
                self._memory.add_record(result.write.resource.type, result.record)
        for (effect, type_name), number in batch.effects.items():
            self.effects[effect][type_name] += number
        return batch.errors
