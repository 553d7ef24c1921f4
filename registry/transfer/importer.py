"""The import of rows through the service, in batches."""

import re
import sqlite3
from asyncio import create_task, gather, to_thread
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import orjson

from registry.client import Client, RegistryError
from registry.jsonapi.request_documents import MAX_OPERATIONS
from registry.model.graph import Graph
from registry.protocol import MERGE, OPERATIONS, ROLL_BACK
from registry.transfer.lookups import ImportOptions, Known, Lookups
from registry.transfer.plans import Plan
from registry.transfer.row_files import ID, InvalidFile, ResourceKey, Row

_MAX_ROWS = MAX_OPERATIONS - 100
"""Rows, and operations, per request: the last row may create targets as well."""

_MAX_BYTES = 2**19
"""Bytes of operations per request, half of what the service takes."""

_REJECTED = {400, 404, 409, 422}
"""Statuses of operations that the service will never accept."""

_POINTER = re.compile(rf"/{OPERATIONS}/(\d+)(?:/.*?(?:attributes|relationships)/([^/]*).*|/.*)?")


Counts: TypeAlias = defaultdict[str, Counter[str]]
"""Numbers of resources by effect, such as `created`, and collection."""


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
        self.source: str = self.get("source") or f"{uuid4().hex}-{version}"
        self.put("source", self.source)
        self.commit()

    def get(self, key: Any) -> Any:
        """Return the value of a key, None if it has none."""
        query = "SELECT value FROM known WHERE key = ?"
        row = self._database.execute(query, [orjson.dumps(key)]).fetchone()
        return row and orjson.loads(row[0])

    def put(self, key: Any, value: Any) -> None:
        """Add or replace a value; `commit` stores it."""
        pair = [orjson.dumps(key), orjson.dumps(value)]
        self._database.execute("INSERT OR REPLACE INTO known VALUES (?, ?)", pair)

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


class Importer:
    """Imports rows, without those that have defects; adds what is confirmed to the counts."""

    def __init__(
        self,
        client: Client,
        graph: Graph,
        options: ImportOptions,
        ledger: Ledger,
        counts: Counts,
    ) -> None:
        self._client = client
        self._graph = graph
        self._options = options
        self._ledger = ledger
        self._counts = counts
        self._lookups = Lookups(client, graph, options)

    async def run(self, rows: Iterable[Row]) -> AsyncGenerator[Sequence[Row]]:
        """Import the rows that the ledger has not; yield them, batch by batch, with their defects.

        Raises RegistryError, InvalidFile, or OSError if reading a row does.
        """
        done = self._ledger.get("line") or 0
        waiting = (row for row in rows if row.line > done)
        following = create_task(to_thread(self._read, waiting))
        try:
            while batch := await following:
                # Read while the service works.
                following = create_task(to_thread(self._read, waiting))
                known = await self._find(batch)
                self._reject_repeated(batch, known)
                await self._store(batch, known)
                self._ledger.put("line", batch[-1].line)
                self._ledger.commit()
                yield batch
        finally:
            await gather(following, return_exceptions=True)
        self._ledger.remove()

    def _read(self, rows: Iterator[Row]) -> list[Row]:
        """Return the next rows, with their keys."""
        batch = list(islice(rows, _MAX_ROWS))
        for row in batch:
            if not row.defects:
                self._lookups.identify(row)
        return batch

    async def _find(self, rows: Sequence[Row]) -> dict[ResourceKey, list[Known]]:
        """Return what rows mention that is stored, or that earlier ones have added."""
        unknown = {one.key: one for row in rows for one in row.mentions if one.key}
        known = {}
        for key in list(unknown):
            if earlier := self._ledger.get(key):
                known[key] = [Known(*earlier)]
                del unknown[key]
        return known | await self._lookups.find(unknown.values())

    def _reject_repeated(self, rows: Sequence[Row], known: dict[ResourceKey, list[Known]]) -> None:
        """Reject the rows that mean the same resource as an earlier one.

        Raises InvalidFile if the same is only that all values are equal, or if these are stored.
        """
        for row in rows:
            if row.key is None:
                continue
            earlier, stored = self._ledger.get(["line", row.key]), known.get(row.key)
            reason = f"repeats line {earlier}"
            if (stored or earlier) and not self._lookups.names(row):
                if stored and not earlier:
                    reason = f"repeats what is stored, {row.type} {stored[0].values[ID]}"
                raise self._repeated(row, reason)
            if earlier:
                names = row.key[1]
                row.reject(names[0], f"{reason}: the same {', '.join(names)}")
            else:
                self._ledger.put(["line", row.key], row.line)

    def _repeated(self, row: Row, reason: str) -> InvalidFile:
        names = ", ".join(row.values) or "none"
        return InvalidFile(
            f"line {row.line} {reason}. Name what tells {self._graph[row.type].collection} "
            f"apart with --key, one or more of {names}, so that nothing is stored twice; or use "
            "--create to create a new resource of each row"
        )

    async def _store(self, rows: Sequence[Row], known: dict[ResourceKey, list[Known]]) -> None:
        """Store the rows, in several requests if they are too many, without those with defects."""
        waiting = deque(row for row in rows if not row.defects)
        while waiting:
            plan = Plan(self._graph, self._options, known)
            while waiting and len(plan.operations) < _MAX_ROWS and plan.size < _MAX_BYTES:
                plan.add(waiting.popleft())
            try:
                results = plan.results(await self._execute(plan))
            except RegistryError as error:
                if not _reject_rows(plan, error):
                    raise
                waiting.extendleft(row for row in plan.rows[::-1] if not row.defects)
                continue
            for effect, type_name in plan.effects:
                self._counts[effect][self._graph[type_name].collection] += 1
            for key, one in results.items():
                self._ledger.put(key, [one.identifier, one.values])
                known[key] = [one]

    async def _execute(self, plan: Plan) -> list[str | None]:
        """Return the ids of what the operations create or change; None for those of a dry run."""
        if not plan.operations:
            return []
        is_dry, rows = self._options.is_dry, plan.rows
        preferences = ", ".join([ROLL_BACK] * is_dry + [MERGE] * plan.can_merge)
        key = f"{self._ledger.source}-{rows[0].line}-{rows[-1].line}-{len(rows)}"
        results = await self._client.execute(plan.operations, key, preferences)
        return [None if is_dry else result["data"][ID] for result in results]


def _reject_rows(plan: Plan, error: RegistryError) -> bool:
    """Reject the rows that a service has rejected; return whether there are any."""
    for each in error.errors if error.status in _REJECTED else ():
        if match := _POINTER.fullmatch(str(each.get("source", {}).get("pointer"))):
            row, prefix = plan.origins[int(match[1])]
            column = f"{prefix}{match[2] or ''}".rstrip(".")
            row.reject(column or None, each["detail"])
    return any(row.defects for row in plan.rows)
