"""NDJSON files: a resource object of JSON:API per line, linked by `id`, or by `lid` in the file."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TextIO

import orjson

from registry.model.graph import Graph
from registry.printable import note
from registry.transfer.rows import (
    ID,
    LID,
    Defects,
    InvalidRow,
    Mention,
    Row,
    canonical,
    read_lines,
)

_MEMBERS = {"type", ID, LID, "attributes", "relationships", "links", "meta"}


def read_ndjson(file: TextIO, graph: Graph) -> Iterator[Row | InvalidRow]:
    """Yield the rows. Raises InvalidFile for a line that is too long."""
    note_once = cache(note)
    for number, line in enumerate(read_lines(file), 1):
        if not line.isspace():
            try:
                yield _row(number, line, graph, note_once)
            except InvalidRow as invalid:
                yield invalid


def _row(number: int, line: str, graph: Graph, note_once: Callable[[str], None]) -> Row:
    """Return the row of a line. Raises InvalidRow with all that is wrong with it."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidRow(number, (None, f"not JSON: {error}")) from None
    types = [one.type for one in graph.writable]
    if not isinstance(document, dict) or document.get("type") not in types:
        reason = f"not a resource object of type {' or '.join(types)}"
        if isinstance(document, dict) and document.get("type") in list(graph):
            reason = f"{document['type']} is read-only: it follows from links, and is not imported"
        raise InvalidRow(number, ("type", reason))
    defects: Defects = [
        *((name, "unknown member") for name in document if name not in _MEMBERS),
        *((name, "must be a string") for name in (ID, LID) if not _is_text(document, name)),
        *(
            (name, "must be an object")
            for name in ("attributes", "relationships")
            if not isinstance(document.get(name, {}), dict)
        ),
    ]
    if defects:
        raise InvalidRow(number, *defects)
    row = Row(document["type"], {}, document.get(ID), document.get(LID), line=number)
    _add_attributes(row, document.get("attributes", {}), graph, note_once, defects)
    _add_links(row, document.get("relationships", {}), graph, defects)
    if defects:
        raise InvalidRow(number, *defects)
    return row


def _is_text(document: Mapping[str, Any], name: str) -> bool:
    return isinstance(document.get(name), str | None)


def _add_attributes(
    row: Row,
    attributes: Mapping[str, Any],
    graph: Graph,
    note_once: Callable[[str], None],
    defects: Defects,
) -> None:
    resource = graph[row.type]
    for name, value in attributes.items():
        attribute = resource.readable.get(name)
        if attribute is None:
            names = ", ".join(resource.attributes)
            defects.append((name, f"a {row.type} has no such attribute; it has {names}"))
        elif name not in resource.writable:
            note_once(f"the attribute `{name}` is read-only and is not imported")
        elif value is None and attribute.nullable:
            row.values[name] = None
        else:
            row.values[name] = canonical(attribute, value, name, defects)


def _add_links(row: Row, relationships: Mapping[str, Any], graph: Graph, defects: Defects) -> None:
    possible = graph[row.type].to_one
    for name, value in relationships.items():
        if name not in possible:
            names = ", ".join(possible) or "none"
            defects.append((name, f"a {row.type} has no such to-one relationship; it has {names}"))
            continue
        target, prefix = possible[name].target, f"{name}."
        match value:
            case {"data": None}:
                row.links[name] = None
            case {"data": {"type": type_name, "id": str(id_)}} if type_name == target:
                row.links[name] = Mention(target, {}, id_, prefix=prefix)
            case {"data": {"type": type_name, "lid": str(lid)}} if type_name == target:
                row.links[name] = Mention(target, {}, lid=lid, prefix=prefix)
            case _:
                reason = f"its `data` must be null or name a {target} by `id` or `lid`"
                defects.append((name, reason))
