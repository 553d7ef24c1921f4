"""The import of rows through the service, in batches."""

import asyncio
import re
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson

from registry.client import Client, RegistryError
from registry.client.client_documents import Document, understood
from registry.jsonapi.operation_documents import MAX_OPERATIONS
from registry.program import note
from registry.protocol import MERGE, OPERATIONS, ROLL_BACK
from registry.transfer.lookups import ImportOptions, Lookups
from registry.transfer.plans import Plan
from registry.transfer.progress import Tally
from registry.transfer.rows import ID, InvalidFile, Mention, ResourceKey, Row

_MAX_ROWS = MAX_OPERATIONS - 100
"""Rows, and operations, per request: the last row may create targets as well."""

_MAX_BYTES = 2**19
"""Bytes of operations per request, half of what the service takes."""

_REJECTED = {400, 404, 409, 422}
"""Statuses of operations that the service will never accept."""

_POINTER = re.compile(rf"/{OPERATIONS}/(\d+)(?:/.*?(?:attributes|relationships)/([^/]*).*|/.*)?")


class Ledger:
    """What an import remembers of earlier rows: values by key, both JSON, in a file.

    path: of a file that outlives the process; None for a temporary one. version: of the imported
    file. source: identifies the import; ends with the version when it began.
    """

    def __init__(self, path: Path | None = None, version: str = "") -> None:
        self._path = path
        self._database = sqlite3.connect(path or "")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS known (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"
        )
        self.source: str = self.get(["source"]).get("source", f"{uuid4().hex}-{version}")
        self.put({"source": self.source})
        self.commit()

    def get(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of those keys that have one."""
        encoded = {orjson.dumps(key): key for key in keys}
        wanted = orjson.dumps([key.decode() for key in encoded]).decode()
        query = (
            "SELECT key, value FROM known "
            "WHERE key IN (SELECT CAST(value AS BLOB) FROM json_each(?))"
        )
        rows = self._database.execute(query, [wanted])
        return {encoded[key]: orjson.loads(value) for key, value in rows}

    def put(self, values: Mapping[Any, Any]) -> None:
        """Add or replace values; `commit` stores them."""
        rows = [(orjson.dumps(key), orjson.dumps(one)) for key, one in values.items()]
        self._database.executemany("INSERT OR REPLACE INTO known VALUES (?, ?)", rows)

    def commit(self) -> None:
        """Store the values together."""
        self._database.commit()

    def remove(self) -> None:
        """Remove the file: the import is complete."""
        if self._path:
            self._path.unlink()

    def close(self) -> None:
        """Close the file."""
        self._database.close()


@dataclass(slots=True)
class _Batch:
    """Successive rows. known: the resources of their keys."""

    rows: list[Row]
    known: dict[ResourceKey, list[Document]] = field(default_factory=dict)

    @property
    def unknown(self) -> Iterator[Mention]:
        """What the rows mention that can be looked up, and is not known."""
        mentions = (one for row in self.rows for one in row.mentions)
        return (one for one in mentions if one.key and one.key not in self.known)


class Importer:
    """Imports rows; those with defects are reported, all others stored."""

    def __init__(
        self, client: Client, options: ImportOptions, tally: Tally, ledger: Ledger
    ) -> None:
        self._client = client
        self._options = options
        self._tally = tally
        self._ledger = ledger
        self._lookups = Lookups(client, tally.graph, options)

    async def run(self, rows: Iterable[Row]) -> None:
        """Import the rows that the ledger has not, and show what is wrong with the others.

        The rows of the next batch are read and looked up while the service stores those of one.
        Raises RegistryError, InvalidFile, or OSError if reading a row does.
        """
        done = self._ledger.get(["line"]).get("line", 0)
        waiting = (row for row in rows if row.line > done)
        ahead = asyncio.create_task(self._prepare(waiting))
        try:
            while batch := await ahead:
                ahead = asyncio.create_task(self._prepare(waiting))
                await self._import(batch)
                for error in chain.from_iterable(row.errors for row in batch.rows):
                    note(error)
                self._tally.show()
        finally:
            self._tally.clear()
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)
        self._ledger.remove()

    async def _prepare(self, waiting: Iterator[Row]) -> _Batch | None:
        """Read the next batch, and find what is stored of it."""
        rows = await asyncio.to_thread(lambda: list(islice(waiting, _MAX_ROWS)))
        for row in rows:
            if not row.defects:
                self._lookups.identify(row)
        batch = _Batch(rows)
        self._add_created(batch)
        batch.known |= await self._lookups.find(batch.unknown)
        return batch if rows else None

    def _add_created(self, batch: _Batch) -> None:
        """Add what earlier rows have created or linked to, which need not be looked up."""
        created = self._ledger.get({one.key for one in batch.unknown})
        batch.known |= {key: [one] for key, one in created.items()}

    async def _import(self, batch: _Batch) -> None:
        self._reject_repeated(batch.rows, batch.known)
        self._add_created(batch)  # also after it was looked up
        await self._store(batch)
        self._tally.rows += len(batch.rows)
        self._tally.invalid_rows += sum(bool(row.defects) for row in batch.rows)
        self._ledger.put({"line": batch.rows[-1].line})
        self._ledger.commit()

    def _reject_repeated(
        self, rows: Sequence[Row], known: Mapping[ResourceKey, Sequence[Document]]
    ) -> None:
        """Reject the rows that mean the same resource as an earlier one.

        Raises InvalidFile if the same is only that all values are equal, or if these are stored.
        """
        lines = self._ledger.get(("line", row.key) for row in rows)
        new: dict[Any, int] = {}
        for row in rows:
            if row.key is None:
                continue
            place, stored = ("line", row.key), known.get(row.key)
            earlier = lines.get(place) or new.setdefault(place, row.line)
            reason = f"repeats line {earlier}"
            if (stored or earlier != row.line) and not self._lookups.has_key(row):
                if stored and earlier == row.line:
                    reason = f"repeats what is stored, {row.type} {stored[0][ID]}"
                raise self._repeated(row, reason)
            if earlier != row.line:
                names = row.key[1]
                row.reject(names[0], f"{reason}: the same {', '.join(names)}")
        self._ledger.put(new)

    def _repeated(self, row: Row, reason: str) -> InvalidFile:
        names = ", ".join(row.values) or "none"
        return InvalidFile(
            f"line {row.line} {reason}. Name what tells {self._tally.graph[row.type].collection} "
            f"apart with --key, one or more of {names}, so that nothing is stored twice; or use "
            "--create to create a new resource of each row"
        )

    async def _store(self, batch: _Batch) -> None:
        """Store the rows, in several requests if they are too many, without those with defects."""
        waiting = deque(row for row in batch.rows if not row.defects)
        while waiting:
            plan = Plan(self._tally.graph, self._options, batch.known)
            while waiting and len(plan.operations) < _MAX_ROWS and plan.size < _MAX_BYTES:
                plan.add(waiting.popleft())
            try:
                results = plan.results(await self._execute(plan))
            except RegistryError as error:
                if not _reject_rows(plan, error):
                    raise
                waiting.extendleft(row for row in plan.rows[::-1] if not row.defects)
                continue
            self._tally.counts.update(plan.effects)
            self._ledger.put(results)
            batch.known |= {key: [one] for key, one in results.items()}

    async def _execute(self, plan: Plan) -> list[str | None]:
        """Return the ids of what the operations create or change; None for those of a dry run."""
        if not plan.operations:
            return []
        is_dry, rows = self._options.is_dry, plan.rows
        preferences = ", ".join([ROLL_BACK] * is_dry + [MERGE] * plan.can_merge)
        key = f"{self._ledger.source}-{rows[0].line}-{rows[-1].line}-{len(rows)}"
        results = await self._client.execute(plan.operations, key, preferences)
        with understood("operations"):
            return [None if is_dry else result["data"][ID] for result in results]


def _reject_rows(plan: Plan, error: RegistryError) -> bool:
    """Reject the rows that a service has rejected; return whether there are any."""
    for each in error.errors if error.status in _REJECTED else ():
        if match := _POINTER.fullmatch(str(each.get("source", {}).get("pointer"))):
            row, prefix = plan.origins[int(match[1])]
            column = f"{prefix}{match[2] or ''}".rstrip(".")
            row.reject(column or None, each["detail"])
    return any(row.defects for row in plan.rows)
