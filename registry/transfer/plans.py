"""Plans: the operations that store rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from registry.client.client_documents import Document
from registry.model.graph import Graph
from registry.transfer.lookups import ImportOptions
from registry.transfer.rows import ID, LID, Mention, ResourceKey, Row

_EFFECTS = {"add": "created", "update": "changed"}


class Plan:
    """The operations of one request, in the order of the rows.

    known: the resources of keys that are stored, or that earlier requests have created; these have
    no linkage, and in a dry run no id. size: of the operations, in bytes.
    """

    def __init__(
        self, graph: Graph, options: ImportOptions, known: Mapping[ResourceKey, Sequence[Document]]
    ) -> None:
        self._graph = graph
        self._options = options
        self._known = known
        self._own: dict[ResourceKey, Document] = {}
        """The same of this plan. The local id of a new resource is the index of its operation."""
        self._unchanged: list[Row] = []
        self.rows: list[Row] = []
        self.size = 0
        self.operations: list[Document] = []
        self.origins: list[tuple[Row, str]] = []
        """Of each operation, the row, and a prefix of columns: `owner.` if it creates a target."""

    @property
    def effects(self) -> Counter[tuple[str, str]]:
        """How many resources the request creates, changes, and leaves, by effect and type."""
        counts = Counter((_EFFECTS[one["op"]], one["data"]["type"]) for one in self.operations)
        counts.update(("left unchanged", row.type) for row in self._unchanged)
        return counts

    @property
    def can_merge(self) -> bool:
        """Whether others may create at the same time what it creates, without a second one."""
        added = [one["data"] for one in self.operations if one["op"] == "add"]
        return not self._options.creates and all(
            any(one["attributes"].get(name) is not None for name in unique)
            for one in added
            for unique in [self._graph[one["type"]].unique_attributes]
        )

    def results(self, ids: Sequence[str | None]) -> dict[ResourceKey, Document]:
        """Return what later rows may mention. ids: of the results of the operations."""
        return {
            key: {ID: ids[int(one[LID])] if LID in one else one[ID], "attributes": values}
            for key, one in self._own.items()
            for values in [one.get("attributes")]
        }

    def add(self, row: Row) -> None:
        """Add the operations for a row, unless it is rejected."""
        number = len(self.operations)
        self._add(row)
        if row.defects:
            del self.operations[number:], self.origins[number:]
            self._own = {
                key: one for key, one in self._own.items() if int(one.get(LID, -1)) < number
            }
        else:
            self.rows.append(row)

    def _add(self, row: Row) -> None:
        stored = self._find(row, row)
        if stored is None and row.id is not None:
            reason = f"no {row.type} {row.id} is stored: to import the data of another registry, "
            row.reject(ID, f"{reason}use --create, or --key with what it has")
        linkage = {
            name: target and self._linkage(row, target)
            for name, target in row.links.items()
            if not row.defects
        }
        if row.defects:
            return
        if stored is None:
            relationships = {name: {"data": data} for name, data in linkage.items() if data}
            stored = self._create(row, row, relationships=relationships)
        else:
            self._update(row, stored, linkage)
        if row.label:
            self._own[row.label] = _reference(stored)

    def _find(self, row: Row, mention: Mention) -> Document | None:
        """Return the resource that is mentioned; if several may be, the row is rejected."""
        if mention.key is None:
            return None
        own = self._own.get(mention.key)
        found = self._known.get(mention.key, ()) if own is None else [own]
        if len(found) > 1:
            ids = ", ".join(each[ID] for each in found[:5])
            reason = f"ambiguous: {len(found)} {self._graph[mention.type].collection} match ({ids})"
            row.reject(f"{mention.prefix}{mention.key[1][0]}", reason)
        return found[0] if found else None

    def _linkage(self, row: Row, target: Mention) -> Document | None:
        """Return the data of a relationship, None if a dry run would create the target.

        The row is rejected if the target cannot be found or created, or if a column differs.
        """
        found, key = self._find(row, target), target.key
        if row.defects:
            return None
        if key is None or (found is None and target.id is not None):
            return {"type": target.type, ID: target.id}  # the service knows whether it is stored
        if found is None and target.lid is not None:
            row.reject(target.prefix[:-1], f"no earlier line has the {target.type} {target.lid}")
            return None
        if found is None:
            attributes = self._graph[target.type].attributes
            required = [name for name, one in attributes.items() if one.required]
            for name in required:
                if name not in target.values:
                    row.reject(target.prefix + name, f"required for a new {target.type}")
            found = self._own[key] = self._create(row, target)
        known, names = found.get("attributes") or {}, key[1]
        origin = f"{target.type} {found[ID]}" if found.get(ID) else "an earlier row"
        for name, value in target.values.items():
            if name not in names and known.get(name) != value:
                row.reject(f"{target.prefix}{name}", f"{origin} has {known.get(name)!r}")
        reference = _reference(found)
        return {"type": target.type, **reference} if any(reference.values()) else None

    def _create(self, row: Row, mention: Mention, **members: Any) -> Document:
        lid = {"type": mention.type, LID: str(len(self.operations))}
        data = {**lid, "attributes": mention.values, **members}
        self._operate("add", row, mention.prefix, data)
        return data

    def _update(self, row: Row, stored: Document, linkage: Mapping[str, Any]) -> None:
        keeps, known, key = self._options.keeps_empty, stored["attributes"], row.key
        links = stored.get("relationships", {})
        values = {
            name: value
            for name, value in row.values.items()
            # A key found the resource, perhaps without regard to case.
            if value != known.get(name) and not (key and name in key[1])
            if not (keeps and value is None)
        }
        changed = {
            name: {"data": data}
            for name, data in linkage.items()
            if data != links.get(name, {}).get("data") and not (keeps and data is None)
        }
        reference = _reference(stored)
        if (values or changed) and any(reference.values()):
            data = {"type": row.type, **reference, "attributes": values}
            self._operate("update", row, "", {**data, "relationships": changed})
        else:
            self._unchanged.append(row)

    def _operate(self, op: str, row: Row, prefix: str, data: Document) -> None:
        self.operations.append({"op": op, "data": data})
        self.size += len(orjson.dumps(data))
        self.origins.append((row, prefix))


def _reference(found: Document) -> Document:
    """Return the id or the local id of a resource; the id is None if a dry run would create it."""
    name = LID if LID in found else ID
    return {name: found[name]}
