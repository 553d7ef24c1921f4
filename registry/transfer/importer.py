"""The import of rows through the service: batches of them, several in flight, none half stored."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from registry.transfer.batches import Batch, batches, is_large
from registry.transfer.client import Client, OperationsRejected, Rejection
from registry.transfer.matching import keys_of, planner_for
from registry.transfer.operations import (
    ResourceIdentifier,
    add_computer,
    identifier,
    remove_computer,
)
from registry.transfer.pipeline import pipelined
from registry.transfer.plans import PersonKey, Plan, Planner
from registry.transfer.rows import COMPUTER, InvalidRow, Row, counted
from registry.transfer.tally import Tally

_Item = TypeVar("_Item")

_MAX_COMPUTERS = 20_000
"""Computers of a row: one request links all of them to the person."""

_PART = 500
"""Operations per request for a row that is too large for one: of any length of the serials."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to import. is_matching: whether rows match stored resources. is_dry: store nothing."""

    is_matching: bool = False
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class BatchResult:
    """A batch that is imported. rows: how many, valid or not. invalid: those, by line."""

    rows: int
    invalid: list[InvalidRow]


class Importer:
    """Imports rows; a row is stored as a whole or not at all.

    A row that is too large for one request is stored in several, its person last: if the last ones
    fail, the computers are deleted again.
    """

    def __init__(self, client: Client, tally: Tally, options: ImportOptions) -> None:
        self._client = client
        self._tally = tally
        self._options = options
        self._in_progress: list[tuple[set[PersonKey | str], asyncio.Event]] = []

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
        store = self._store_in_turn if self._options.is_matching else self._store
        invalid = [*batch.invalid, *await store(batch.rows)]
        self._tally.lines_in_progress.remove(line)
        self._tally.invalid_rows += len(invalid)
        rows = len(batch.rows) + len(batch.invalid)
        return BatchResult(rows, sorted(invalid, key=lambda each: each.line))

    async def _store_in_turn(self, rows: Sequence[Row]) -> list[InvalidRow]:
        """Store rows after those in progress that have a key in common with them.

        So they match what those create.
        """
        keys = {key for row in rows for key in keys_of(row)}
        earlier = [done for others, done in self._in_progress if not keys.isdisjoint(others)]
        done = asyncio.Event()
        self._in_progress.append((keys, done))
        try:
            for each in earlier:
                await each.wait()
            return await self._store(rows)
        finally:
            self._in_progress.remove((keys, done))
            done.set()

    async def _store(self, rows: Sequence[Row]) -> list[InvalidRow]:
        """Store rows in one request, or in several if it is rejected; return the invalid rows."""
        if not rows:
            return []
        planner = await self._planner(rows)
        plans = [planner.plan(row) for row in rows]
        try:
            await self._execute(plans)
        except OperationsRejected as error:
            invalid = _invalid_rows(plans, error.rejections)
            lines = {each.line for each in invalid}
            valid = [row for row in rows if row.line not in lines]
            # Halved, as the errors of a response are not always all of them.
            middle = len(valid) // 2
            return [
                *invalid,
                *await self._store(valid[:middle]),
                *await self._store(valid[middle:]),
            ]
        for plan in plans:
            self._tally.counts.update(plan.effects)
        return []

    async def _planner(self, rows: Sequence[Row]) -> Planner:
        if not self._options.is_matching:
            return Planner()
        return await planner_for({key for row in rows for key in keys_of(row)}, self._client)

    async def _execute(self, plans: Sequence[Plan]) -> None:
        if len(plans) == 1 and is_large(plans[0].row):
            await self._execute_large(plans[0])
        elif operations := [one for plan in plans for one in plan.operations()]:
            await self._client.execute(operations, is_dry=self._options.is_dry)

    async def _execute_large(self, plan: Plan) -> None:
        """Store a row in several requests, after checking all of it."""
        if len(plan.row.computers) > _MAX_COMPUTERS:
            reason = f"{counted(len(plan.row.computers), 'computer')}: at most {_MAX_COMPUTERS}"
            raise OperationsRejected([Rejection(None, reason)])
        creations = [add_computer(attributes, None) for _, attributes in plan.new_computers]
        for part in _parts([*plan.person_operations(), *creations]):
            await self._client.execute(part, is_dry=True)
        if self._options.is_dry:
            return
        computers: list[ResourceIdentifier] = []
        try:
            for part in _parts(creations):
                results = await self._client.execute(part)
                computers += [identifier(COMPUTER, each["data"]["id"]) for each in results]
            if operations := plan.person_operations([*computers, *plan.moved]):
                await self._client.execute(operations)
        except OperationsRejected:
            for part in _parts(list(map(remove_computer, computers))):
                await self._client.execute(part)
            raise


def _invalid_rows(plans: Sequence[Plan], rejections: Sequence[Rejection]) -> list[InvalidRow]:
    """Return the rows whose operations are rejected, each with all the reasons for it."""
    rows = [plan.row for plan in plans for _ in plan.operations()] if len(plans) > 1 else []
    reasons: dict[int, list[str]] = defaultdict(list)
    for rejection in rejections:
        if len(plans) == 1:
            reasons[plans[0].row.line].append(rejection.reason)
        elif rejection.index is not None:
            reasons[rows[rejection.index].line].append(rejection.reason)
    return [InvalidRow(line, "; ".join(each)) for line, each in reasons.items()]


def _parts(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    source = iter(items)
    while part := list(islice(source, _PART)):
        yield part
