"""The lines of an NDJSON file, each a resource object, as atomic operations in batches."""

import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import IO, Any, NamedTuple

import orjson

from registry.client import Client, RegistryError
from registry.client.transport import Document, member
from registry.model.graph import Graph
from registry.protocol import MERGE, OPERATIONS, ROLL_BACK

_MAX_OPERATIONS, _MAX_BYTES = 500, 2**19
"""Operations of a request, and the bytes of their lines: half of what the service takes."""

_MAX_LINE = 1_000_000
"""Bytes of a line: what the service takes, without what a request has around it."""

_POINTER = re.compile(rf"/{OPERATIONS}/(\d+)(?:/.*?(?:attributes|relationships)/([^/]*).*|/.*)?")

_REJECTED = {400, 404, 409, 422}
"""Statuses of operations that the service will never accept."""


class Line(NamedTuple):
    """A line. number: from 1. merges: whether it may update a resource, and says if it has.

    operation: an atomic operation; without one, the line is not valid, and `defect` says why.
    """

    number: int
    operation: dict[str, Any] | None = None
    merges: bool = False
    size: int = 0
    defect: str = ""


def read_lines(file: IO[bytes], graph: Graph, *, creates: bool) -> Iterator[Line]:
    """Yield the lines that are not blank. creates: whether ids only link the lines. Raises OSError.

    A line with an id updates that resource; others add one, or merge with it.
    """
    for number, text in enumerate(iter(partial(file.readline, _MAX_LINE + 1), b""), 1):
        if len(text) > _MAX_LINE:
            yield Line(number, defect=f"The line is longer than {_MAX_LINE:,} bytes.")
            rest = text
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(_MAX_LINE)
        elif not text.isspace():
            try:
                yield _line(number, len(text), orjson.loads(text), graph, creates=creates)
            except orjson.JSONDecodeError as error:
                yield Line(number, defect=f"This is not JSON: {error}.")


def _line(number: int, size: int, data: Any, graph: Graph, *, creates: bool) -> Line:
    resource = graph.get(str(member(data, "type")))
    if not isinstance(data, dict) or resource is None:
        types = ", ".join(graph)
        return Line(number, defect=f"This is not a resource object of one of these types: {types}.")
    if isinstance(attributes := data.get("attributes"), dict):
        # Exports have them; a creation must not.
        data["attributes"] = {
            name: value for name, value in attributes.items() if not resource.is_read_only(name)
        }
    for identifier in [data, *_linked(data)] if creates else ():
        if "id" in identifier:
            identifier["lid"] = f"id {identifier.pop('id')}"
    values = (member(data, "attributes", name) for name in resource.unique)
    has_unique = any(value is not None for value in values)
    operation = {"op": "update" if "id" in data else "add", "data": data}
    return Line(number, operation, "id" in data or (has_unique and not creates), size)


def _linked(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the resource identifiers in the relationships of a resource object."""
    relationships = member(data, "relationships")
    for relationship in relationships.values() if isinstance(relationships, dict) else ():
        linkage = member(relationship, "data")
        for identifier in linkage if isinstance(linkage, list) else [linkage]:
            if isinstance(identifier, dict):
                yield identifier


class LineWriter:
    """Stores lines by a client. rolls_back: whether nothing is stored in the end."""

    def __init__(self, client: Client, *, rolls_back: bool) -> None:
        self._client, self._rolls_back = client, rolls_back
        self._effects = {name: Counter[str]() for name in ("created", "updated", "unchanged")}
        self._ids = sqlite3.connect("")  # of the resources with local ids; most not in memory
        self._ids.execute("CREATE TABLE ids (type, lid, id, PRIMARY KEY (type, lid))")

    async def report(self, lines: Iterable[Line]) -> AsyncIterator[Document]:
        """Store lines; yield a report such as the service sends for a file of rows.

        Raises RegistryError, or what reading a line does.
        """
        counts: dict[str, Any] = {"rows": 0, "invalid": 0, **self._effects}
        with closing(self._ids):
            for batch in _batches(lines):
                errors = await self._store(batch)
                counts["rows"] += len(batch)
                counts["invalid"] += len({error["source"]["line"] for error in errors})
                yield {"errors": errors, "meta": counts}
        yield {"meta": counts | {"complete": True}}

    async def _store(self, batch: Sequence[Line]) -> list[Document]:
        """Store a batch without the lines that are not valid; return the errors."""
        valid = {line.number: line.operation for line in batch if line.operation}
        errors = [_error(line.number, line.defect) for line in batch if not line.operation]
        preferences = [ROLL_BACK] * self._rolls_back + [MERGE] * batch[0].merges
        while valid:
            for operation in valid.values():
                self._link(operation["data"])
            try:
                results = await self._client.execute(
                    [*valid.values()], prefer=", ".join(preferences)
                )
            except RegistryError as error:
                refused = _refused(error, [*valid]) if error.status in _REJECTED else []
                if not refused:
                    raise
                errors += refused
                for each in refused:
                    valid.pop(each["source"]["line"], None)
            else:
                for operation, result in zip(valid.values(), results, strict=True):
                    self._count(operation, result)
                break
        return sorted(errors, key=lambda error: error["source"]["line"])

    def _link(self, data: dict[str, Any]) -> None:
        """Let relationships lead to what earlier requests have added."""
        for identifier in _linked(data):
            key = (str(identifier.get("type")), str(identifier.get("lid")))
            query = "SELECT id FROM ids WHERE type = ? AND lid = ?"
            if found := self._ids.execute(query, key).fetchone():
                del identifier["lid"]
                identifier["id"] = found[0]
                if self._rolls_back:  # it is not stored
                    data.pop("relationships", None)

    def _count(self, operation: Document, result: Document) -> None:
        data = operation["data"]
        usual = "created" if operation["op"] == "add" else "updated"
        self._effects[member(result, "meta", "effect") or usual][data["type"]] += 1
        if lid := data.get("lid"):
            row = (data["type"], str(lid), member(result, "data", "id"))
            self._ids.execute("INSERT OR REPLACE INTO ids VALUES (?, ?, ?)", row)


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield lines that one request can have: all of them merge, or none does."""
    batch, size = list[Line](), 0
    for line in lines:
        is_full = len(batch) == _MAX_OPERATIONS or size + line.size > _MAX_BYTES
        if batch and (is_full or line.merges != batch[0].merges):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += line.size
    if batch:
        yield batch


def _refused(error: RegistryError, numbers: Sequence[int]) -> list[Document]:
    """Return the errors of operations that the service has refused. numbers: of their lines."""
    places = [_POINTER.fullmatch(str(member(each, "source", "pointer"))) for each in error.errors]
    return [
        _error(numbers[int(place[1])], each["detail"], place[2])
        for each, place in zip(error.errors, places, strict=True)
        if place
    ]


def _error(line: int, detail: str, column: str | None = None) -> Document:
    source = {"line": line, "column": column} if column else {"line": line}
    return {"detail": detail, "source": source}
