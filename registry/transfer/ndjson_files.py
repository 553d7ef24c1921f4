"""NDJSON files: a resource object of JSON:API per line, linked by `id`, or by `lid` in the file."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TextIO

import orjson

from registry.model.graph import Graph
from registry.program import note
from registry.transfer.rows import ID, LID, Mention, Row, read_lines

_STRING, _OBJECT = "must be a string", "must be an object"

_MEMBERS: Mapping[str, tuple[Any, str]] = {
    "type": (str, _STRING),
    ID: (str | None, _STRING),
    LID: (str | None, _STRING),
    "attributes": (dict, _OBJECT),
    "relationships": (dict, _OBJECT),
    "links": (object, ""),
    "meta": (object, ""),
}
"""What each member must be."""


def read_ndjson(file: TextIO, graph: Graph) -> Iterator[Row]:
    """Yield the rows. Raises InvalidFile for a line that is too long."""
    note_once = cache(note)
    for number, line in enumerate(read_lines(file), 1):
        if not line.isspace():
            row = Row("", line=number)
            _fill(row, line, graph, note_once)
            yield row


def _fill(row: Row, line: str, graph: Graph, note_once: Callable[[str], None]) -> None:
    """Add what a line says to its row."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        row.reject(None, f"not JSON: {error}")
        return
    types = [one.type for one in graph.writable]
    type_name = document.get("type") if isinstance(document, dict) else None
    if type_name not in types:
        reason = f"not a resource object of type {' or '.join(types)}"
        if type_name in list(graph):
            reason = f"{type_name} is read-only: it follows from links, and is not imported"
        row.reject("type", reason)
        return
    for name, value in document.items():
        kind, reason = _MEMBERS.get(name, ((), "unknown member"))
        if not isinstance(value, kind):
            row.reject(name, reason)
    if not row.defects:
        row.type, row.id, row.lid = type_name, document.get(ID), document.get(LID)
        _add_attributes(row, document.get("attributes", {}), graph, note_once)
        _add_links(row, document.get("relationships", {}), graph)


def _add_attributes(
    row: Row, attributes: Mapping[str, Any], graph: Graph, note_once: Callable[[str], None]
) -> None:
    resource = graph[row.type]
    for name, value in attributes.items():
        attribute = resource.readable.get(name)
        if attribute is None:
            names = ", ".join(resource.attributes)
            row.reject(name, f"a {row.type} has no such attribute; it has {names}")
        elif name not in resource.writable:
            note_once(f"the attribute `{name}` is read-only and is not imported")
        elif value is None and attribute.nullable:
            row.values[name] = None
        else:
            row.read(row, name, attribute, value, is_text=False)


def _add_links(row: Row, relationships: Mapping[str, Any], graph: Graph) -> None:
    possible = graph[row.type].to_one
    for name, value in relationships.items():
        if name not in possible:
            names = ", ".join(possible) or "none"
            row.reject(name, f"a {row.type} has no such to-one relationship; it has {names}")
            continue
        target, prefix = possible[name].target, f"{name}."
        match value:
            case {"data": None}:
                row.links[name] = None
            case {"data": {"type": type_name, "id": str(id_)}} if type_name == target:
                row.links[name] = Mention(target, id=id_, prefix=prefix)
            case {"data": {"type": type_name, "lid": str(lid)}} if type_name == target:
                row.links[name] = Mention(target, lid=lid, prefix=prefix)
            case _:
                row.reject(name, f"its `data` must be null or name a {target} by `id` or `lid`")
