"""The lines of an NDJSON file, each a resource object, as atomic operations in batches."""

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import IO, Any

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


@dataclass(slots=True)
class Line:
    """A line. number: from 1. merges: whether it may update what has its unique value.

    operation: an atomic operation, None if the line is not valid: then `defect` says why.
    """

    number: int
    operation: dict[str, Any] | None = None
    merges: bool = True
    size: int = 0
    defect: str = ""


def read_lines(file: IO[bytes], graph: Graph, *, creates: bool) -> Iterator[Line]:
    """Yield the lines that are not blank. creates: whether ids only link the lines. Raises OSError.

    A line with an id updates that resource; others add one, or merge with it.
    """
    for number, text in enumerate(_texts(file), 1):
        if text.isspace():
            continue
        line = Line(number, size=len(text))
        if len(text) > _MAX_LINE:
            line.defect = f"The line is longer than {_MAX_LINE:,} bytes."
        else:
            try:
                _read(line, orjson.loads(text), graph, creates=creates)
            except orjson.JSONDecodeError as error:
                line.defect = f"This is not JSON: {error}."
        yield line


def _texts(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file; of one that is too long, only the beginning."""
    while text := file.readline(_MAX_LINE + 1):
        yield text
        while len(text) > _MAX_LINE and not text.endswith(b"\n"):
            text = file.readline(_MAX_LINE + 1)


def _read(line: Line, data: Any, graph: Graph, *, creates: bool) -> None:
    resource = graph.get(str(member(data, "type")))
    if not isinstance(data, dict) or resource is None:
        line.defect = f"This is not a resource object of one of these types: {', '.join(graph)}."
        return
    if isinstance(attributes := data.get("attributes"), dict):
        # Exports have them; a creation must not.
        data["attributes"] = {
            name: value for name, value in attributes.items() if not resource.is_read_only(name)
        }
    if creates:
        for identifier in [data, *_linked(data)]:
            if "id" in identifier:
                identifier["lid"] = f"id {identifier.pop('id')}"
    if "id" in data:
        line.operation = {"op": "update", "data": data}
        return
    line.operation = {"op": "add", "data": data}
    sent = member(data, "attributes")
    values = [member(sent, name) for name in resource.unique]
    line.merges = not creates and any(value is not None for value in values)


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
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._rows = self._invalid = 0
        self._ids = sqlite3.connect("")  # of the resources with local ids; most not in memory
        self._ids.execute("CREATE TABLE ids (type, lid, id, PRIMARY KEY (type, lid))")

    async def store(
        self, lines: Iterable[Line]
    ) -> AsyncGenerator[tuple[Sequence[Document], Document]]:
        """Yield the errors of each batch, and the counts so far, as reports of the service are.

        Raises RegistryError, or what reading a line does.
        """
        with closing(self._ids):
            for batch in _batches(lines):
                errors = await self._store(batch)
                self._rows += len(batch)
                self._invalid += len({error["source"]["line"] for error in errors})
                counts = {name: self._counts[name] for name in ("created", "updated", "unchanged")}
                yield errors, {"rows": self._rows, "invalid": self._invalid, **counts}

    async def _store(self, lines: Sequence[Line]) -> list[Document]:
        """Store a batch without the lines that are not valid; return the errors."""
        errors: list[Document] = [
            {"detail": line.defect, "source": {"line": line.number}}
            for line in lines
            if line.operation is None
        ]
        valid = [line for line in lines if line.operation is not None]
        while operations := [line.operation for line in valid if line.operation]:
            for operation in operations:
                self._link(operation["data"])
            preferences = [ROLL_BACK] * self._rolls_back + [MERGE] * valid[0].merges
            try:
                results = await self._client.execute(operations, prefer=", ".join(preferences))
            except RegistryError as error:
                refused = _refused(error, valid) if error.status in _REJECTED else {}
                if not refused:
                    raise
                errors += [each for some in refused.values() for each in some]
                valid = [line for line in valid if line.number not in refused]
                continue
            for operation, result in zip(operations, results, strict=True):
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
        self._counts[member(result, "meta", "effect") or usual][data["type"]] += 1
        if lid := data.get("lid"):
            row = (data["type"], str(lid), member(result, "data", "id"))
            self._ids.execute("INSERT OR REPLACE INTO ids VALUES (?, ?, ?)", row)


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield lines that one request can have: all of them merge, or none that adds."""
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


def _refused(error: RegistryError, lines: Sequence[Line]) -> dict[int, list[Document]]:
    """Return the errors of the lines whose operations a service has refused, by their numbers."""
    refused = defaultdict[int, list[Document]](list)
    for each in error.errors:
        if match := _POINTER.fullmatch(str(member(each, "source", "pointer"))):
            number = lines[int(match[1])].number
            column = {"column": match[2]} if match[2] else {}
            source = {"line": number, **column}
            refused[number].append({"detail": each["detail"], "source": source})
    return refused
