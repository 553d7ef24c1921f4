"""Plans: the operations that store rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from registry.client.transport import Document
from registry.model.graph import Graph
from registry.transfer.lookups import ImportOptions, Known
from registry.transfer.row_files import ID, LID, InvalidFile, Mention, ResourceKey, Row

_EFFECTS = {"add": "created", "update": "changed"}


class Plan:
    """The operations of one request, in the order of the rows.

    known: the resources of keys that are stored, or that earlier requests have stored. results:
    those of its own rows. size: of the operations, in bytes.
    """

    def __init__(
        self,
        graph: Graph,
        options: ImportOptions,
        known: Mapping[ResourceKey, Sequence[Known]],
    ) -> None:
        self._graph = graph
        self._options = options
        self._known = known
        self._own: dict[ResourceKey, Known] = {}
        self._unchanged: list[Row] = []
        self.rows: list[Row] = []
        self.size = 0
        self.operations: list[Document] = []
        self.origins: list[tuple[Row, str]] = []
        """Of each operation, the row, and a prefix of columns: `owner.` if it creates a target."""

    @property
    def effects(self) -> list[tuple[str, str]]:
        """The effect of the request on each resource, and its type."""
        changed = [(_EFFECTS[one["op"]], one["data"]["type"]) for one in self.operations]
        return changed + [("left unchanged", row.type) for row in self._unchanged]

    @property
    def can_merge(self) -> bool:
        """Whether others may create at the same time what it creates, without a second one."""
        return not self._options.creates and all(
            any(one["data"]["attributes"].get(name) is not None for name in unique)
            for one in self.operations
            for unique in [self._graph[one["data"]["type"]].unique_attributes]
            if one["op"] == "add"
        )

    def results(self, ids: Sequence[str | None]) -> dict[ResourceKey, Known]:
        """Return what later rows may mention. ids: of the results, None for those of a dry run."""
        results = {}
        for key, one in self._own.items():
            identifier = one.identifier
            if identifier and LID in identifier:
                id_ = ids[int(identifier[LID])]
                identifier = {"type": key[0], ID: id_} if id_ else None
            results[key] = replace(one, identifier=identifier)
        return results

    def add(self, row: Row) -> None:
        """Add the operations for a row, unless it is rejected.

        Raises InvalidFile if nothing but all of its values tells it apart from one before.
        """
        number, own = len(self.operations), list[ResourceKey]()
        stored = self._find(row, row)
        if stored is None and ID in row.values:
            self._reject_id(row, row)
        elif stored and row.key and (stored.line or not row.is_named):
            self._reject_repeated(row, row.key[1], stored)
        linkage = {
            name: None if target is None else self._target(row, target, own)
            for name, target in row.links.items()
            if not row.defects
        }
        if row.defects:
            del self.operations[number:], self.origins[number:]
            for each in own:
                del self._own[each]
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
        """Return the resource that is mentioned; if several may be, the row is rejected."""
        if mention.key is None:
            return None
        own = self._own.get(mention.key)
        found = self._known.get(mention.key, ()) if own is None else [own]
        if len(found) > 1:
            ids = ", ".join(each.values[ID] for each in found[:5])
            reason = f"ambiguous: {len(found)} {self._graph[mention.type].collection} match ({ids})"
            row.reject(f"{mention.prefix}{mention.key[1][0]}", reason)
        return found[0] if found else None

    def _reject_repeated(self, row: Row, names: tuple[str, ...], stored: Known) -> None:
        if row.is_named:
            row.reject(names[0], f"repeats line {stored.line}: the same {', '.join(names)}")
            return
        origin = f"line {stored.line}"
        if not stored.line:
            origin = f"what is stored, {row.type} {stored.values[ID]}"
        raise InvalidFile(
            f"line {row.line} repeats {origin}. Name what tells "
            f"{self._graph[row.type].collection} apart with --key, one or more of "
            f"{', '.join(row.values)}, so that nothing is stored twice; or use --create to create "
            "a new resource of each row"
        )

    def _reject_id(self, row: Row, mention: Mention) -> None:
        reason = f"no {mention.type} {mention.values[ID]} is stored: to import the data of another "
        remedy = "registry, use NDJSON with --create, or --key with what it has"
        row.reject(f"{mention.prefix}{ID}", f"{reason}{remedy}")

    def _target(self, row: Row, target: Mention, own: list[ResourceKey]) -> Document | None:
        """Return the data of a relationship, None if a dry run would create the target.

        The row is rejected if the target cannot be found or created, or if a column differs. own:
        the keys of the targets that the row creates.
        """
        found, key = self._find(row, target), target.key
        if row.defects or key is None:
            return None
        if found is None and ID in target.values:
            self._reject_id(row, target)
        elif found is None and target.lid is not None:
            row.reject(target.prefix[:-1], f"no earlier line has the {target.type} {target.lid}")
        elif found is None:
            attributes = self._graph[target.type].attributes
            for name, one in attributes.items():
                if one.required and name not in target.values:
                    row.reject(target.prefix + name, f"required for a new {target.type}")
            found = self._own[key] = self._create(row, target)
            own.append(key)
        if found is None:
            return None
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
        keeps, key = self._options.keeps_empty, row.key
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
