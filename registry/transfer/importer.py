"""The import of rows through the service, in batches, several of which are in flight."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from registry.transfer.batches import NOT_CONTINUED, Batch, batches, is_large
from registry.transfer.client import Client, OperationsRejected, Rejection
from registry.transfer.large_rows import check_large, store_large
from registry.transfer.matching import keys_of, planner_for
from registry.transfer.operations import Operation, ResourceIdentifier, identifier
from registry.transfer.pipeline import pipelined
from registry.transfer.plans import PersonKey, Plan, Planner
from registry.transfer.rows import PERSON, InvalidRow, Row
from registry.transfer.tally import Tally

_Outcome: TypeAlias = ResourceIdentifier | InvalidRow | None
"""What has become of a row: its person, if it has one, or why it is not stored."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to import. is_matching: whether rows match stored resources. is_dry: store nothing."""

    is_matching: bool = False
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class BatchResult:
    """A batch that is imported.

    rows: how many, valid or not. invalid: the invalid ones, by line.
    """

    rows: int
    invalid: list[InvalidRow]


class Importer:
    """Imports rows; of a row that the service rejects, nothing stays stored."""

    def __init__(self, client: Client, tally: Tally, options: ImportOptions) -> None:
        self._client = client
        self._tally = tally
        self._options = options
        self._in_progress: list[tuple[set[PersonKey | str], asyncio.Event]] = []
        self._last_outcome: asyncio.Future[_Outcome] = asyncio.Future()

    async def run(self, rows: Iterator[Row | InvalidRow]) -> AsyncGenerator[BatchResult]:
        """Import the rows; yield the result of each batch, in their order.

        Raises TransferError, or InvalidFile or OSError if reading a row does.
        """
        async with aclosing(pipelined(batches(rows), self._store_batch)) as stored:
            async for result in stored:
                yield result

    async def _store_batch(self, batch: Batch) -> BatchResult:
        line = batch.first_line
        self._tally.lines_in_progress.add(line)
        outcomes = await self._store_in_turn(batch)
        rejected = [one for one in outcomes.values() if isinstance(one, InvalidRow)]
        invalid = sorted([*batch.invalid, *rejected], key=lambda each: each.line)
        self._tally.lines_in_progress.remove(line)
        self._tally.invalid_rows += len(invalid)
        return BatchResult(len(batch.rows) + len(batch.invalid), invalid)

    async def _store_in_turn(self, batch: Batch) -> Mapping[int, _Outcome]:
        """Store the valid rows after those they depend on; return the outcome of each by line."""
        before, last = self._last_outcome, asyncio.Future[_Outcome]()
        self._last_outcome = last
        outcomes: Mapping[int, _Outcome]
        try:
            async with self._turn(batch.rows):
                owner = await before if batch.continues else None
                if isinstance(owner, InvalidRow):
                    outcomes = {row.line: InvalidRow(row.line, NOT_CONTINUED) for row in batch.rows}
                else:
                    outcomes = await self._store(batch.rows, owner)
            last.set_result(outcomes[batch.rows[-1].line] if batch.rows else None)
        finally:
            last.cancel()  # unless it has a result: the next batch must not wait for it
        return outcomes

    @asynccontextmanager
    async def _turn(self, rows: Sequence[Row]) -> AsyncIterator[None]:
        """If rows match what is stored, wait for those in progress with a key in common with these.

        So they match what those create.
        """
        keys = {key for row in rows for key in keys_of(row)} if self._options.is_matching else set()
        earlier = [done for others, done in self._in_progress if not keys.isdisjoint(others)]
        done = asyncio.Event()
        self._in_progress.append((keys, done))
        try:
            for each in earlier:
                await each.wait()
            yield
        finally:
            self._in_progress.remove((keys, done))
            done.set()

    async def _store(
        self, rows: Sequence[Row], owner: ResourceIdentifier | None = None
    ) -> Mapping[int, _Outcome]:
        """Store rows in one request, or in several if it is rejected.

        owner: the person of a row that continues another one.
        """
        if not rows:
            return {}
        planner = await self._planner(rows)
        plans = [planner.plan(row, owner) for row in rows]
        try:
            last_person = await self._execute(plans)
        except OperationsRejected as error:
            invalid = _invalid_rows(plans, error.rejections)
            valid = [row for row in rows if row.line not in invalid]
            # Halved, as the errors of a response are not always all of them.
            middle = len(valid) // 2
            return {
                **invalid,
                **await self._store(valid[:middle]),
                **await self._store(valid[middle:]),
            }
        for plan in plans:
            self._tally.counts.update(plan.effects)
        return {**{plan.row.line: plan.person for plan in plans}, rows[-1].line: last_person}

    async def _planner(self, rows: Sequence[Row]) -> Planner:
        if not self._options.is_matching:
            return Planner()
        return await planner_for({key for row in rows for key in keys_of(row)}, self._client)

    async def _execute(self, plans: Sequence[Plan]) -> ResourceIdentifier | None:
        """Store what is planned; return the person of the last plan, as it is stored."""
        last, is_dry = plans[-1], self._options.is_dry
        # In a dry run, nobody has created the person that a row continues: only the others of its
        # resources can be checked.
        if is_large(last.row) or (is_dry and last.row.continues):
            await check_large(last, self._client)
            return last.person if is_dry else await store_large(last, self._client)
        operations = [one for plan in plans for one in plan.operations()]
        if not operations:
            return last.person
        results = await self._client.execute(operations, is_dry=is_dry)
        return _stored(last.person, operations, results)


def _stored(
    person: ResourceIdentifier | None,
    operations: Sequence[Operation],
    results: Sequence[Mapping[str, Any]],
) -> ResourceIdentifier | None:
    """Return a person, with the id if an operation has created it. results: none of a dry run."""
    if person is not None and "lid" in person:
        for operation, result in zip(operations, results, strict=False):
            if operation["op"] == "add" and person.items() <= operation["data"].items():
                return identifier(PERSON, result["data"]["id"])
    return person


def _invalid_rows(plans: Sequence[Plan], rejections: Sequence[Rejection]) -> dict[int, InvalidRow]:
    """Return the rows whose operations are rejected by line, each with all the reasons for it."""
    rows = [plan.row for plan in plans for _ in plan.operations()] if len(plans) > 1 else []
    reasons: dict[int, list[str]] = defaultdict(list)
    for rejection in rejections:
        if len(plans) == 1:
            reasons[plans[0].row.line].append(rejection.reason)
        elif rejection.index is not None:
            reasons[rows[rejection.index].line].append(rejection.reason)
    return {line: InvalidRow(line, "; ".join(each)) for line, each in reasons.items()}
