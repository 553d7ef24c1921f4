"""NDJSON files: a resource object of JSON:API per line, linked by `id`, or by `lid` in the file."""

from collections.abc import Iterator
from typing import TextIO

import orjson
from marshmallow import ValidationError

from registry.model.graph import Graph
from registry.transfer.rows import (
    ID,
    LID,
    Chunk,
    InvalidRow,
    Note,
    Row,
    Values,
    canonical,
    read_lines,
    to_one,
)

_MEMBERS = {"type", ID, LID, "attributes", "relationships", "links", "meta"}


def read_ndjson(file: TextIO, graph: Graph, note: Note) -> Iterator[Row | InvalidRow]:
    """Yield the rows. Raises InvalidFile for a line that is too long."""
    reader = _Reader(graph, note)
    for number, line in enumerate(read_lines(file), 1):
        if not line.isspace():
            try:
                yield reader.row(number, line)
            except InvalidRow as invalid:
                yield invalid


def write_ndjson(chunk: Chunk, file: TextIO) -> None:
    """Write resource objects."""
    lines = (orjson.dumps(each, default=str).decode() + "\n" for each in chunk.resources)
    file.writelines(lines)


class _Reader:
    def __init__(self, graph: Graph, note: Note) -> None:
        self._graph = graph
        self._note = note
        self._read_only: set[str] = set()

    def row(self, number: int, line: str) -> Row:
        """Return the row of a line. Raises InvalidRow with all that is wrong with it."""
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InvalidRow(number, (None, f"not JSON: {error}")) from None
        match document:
            case {"type": str(type_name)} if type_name in self._graph:
                pass
            case _:
                types = " or ".join(self._graph)
                raise InvalidRow(number, ("type", f"not a resource object of type {types}"))
        row = Row(number, type_name, {}, size=len(line))
        defects = [
            *((name, "unknown member") for name in document if name not in _MEMBERS),
            *self._labels(row, document),
            *self._attributes(row, document),
            *self._relationships(row, document),
        ]
        if defects:
            raise InvalidRow(number, *defects)
        return row

    def _labels(self, row: Row, document: Values) -> Iterator[tuple[str, str]]:
        for name in (ID, LID):
            value = document.get(name)
            if isinstance(value, str | None):
                setattr(row, name, value)
            else:
                yield name, "must be a string"

    def _attributes(self, row: Row, document: Values) -> Iterator[tuple[str, str]]:
        resource, attributes = self._graph[row.type], document.get("attributes", {})
        if not isinstance(attributes, dict):
            yield "attributes", "must be an object"
            return
        for name, value in attributes.items():
            attribute = resource.readable.get(name)
            if attribute is None:
                yield (
                    name,
                    f"a {row.type} has no such attribute; it has {', '.join(resource.attributes)}",
                )
            elif name not in resource.writable:
                if name not in self._read_only:
                    self._read_only.add(name)
                    self._note(f"the attribute `{name}` is read-only and is not imported")
            elif value is None and attribute.nullable:
                row.values[name] = None
            else:
                try:
                    row.values[name] = canonical(attribute, value)
                except ValidationError as error:
                    yield name, " ".join(map(str, error.messages))

    def _relationships(self, row: Row, document: Values) -> Iterator[tuple[str, str]]:
        relationships = document.get("relationships", {})
        if not isinstance(relationships, dict):
            yield "relationships", "must be an object"
            return
        possible = to_one(self._graph[row.type])
        for name, value in relationships.items():
            if name not in possible:
                names = ", ".join(possible) or "none"
                yield name, f"a {row.type} has no such to-one relationship; it has {names}"
                continue
            match value:
                case {"data": None}:
                    row.links[name] = None
                case {"data": {"type": type_name, "id": str(id_)}} if (
                    type_name == possible[name].target
                ):
                    row.links[name] = {ID: id_}
                case {"data": {"type": type_name, "lid": str(lid)}} if (
                    type_name == possible[name].target
                ):
                    row.links[name] = {LID: lid}
                case _:
                    target = possible[name].target
                    yield name, f"its `data` must be null or name a {target} by `id` or `lid`"
