"""Which resources rows mean: found by what tells them apart, as the rows so far have left them."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias
from weakref import finalize

import bson
from bson.codec_options import CodecOptions

from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import NotFound
from registry.model.graph import Graph
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.rows.rows import Mention
from registry.storage.mongo.transactions import Transaction
from registry.storage.writes.identity_map import IdentityMap, RecordKey
from registry.storage.writes.unique_values import UniqueValues, comparable

Shape: TypeAlias = tuple[str, tuple[str, ...]]
"""A type, and the names of the attributes that tell its resources apart."""

Values: TypeAlias = tuple[Hashable, ...]
"""The values of these attributes; equal if they mean the same resource."""

FIRST_DRY_ID = 2**62
"""The first id of a dry run, which no resource has."""

_MAX_MATCHES = 3
"""Records with the same values that are found: a row is invalid if it means several."""

_MAX_CHANGED = 250
"""Records that are found besides these, as rows may have changed their values."""


class RowMemory:
    """What an import knows of its earlier batches: the lines of their rows, by resource.

    In a dry run, it also has the records as the rows have left them. It keeps all of this in a
    temporary file of SQLite without a name, with little in memory; the file is deleted when neither
    the import nor a batch uses it any more. new_ids: for the resources of a dry run. changed: how
    many times a dry run has changed stored resources.
    """

    def __init__(self, graph: Graph, options: CodecOptions[Any]) -> None:
        self._graph, self._options = graph, options
        self.new_ids, self.changed = count(FIRST_DRY_ID), 0
        self._shapes = set[Shape]()  # by which the records are found
        # A batch that is completed after its client has left may be the last to use it.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        finalize(self, self._database.close)
        self._database.executescript(
            """
            PRAGMA synchronous = OFF;
            PRAGMA journal_mode = OFF;
            CREATE TABLE lines (type, id, line, PRIMARY KEY (type, id)) WITHOUT ROWID;
            CREATE TABLE records (type, id, record, PRIMARY KEY (type, id)) WITHOUT ROWID;
            CREATE TABLE keys (key, id, PRIMARY KEY (key, id)) WITHOUT ROWID;
            """
        )

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

    def records(self, keys: Iterable[RecordKey]) -> Iterator[tuple[ResourceType, Record]]:
        """Yield those of these records that rows have changed, each with its type."""
        query = "SELECT type, record FROM records WHERE type = ? AND id = ?"
        for key in keys:
            for type_name, data in self._database.execute(query, key):
                yield self._graph[type_name], bson.decode(data, self._options)

    def add_record(self, type_name: str, record: Record) -> None:
        """Remember a record as a row has left it."""
        self.changed += record[ID] < FIRST_DRY_ID
        row = (type_name, record[ID], bson.encode(record, codec_options=self._options))
        self._database.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", row)
        self._add_keys(record, [shape for shape in self._shapes if shape[0] == type_name])

    def _add_keys(self, record: Record, shapes: Sequence[Shape]) -> None:
        rows = [
            (repr((shape, _values_in(self._graph[shape[0]], shape[1], record))), record[ID])
            for shape in shapes
        ]
        self._database.executemany("INSERT OR IGNORE INTO keys VALUES (?, ?)", rows)


class RowMatches:
    """Finds the records that rows mean. `load` tells which ones the unit of work has to load.

    A row with an id or a unique value finds its record by that, others by values of any attributes.
    """

    def __init__(self, records: IdentityMap, unique: UniqueValues) -> None:
        self._records, self._unique = records, unique
        self._ids: dict[Shape, dict[Values, set[int]]] = defaultdict(lambda: defaultdict(set))

    def load(
        self, transaction: Transaction, mentions: Sequence[Mention], changed: int
    ) -> Iterator[tuple[ResourceType, int]]:
        """Find the stored records with values; yield the type and the id of those to load.

        changed: how many may have other values, as earlier batches of a dry run have left them.
        """
        wanted: dict[Shape, dict[Values, Mention]] = defaultdict(dict)
        for mention in mentions:
            if mention.key not in {(), ("id",)} and not _is_unique(mention):
                shape = mention.resource.type, mention.key
                wanted[shape].setdefault(_values_of(mention, mention.key), mention)
        for shape, sought in wanted.items():
            names, resource = shape[1], next(iter(sought.values())).resource
            # Rows with other keys may change what some of these have.
            others = changed + sum(
                each.link is None and each.resource is resource and each.key not in {(), names}
                for each in mentions
            )
            stages, by_values = _stages(names, [*sought.values()], others), self._ids[shape]
            for group in transaction.aggregate(stages, resource.collection):
                by_values[_values(resource, names, group[ID].get)].update(group["ids"])
                yield from ((resource, id_) for id_ in group["ids"])

    def recall(self, memory: RowMemory, mentions: Iterable[Mention]) -> None:
        """Add the records that earlier rows of a dry run have changed."""
        keys = dict.fromkeys(self._records)
        for mention in mentions:
            resource = mention.resource
            for names in {mention.key, *((name,) for name in resource.unique)} - {("id",)}:
                values = _values_of(mention, names)
                if any(value is not None for value in values):
                    ids = memory.ids((resource.type, names), values)
                    keys |= dict.fromkeys((resource.type, id_) for id_ in ids)
        for resource, record in memory.records(keys):
            self._records.add(resource.type, [record])
            self._unique.update(resource, record)
            self.add(resource, record)

    def add(self, resource: ResourceType, record: Record) -> None:
        """Add a record, as a row has left it."""
        for (type_name, names), ids in self._ids.items():
            if type_name == resource.type:
                ids[_values_in(resource, names, record)].add(record[ID])

    def find(self, mention: Mention) -> Record | None:
        """Return the record that is mentioned, None for a new one.

        Raises NotFound for an id, or InvalidField if there are several.
        """
        resource, names = mention.resource, mention.key
        if not names:
            return None
        if names == ("id",):
            record = self._records.get((resource.type, mention.stored("id")))
            if record is None:
                detail = (
                    f"There is no `{resource.type}` with the id {quoted(mention.id or '')}. Ids of "
                    "another registry do not count here: leave the column out, or name a key."
                )
                raise NotFound(detail, mention.pointer("id"))
            return record
        if _is_unique(mention):
            id_ = self._unique.holder(resource, names[0], mention.stored(names[0]))
            return None if id_ is None else self._records.get((resource.type, id_))
        records = self._matching(mention)
        if len(records) > 1:
            shown = ", ".join(str(record[ID]) for record in records[:_MAX_MATCHES])
            detail = f"This is ambiguous: several {resource.collection} match, such as {shown}."
            raise mention.error(detail, names[0])
        return records[0] if records else None

    def _matching(self, mention: Mention) -> list[Record]:
        """Return the records that have the values now."""
        resource, names, values = mention.resource, mention.key, _values_of(mention, mention.key)
        ids = sorted(self._ids[resource.type, names].get(values, ()))
        found = (self._records.get((resource.type, id_)) for id_ in ids)
        return [
            record for record in found if record and _values_in(resource, names, record) == values
        ]


def value_of(resource: ResourceType, name: str, record: Record) -> Any:
    """Return the value of an attribute in a record, also of one that is computed."""
    computed = resource.computed.get(name)
    return record.get(name) if computed is None else computed.compute(record)


def _values(resource: ResourceType, names: Sequence[str], get: Callable[[str], Any]) -> Values:
    return tuple(comparable(resource.readable[name], get(name)) for name in names)


def _values_in(resource: ResourceType, names: Sequence[str], record: Record) -> Values:
    return _values(resource, names, lambda name: value_of(resource, name, record))


def _values_of(mention: Mention, names: Sequence[str]) -> Values:
    return _values(mention.resource, names, mention.stored)


def _is_unique(mention: Mention) -> bool:
    """Whether a unique attribute alone tells the resource apart."""
    return len(mention.key) == 1 and mention.key[0] in mention.resource.unique


def _stages(names: Sequence[str], mentions: Sequence[Mention], others: int) -> list[dict[str, Any]]:
    """Return the pipeline that finds records with the values of each mention.

    others: how many of those with the same values may have others when a row is applied.
    """
    if len(names) == 1:
        spelled = dict.fromkeys(text for each in mentions for text in _spellings(each, names[0]))
        query: dict[str, Any] = {names[0]: {"$in": [*spelled]}}
    else:
        query = {
            "$or": [
                {name: {"$in": [*_spellings(mention, name)]} for name in names}
                for mention in mentions
            ]
        }
    ids = {"$minN": {"input": f"${ID}", "n": _MAX_MATCHES + min(others, _MAX_CHANGED)}}
    return [
        {"$match": query},
        {"$group": {ID: {name: f"${name}" for name in names}, "ids": ids}},
    ]


def _spellings(mention: Mention, name: str) -> Iterator[Any]:
    """Yield a value, in all usual spellings if its case does not matter."""
    value = mention.stored(name)
    yield value
    if value is None or not mention.resource.readable[name].kind.ignores_case:
        return
    local, at, domain = value.lower().partition("@")
    for spelled in (local, local.title(), local.capitalize()):
        yield f"{spelled}{at}{domain}"
    yield value.upper()
