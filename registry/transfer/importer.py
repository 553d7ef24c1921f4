"""The import of rows through the service, in batches."""

import re
import sqlite3
from asyncio import create_task, gather, to_thread
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import orjson

from registry.client import Client, RegistryError
from registry.jsonapi.operation_documents import MAX_OPERATIONS
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

_SOURCE, _LINE = "source", "line"
"""Keys of the ledger: what identifies the import, and the last line that it has stored."""

_POINTER = re.compile(rf"/{OPERATIONS}/(\d+)(?:/.*?(?:attributes|relationships)/([^/]*).*|/.*)?")


Counts: TypeAlias = defaultdict[str, Counter[str]]
"""Numbers of resources by effect, such as `created`, and collection."""


class Ledger:
    """What an import remembers of earlier rows: values by key, both JSON, in a file.

    imported: the file of the rows, beside which it outlives the process; None if it need not.
    source: identifies the import. Raises InvalidFile if the file has changed since its import
    began, or OSError.
    """

    def __init__(self, imported: Path | None = None) -> None:
        self._path, version = None, ""
        if imported:
            status = imported.stat()
            version = f"{status.st_size}-{status.st_mtime_ns}"
            self._path = imported.with_name(f"{imported.name}.progress")
        self._database = sqlite3.connect(self._path or "")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS known (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID"
        )
        self.source: str = self.get([_SOURCE]).get(_SOURCE, f"{uuid4().hex}-{version}")
        if not self.source.endswith(version):
            reason = f"delete {self._path} to create it all again"
            raise InvalidFile(f"changed since its import began: {reason}")
        self.put({_SOURCE: self.source})

    def get(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of those keys that have one."""
        by_text = {orjson.dumps(key).decode(): key for key in keys}
        query = "SELECT key, value FROM known WHERE key IN (SELECT value FROM json_each(?))"
        found = self._database.execute(query, [orjson.dumps([*by_text]).decode()])
        return {by_text[text]: orjson.loads(value) for text, value in found}

    def put(self, values: Mapping[Any, Any]) -> None:
        """Add or replace values by key, all or none."""
        pairs = [(orjson.dumps(key).decode(), orjson.dumps(value)) for key, value in values.items()]
        with self._database:
            self._database.executemany("INSERT OR REPLACE INTO known VALUES (?, ?)", pairs)

    def remove(self) -> None:
        """Remove the file: the import is complete."""
        if self._path:
            self._path.unlink()

    def close(self) -> None:
        """Close the file."""
        self._database.close()


@dataclass
class Importer:
    """Imports rows, without those that have defects; adds what is confirmed to the counts."""

    client: Client
    graph: Graph
    options: ImportOptions
    ledger: Ledger
    counts: Counts

    def __post_init__(self) -> None:
        self._lookups = Lookups(self.client, self.graph, self.options)

    async def run(self, rows: Iterable[Row]) -> AsyncGenerator[Sequence[Row]]:
        """Import the rows that the ledger has not; yield them, batch by batch, with their defects.

        Raises RegistryError, InvalidFile, or OSError if reading a row does.
        """
        done = self.ledger.get([_LINE]).get(_LINE, 0)
        waiting = (row for row in rows if row.line > done)
        following = create_task(to_thread(self._read, waiting))
        try:
            while batch := await following:
                # Read while the service works.
                following = create_task(to_thread(self._read, waiting))
                await self._store(batch)
                yield batch
        finally:
            await gather(following, return_exceptions=True)
        self.ledger.remove()

    def _read(self, rows: Iterator[Row]) -> list[Row]:
        """Return the next rows, with their keys."""
        batch = list(islice(rows, _MAX_ROWS))
        for row in batch:
            if not row.defects:
                self._lookups.identify(row)
        return batch

    async def _find(self, rows: Sequence[Row]) -> dict[ResourceKey, list[Known]]:
        """Return what rows mention that is stored, or that earlier ones have added."""
        wanted = {mention.key: mention for row in rows for mention in row.mentions if mention.key}
        earlier = {key: [Known(**mention)] for key, mention in self.ledger.get(wanted).items()}
        unknown = [mention for key, mention in wanted.items() if key not in earlier]
        return earlier | await self._lookups.find(unknown)

    async def _store(self, rows: Sequence[Row]) -> None:
        """Store the rows, in several requests if they are too many, without those with defects."""
        waiting, known = deque(row for row in rows if not row.defects), await self._find(rows)
        results: dict[Any, Any] = {}
        while waiting:
            plan = Plan(self.graph, self.options, known)
            while waiting and len(plan.operations) < _MAX_ROWS and plan.size < _MAX_BYTES:
                plan.add(waiting.popleft())
            try:
                stored = plan.results(await self._execute(plan))
            except RegistryError as error:
                if not _reject_rows(plan, error):
                    raise
                waiting.extendleft(row for row in plan.rows[::-1] if not row.defects)
                continue
            for effect, type_name in plan.effects:
                self.counts[effect][self.graph[type_name].collection] += 1
            known |= {key: [resource] for key, resource in stored.items()}
            results |= stored
        # Together: an import that continues repeats the requests of a batch as they were.
        self.ledger.put({**results, _LINE: rows[-1].line})

    async def _execute(self, plan: Plan) -> list[str | None]:
        """Return the ids of what the operations create or change; None for those of a dry run."""
        if not plan.operations:
            return []
        is_dry, rows = self.options.is_dry, plan.rows
        preferences = ", ".join([ROLL_BACK] * is_dry + [MERGE] * plan.can_merge)
        key = f"{self.ledger.source}-{rows[0].line}-{rows[-1].line}-{len(rows)}"
        results = await self.client.execute(plan.operations, key, preferences)
        return [None if is_dry else result["data"][ID] for result in results]


def _reject_rows(plan: Plan, error: RegistryError) -> bool:
    """Reject the rows that a service has rejected; return whether there are any."""
    for each in error.errors if error.status in _REJECTED else ():
        if match := _POINTER.fullmatch(str(each.get("source", {}).get("pointer"))):
            row, prefix = plan.origins[int(match[1])]
            column = f"{prefix}{match[2] or ''}".rstrip(".")
            row.reject(column or None, each["detail"])
    return any(row.defects for row in plan.rows)
