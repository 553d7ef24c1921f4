"""What an import remembers of its rows between its transactions, in a temporary file."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import bson
from bson.codec_options import CodecOptions

from registry.model.graph import Graph
from registry.model.record import ID, Record
from registry.storage.writes.identity_map import RecordKey
from registry.storage.writes.row_matches import Shape, Values, values_in

FIRST_DRY_ID = 2**62
"""The first id of a dry run, which no resource has."""


class RowMemory:
    """Remembers the lines of rows by resource, and of a dry run the records as rows have left them.

    The file is a temporary one of SQLite: it has no name, and most of it is not in memory.
    new_ids: for the resources of a dry run.
    """

    def __init__(self, graph: Graph, options: CodecOptions[Any]) -> None:
        self._graph, self._options = graph, options
        self.new_ids = count(FIRST_DRY_ID)
        self._shapes: set[Shape] = {
            (resource.type, (name,))
            for resource in graph.writable
            for name in resource.unique_attributes
        }
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(
            """
            PRAGMA synchronous = OFF;
            PRAGMA journal_mode = OFF;
            CREATE TABLE lines (type, id, line, PRIMARY KEY (type, id)) WITHOUT ROWID;
            CREATE TABLE records (type, id, record, PRIMARY KEY (type, id)) WITHOUT ROWID;
            CREATE TABLE keys (key, id, PRIMARY KEY (key, id)) WITHOUT ROWID;
            """
        )

    def close(self) -> None:
        """Delete the file."""
        self._database.close()

    def line(self, key: RecordKey) -> int | None:
        """Return the line of the row whose resource this is, None if there is none."""
        query = "SELECT line FROM lines WHERE type = ? AND id = ?"
        found: tuple[int] | None = self._database.execute(query, key).fetchone()
        return found and found[0]

    def add_lines(self, lines: Mapping[RecordKey, int]) -> None:
        """Remember the lines of rows by their resources."""
        rows = [(*key, line) for key, line in lines.items()]
        self._database.executemany("INSERT OR REPLACE INTO lines VALUES (?, ?, ?)", rows)

    def ids(self, shape: Shape, values: Values) -> list[int]:
        """Return the ids of the records that had these values when a row left them."""
        if shape not in self._shapes:
            self._shapes.add(shape)
            query = "SELECT record FROM records WHERE type = ?"
            for (data,) in self._database.execute(query, [shape[0]]):
                self._add_keys(bson.decode(data, self._options), [shape])
        found = self._database.execute("SELECT id FROM keys WHERE key = ?", [repr((shape, values))])
        return [id_ for (id_,) in found]

    def records(self, keys: Iterable[RecordKey]) -> Iterator[tuple[str, Record]]:
        """Yield those of these records that rows have changed, each with its type."""
        query = "SELECT type, record FROM records WHERE type = ? AND id = ?"
        for key in keys:
            for type_name, data in self._database.execute(query, key):
                yield type_name, bson.decode(data, self._options)

    def add_record(self, type_name: str, record: Record) -> None:
        """Remember a record as a row has left it."""
        row = (type_name, record[ID], bson.encode(record, codec_options=self._options))
        self._database.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", row)
        self._add_keys(record, [shape for shape in self._shapes if shape[0] == type_name])

    def _add_keys(self, record: Record, shapes: Sequence[Shape]) -> None:
        rows = [
            (repr((shape, values_in(self._graph[shape[0]], shape[1], record))), record[ID])
            for shape in shapes
        ]
        self._database.executemany("INSERT OR IGNORE INTO keys VALUES (?, ?)", rows)
