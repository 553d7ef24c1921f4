"""What an import remembers of earlier rows: in a file, so that its memory is constant."""

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import orjson

_MAX_KEYS = 500
"""Keys per query: SQLite has a limit."""


class Ledger:
    """Values by key, both JSON.

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
        texts, found = list(encoded), {}
        for start in range(0, len(texts), _MAX_KEYS):
            part = texts[start : start + _MAX_KEYS]
            marks = ",".join("?" * len(part))
            query = f"SELECT key, value FROM known WHERE key IN ({marks})"  # noqa: S608 - marks
            for key, value in self._database.execute(query, part):
                found[encoded[key]] = orjson.loads(value)
        return found

    def put(self, values: Mapping[Any, Any]) -> None:
        """Add or replace values; `commit` stores them."""
        rows = [(orjson.dumps(key), orjson.dumps(value)) for key, value in values.items()]
        self._database.executemany("INSERT OR REPLACE INTO known VALUES (?, ?)", rows)

    def commit(self) -> None:
        """Store the values together."""
        self._database.commit()

    def remove(self) -> None:
        """Remove the file: the import is complete."""
        if self._path:
            self._path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
