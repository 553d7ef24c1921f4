"""Plans: the operations that store rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from registry.client.transport import Document
from registry.model.graph import Graph
from registry.transfer.lookups import ImportOptions, Known
from registry.transfer.row_files import ID, LID, InvalidFile, Mention, ResourceKey, Row

_EFFECTS = {"add": "created", "update": "changed"}


@dataclass
class Plan:
    """The operations of one request, in the order of the rows.

    known: the resources of keys that are stored, or that earlier requests have stored. origins: of
    each operation, the row, and a prefix of columns: `owner.` if it creates a target. size: of the
    operations, in bytes.
    """

    graph: Graph
    options: ImportOptions
    known: Mapping[ResourceKey, Sequence[Known]]
    rows: list[Row] = field(default_factory=list)
    operations: list[Document] = field(default_factory=list)
    origins: list[tuple[Row, str]] = field(default_factory=list)
    size: int = 0
    _own: dict[ResourceKey, Known] = field(default_factory=dict)
    _unchanged: list[Row] = field(default_factory=list)

    @property
    def effects(self) -> list[tuple[str, str]]:
        """The effect of the request on each resource, and its type."""
        changed = [
            (_EFFECTS[operation["op"]], operation["data"]["type"]) for operation in self.operations
        ]
        return changed + [("left unchanged", row.type) for row in self._unchanged]

    @property
    def can_merge(self) -> bool:
        """Whether others may create at the same time what it creates, without a second one."""
        return not self.options.creates and all(
            any(operation["data"]["attributes"].get(name) is not None for name in unique)
            for operation in self.operations
            for unique in [self.graph[operation["data"]["type"]].unique_attributes]
            if operation["op"] == "add"
        )

    def results(self, ids: Sequence[str | None]) -> dict[ResourceKey, Known]:
        """Return what later rows may mention. ids: of the results, None for those of a dry run."""
        results = {}
        for key, mention in self._own.items():
            identifier = mention.identifier
            if identifier and LID in identifier:
                id_ = ids[int(identifier[LID])]
                identifier = {"type": key[0], ID: id_} if id_ else None
            results[key] = Known(identifier, mention.values, line=mention.line)
        return results

    def add(self, row: Row) -> None:
        """Add the operations for a row, unless it is rejected.

        Raises InvalidFile if nothing but all of its values tells it apart from one before.
        """
        number, count = len(self.operations), len(self._own)
        stored = self._find(row, row)
        if stored and (stored.line or (ID in stored.values and not row.is_named)):
            self._reject_repeated(row, stored)
        linkage = {
            name: None if target is None else self._target(row, target)
            for name, target in row.links.items()
        }
        if row.defects:
            del self.operations[number:], self.origins[number:]
            while len(self._own) > count:
                self._own.popitem()
            return
        if stored is None:
            relationships = {name: {"data": data} for name, data in linkage.items() if data}
            stored = self._create(row, row, relationships=relationships)
        else:
            stored = self._update(row, stored, linkage)
        for key in filter(None, (row.key, row.label)):
            self._own[key] = stored
        self.rows.append(row)

    def _find(self, row: Row, mention: Mention) -> Known | None:
        """Return the resource that is mentioned, None for a new one.

        The row is rejected if several may be, or if none has the id or local id.
        """
        if mention.key is None:
            return None
        own, names = self._own.get(mention.key), mention.key[1]
        found = self.known.get(mention.key, ()) if own is None else [own]
        if len(found) > 1:
            ids = ", ".join(each.values[ID] for each in found[:5])
            reason = f"ambiguous: {len(found)} {self.graph[mention.type].collection} match ({ids})"
            row.reject(f"{mention.prefix}{names[0]}", reason)
        elif not found and ID in mention.values:
            reason = f"no {mention.type} {mention.values[ID]} is stored: to import the data of"
            remedy = "another registry, use NDJSON with --create, or --key with what it has"
            row.reject(f"{mention.prefix}{ID}", f"{reason} {remedy}")
        elif not found and names == (LID,):
            reason = f"no earlier line has the {mention.type} {mention.lid}"
            row.reject(mention.prefix[:-1], reason)
        return found[0] if found else None

    def _reject_repeated(self, row: Row, stored: Known) -> None:
        origin = f"line {stored.line}"
        if not stored.line:
            origin = f"what is stored, {row.type} {stored.values[ID]}"
        if row.is_named and row.key:
            names = row.key[1]
            row.reject(names[0], f"repeats {origin}: the same {', '.join(names)}")
            return
        raise InvalidFile(
            f"line {row.line} repeats {origin}. Name what tells "
            f"{self.graph[row.type].collection} apart with --key, one or more of "
            f"{', '.join(row.values)}, so that nothing is stored twice; or use --create to create "
            "a new resource from each row"
        )

    def _target(self, row: Row, target: Mention) -> Document | None:
        """Return the data of a relationship, None if a dry run would create the target.

        The row is rejected if the target cannot be found or created, or if a column differs.
        """
        found, key = self._find(row, target), target.key
        if row.defects or key is None:
            return None
        if found is None:
            for name, attribute in self.graph[target.type].attributes.items():
                if attribute.required and name not in target.values:
                    row.reject(target.prefix + name, f"required for a new {target.type}")
            found = self._own[key] = self._create(row, target)
        id_ = found.identifier and found.identifier.get(ID)
        origin = f"{target.type} {id_}" if id_ else "an earlier row"
        for name, value in target.values.items():
            if name not in key[1] and found.values.get(name) != value:
                row.reject(f"{target.prefix}{name}", f"{origin} has {found.values.get(name)!r}")
        return found.identifier

    def _create(self, row: Row, mention: Mention, **members: Any) -> Known:
        """Add a resource; its local id is the index of its operation."""
        identifier = {"type": mention.type, LID: str(len(self.operations))}
        data = {**identifier, "attributes": mention.values, **members}
        self._operate("add", row, mention.prefix, data)
        return Known(identifier, mention.values, line=row.line if mention is row else None)

    def _update(self, row: Row, stored: Known, linkage: Mapping[str, Document | None]) -> Known:
        keeps, key = self.options.keeps_empty, row.key
        values = {
            name: value
            for name, value in row.values.items()
            # A key found the resource, perhaps without regard to case.
            if value != stored.values.get(name) and not (key and name in key[1])
            if not (keeps and value is None)
        }
        changed = {
            name: {"data": data}
            for name, data in linkage.items()
            if data != stored.linkage.get(name) and not (keeps and data is None)
        }
        if (values or changed) and stored.identifier:
            data = {**stored.identifier, "attributes": values, "relationships": changed}
            self._operate("update", row, "", data)
        else:
            self._unchanged.append(row)
        return Known(stored.identifier, {**stored.values, **values}, line=row.line)

    def _operate(self, op: str, row: Row, prefix: str, data: Document) -> None:
        self.operations.append({"op": op, "data": data})
        self.size += len(orjson.dumps(data))
        self.origins.append((row, prefix))
