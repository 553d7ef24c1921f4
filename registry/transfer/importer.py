"""The import of rows through the service, in batches."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from registry.jsonapi.operation_documents import MAX_OPERATIONS
from registry.transfer.client import Client, Document, OperationsRejected
from registry.transfer.ledger import Ledger
from registry.transfer.lookups import ResourceKey, find_stored
from registry.transfer.plans import ImportOptions, Keys, Plan
from registry.transfer.progress import Tally
from registry.transfer.rows import ID, LID, InvalidFile, InvalidRow, Row, Values, to_one

_MAX_ROWS = 900
"""Rows per request, which have an operation each, and more if they create targets."""

_MAX_SIZE = 2**18
"""Characters per request, in the file: in JSON at most 1 MiB, what the service takes."""

_NEVER_STORED = str(2**63 - 1)


@dataclass(slots=True)
class _Batch:
    """Successive rows. wanted: the values of all their keys. found: the resources of these."""

    rows: list[Row] = field(default_factory=list)
    invalid: list[InvalidRow] = field(default_factory=list)
    wanted: dict[ResourceKey, Values] = field(default_factory=dict)
    found: dict[ResourceKey, list[Document]] = field(default_factory=dict)


class Importer:
    """Imports rows; the rows that the service rejects are reported, all others stored."""

    def __init__(
        self, client: Client, options: ImportOptions, tally: Tally, ledger: Ledger
    ) -> None:
        self.tally = tally
        self.ledger = ledger
        self._client = client
        self._graph = tally.graph
        self._options = options
        self._keys = Keys(tally.graph, options)

    async def run(self, rows: Iterator[Row | InvalidRow]) -> AsyncGenerator[list[InvalidRow]]:
        """Import the rows that the ledger has not; yield the invalid ones of each batch, in order.

        The rows of the next batch are read and looked up while the service stores those of one.
        Raises TransferError, InvalidFile, or OSError if reading a row does.
        """
        done = self.ledger.get(["line"]).get("line", 0)
        batches = _batches(row for row in rows if row.line > done)
        ahead = asyncio.create_task(self._prepare(batches))
        try:
            while batch := await ahead:
                ahead = asyncio.create_task(self._prepare(batches))
                await self._import(batch)
                yield sorted(batch.invalid, key=lambda each: each.line)
        finally:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)

    async def _prepare(self, batches: Iterator[_Batch]) -> _Batch | None:
        """Read a batch, and find what is stored of it."""
        batch = await asyncio.to_thread(next, batches, None)
        if batch is None:
            return None
        if not self._options.creates:
            self._remove_repeated(batch)
        for row in batch.rows:
            if key := self._keys.of(row):
                batch.wanted[key] = {**row.values, ID: row.id}
            for name, link in row.links.items():
                if link and (key := self._keys.of_link(row, name)):
                    batch.wanted[key] = link
        batch.found = await find_stored(self._client, self._graph, batch.wanted)
        return batch

    def _remove_repeated(self, batch: _Batch) -> None:
        """Move the rows that mean the same resource as an earlier one to the invalid ones."""
        keyed = [(row, key) for row in batch.rows if (key := self._keys.of(row))]
        lines = self.ledger.get(("row", *key) for _, key in keyed)
        new: dict[Any, int] = {}
        repeated = set[int]()
        for row, key in keyed:
            earlier = lines.get(("row", *key)) or new.setdefault(("row", *key), row.line)
            if earlier == row.line:
                continue
            if self._keys.is_missing(row):
                raise self._repeated(row, f"repeats line {earlier}")
            repeated.add(row.line)
            reason = f"repeats line {earlier}: the same {', '.join(key[1])}"
            batch.invalid.append(InvalidRow(row.line, (key[1][0], reason)))
        batch.rows = [row for row in batch.rows if row.line not in repeated]
        self.ledger.put(new)

    def _repeated(self, row: Row, what: str) -> InvalidFile:
        names = ", ".join(row.values) or "none"
        return InvalidFile(
            f"line {row.line} {what}. Name what tells {self._graph[row.type].collection} apart "
            f"with --key, one or more of {names}, so that nothing is stored twice; or use --create "
            "to create a new resource of each row"
        )

    async def _import(self, batch: _Batch) -> None:
        # What the batch before has created after this one was looked up.
        missing = [("new", *key) for key in batch.wanted if key not in batch.found]
        for (_, *key), document in self.ledger.get(missing).items():
            batch.found[tuple(key)] = [document]
        for row in batch.rows:
            key = self._keys.of(row)
            if key in batch.found and self._keys.is_missing(row):
                id_ = batch.found[key][0][ID]
                raise self._repeated(row, f"repeats what is stored, {row.type} {id_}")
        lines = [row.line for row in batch.rows] + [each.line for each in batch.invalid]
        await self._store(batch, batch.rows)
        self.tally.rows += len(lines)
        self.tally.invalid_rows += len(batch.invalid)
        self.ledger.put({"line": max(lines)})
        self.ledger.commit()

    async def _store(self, batch: _Batch, rows: Sequence[Row]) -> None:
        """Store rows in one request, or in several if these are too many or one is rejected."""
        plan = Plan(self._graph, self._options, batch.found, self._labels(rows))
        for row in rows:
            try:
                plan.add(row)
            except InvalidRow as invalid:
                batch.invalid.append(invalid)
        rejected: Mapping[int, InvalidRow] = {}
        try:
            if len(plan.operations) < MAX_OPERATIONS:
                self._remember(plan, batch, await self._execute(plan))
                return
        except OperationsRejected as error:
            rejected = _invalid_rows(plan, error)
            batch.invalid += rejected.values()
        rest = [row for row in plan.rows if row.line not in rejected]
        # Halved, as the errors of a response are not always all of them.
        middle = len(rest) // 2
        for part in (rest[:middle], rest[middle:]):
            if part:
                await self._store(batch, part)

    async def _execute(self, plan: Plan) -> list[str | None]:
        """Return the ids of what the operations create or change; None for those of a dry run."""
        if not plan.operations:
            return []
        if not self._options.is_dry:
            key = f"{self.ledger.source}-{plan.rows[0].line}-{plan.rows[-1].line}"
            results = await self._client.execute(plan.operations, key)
            return [result["data"][ID] for result in results]
        # The last operation fails, so that the service undoes all before.
        failing = {"type": plan.rows[0].type, ID: _NEVER_STORED, "attributes": {}}
        try:
            await self._client.execute([*plan.operations, {"op": "update", "data": failing}])
        except OperationsRejected as error:
            if [index for index, _, _ in error.rejections] != [len(plan.operations)]:
                raise
        return [None] * len(plan.operations)

    def _labels(self, rows: Sequence[Row]) -> dict[Any, str]:
        """Return the stored ids of the earlier rows that these are linked to, by label."""
        return self.ledger.get(
            (to_one(self._graph[row.type])[name].target, kind, link[kind])
            for row in rows
            for name, link in row.links.items()
            for kind in (ID, LID)
            if link and kind in link
        )

    def _remember(self, plan: Plan, batch: _Batch, ids: Sequence[str | None]) -> None:
        """Count what is stored, and remember it for later rows."""
        self.tally.counts.update(plan.effects)
        remembered: dict[Any, Any] = {}
        for key, (index, values) in plan.new_targets.items():
            complete = dict.fromkeys(self._graph[key[0]].readable) | values
            batch.found[key] = [{ID: ids[index], "attributes": complete}]
            remembered["new", *key] = batch.found[key][0]
        for row, target in plan.ids:
            id_ = ids[target] if isinstance(target, int) else target
            if row.lid is not None:
                remembered[row.type, LID, row.lid] = id_
            if row.id is not None and row.type in self._options.labels:
                remembered[row.type, ID, row.id] = id_
        self.ledger.put(remembered)


def _invalid_rows(plan: Plan, error: OperationsRejected) -> dict[int, InvalidRow]:
    """Return the rows whose operations are rejected by line; none if it is unknown which."""
    defects: defaultdict[int, list[tuple[str | None, str]]] = defaultdict(list)
    for index, member, reason in error.rejections:
        if index is None and len(plan.rows) > 1:
            continue
        row, prefix = plan.origins[min(index or 0, len(plan.origins) - 1)]
        column = f"{prefix}{member or ''}".rstrip(".")
        defects[row.line].append((column or None, reason))
    return {line: InvalidRow(line, *each) for line, each in defects.items()}


def _batches(rows: Iterator[Row | InvalidRow]) -> Iterator[_Batch]:
    batch, count, size = _Batch(), 0, 0
    for row in rows:
        more = row.size if isinstance(row, Row) else 0
        if count and (count == _MAX_ROWS or size + more > _MAX_SIZE):
            yield batch
            batch, count, size = _Batch(), 0, 0
        count, size = count + 1, size + more
        if isinstance(row, Row):
            batch.rows.append(row)
        else:
            batch.invalid.append(row)
    if count:
        yield batch
