"""Plans: what identifies the resource of a row, and the operations that store it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from registry.model.attributes.identifier import parse_id
from registry.model.graph import Graph
from registry.transfer.client import Document, Operation
from registry.transfer.lookups import ResourceKey, key_of
from registry.transfer.rows import ID, LID, InvalidRow, Row, Values, to_one

CREATED, CHANGED, UNCHANGED = "created", "changed", "left unchanged"


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to import.

    keys: by type, the names of the attributes that tell resources apart, if not the ids. creates:
    whether each row is a new resource. labels: the types whose ids only link the rows of the file.
    keeps_empty: whether an empty value leaves what is stored as it is. is_dry: whether to check the
    rows only, and store nothing.
    """

    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    creates: bool = False
    labels: frozenset[str] = frozenset()
    keeps_empty: bool = False
    is_dry: bool = False


class Keys:
    """What identifies resources: ids, named or declared attributes, or all values."""

    def __init__(self, graph: Graph, options: ImportOptions) -> None:
        self._graph = graph
        self._options = options

    def of(self, row: Row) -> ResourceKey | None:
        """Return the key of the resource of a row; None if it is a new one, or its id is wrong."""
        if self._options.creates:
            return None
        if row.id is not None and row.type not in self._options.labels:
            return (row.type, (ID,), (row.id,)) if parse_id(row.id) else None
        return self._of_values(row.type, row.values)

    def of_link(self, row: Row, name: str) -> ResourceKey | None:
        """Return the key of a target; None if there is none, or the file has only a label of it."""
        link, target = row.links[name], to_one(self._graph[row.type])[name].target
        if (
            not link
            or LID in link
            or (ID in link and (target in self._options.labels or len(link) == 1))
        ):
            return None
        return (target, (ID,), (link[ID],)) if ID in link else self._of_values(target, link)

    def is_missing(self, row: Row) -> bool:
        """Return whether a row has nothing that identifies its resource but all of its values."""
        is_by_id = row.id is not None and row.type not in self._options.labels
        return not is_by_id and not self._names(row.type, row.values)

    def _of_values(self, type_name: str, values: Values) -> ResourceKey:
        names = self._names(type_name, values)
        if all(values.get(name) is None for name in names):
            names = tuple(sorted(values))
        return key_of(self._graph, type_name, names, values)

    def _names(self, type_name: str, values: Values) -> tuple[str, ...]:
        if type_name in self._options.keys:
            return self._options.keys[type_name]
        resource = self._graph[type_name]
        unique = [name for name in values if name in resource.unique_attributes]
        addresses = [name for name in values if resource.readable[name].ignores_case]
        return tuple([*unique, *addresses][:1])


class Plan:
    """The operations of one request, in the order of the rows, and their effects.

    found: stored resources by key. labels: the ids of resources of earlier requests, by type, `id`
    or `lid`, and its value in the file.
    """

    def __init__(
        self,
        graph: Graph,
        options: ImportOptions,
        found: Mapping[ResourceKey, Sequence[Document]],
        labels: Mapping[Any, str],
    ) -> None:
        self._graph = graph
        self._options = options
        self._keys = Keys(graph, options)
        self._found = found
        self._labels = labels
        self._lids: dict[Any, str] = {}
        self.rows: list[Row] = []
        self.operations: list[Operation] = []
        self.origins: list[tuple[Row, str]] = []
        """Of each operation, the row, and a prefix of columns: `owner.` if it creates a target."""
        self.effects: Counter[tuple[str, str]] = Counter()
        self.new_targets: dict[ResourceKey, tuple[int, Values]] = {}
        """The operation that creates each, and its attributes."""
        self.ids: list[tuple[Row, int | str]] = []
        """The id of the resource of each row, or the operation that creates it."""

    def add(self, row: Row) -> None:
        """Add the operations for a row. Raises InvalidRow, and then adds none."""
        key = self._keys.of(row)
        stored = self._match(row, key, "")
        if stored is None:
            self._check_new(row, key)
        created: dict[ResourceKey, tuple[str, Values]] = {}
        linkage = {name: self._linkage(row, name, created) for name in row.links}
        for target, (prefix, values) in created.items():
            self.new_targets[target] = len(self.operations), values
            self._create(row, prefix, target, {"type": target[0], "attributes": values})
        self.rows.append(row)
        if stored is not None:
            self._update(row, key, stored, linkage)
            return
        self.ids.append((row, len(self.operations)))
        links = {name: {"data": data} for name, data in linkage.items() if data}
        data = {"type": row.type, "attributes": row.values}
        lid = (row.type, ID, row.id) if row.lid is None else (row.type, LID, row.lid)
        self._create(row, "", lid, {**data, "relationships": links} if links else data)

    def _check_new(self, row: Row, key: ResourceKey | None) -> None:
        if (
            row.id is not None
            and not self._options.creates
            and row.type not in self._options.labels
        ):
            reason = f"no {row.type} {row.id} is stored: to import the data of another registry, "
            raise InvalidRow(row.line, (ID, f"{reason}use --create, or --key with what it has"))
        if key in self.new_targets:
            raise InvalidRow(row.line, (None, "created by an earlier row: import the file again"))
        self._check_complete(row, row.type, row.values, "")

    def _check_complete(self, row: Row, type_name: str, values: Values, prefix: str) -> None:
        resource = self._graph[type_name]
        required = {name for name, one in resource.attributes.items() if one.required}
        defects = [
            (f"{prefix}{one}", f"required for a new {type_name}") for one in required - {*values}
        ]
        defects += [
            (f"{prefix}{one}", f"no {type_name} has this, and it is read-only")
            for one in values.keys() - resource.writable
        ]
        if defects:
            raise InvalidRow(row.line, *sorted(defects))

    def _match(self, row: Row, key: ResourceKey | None, prefix: str) -> Document | None:
        found = self._found.get(key, ()) if key else ()
        if key and len(found) > 1:
            ids = ", ".join(each[ID] for each in found[:5])
            count = f"{len(found)} {self._graph[key[0]].collection}"
            raise InvalidRow(
                row.line, (f"{prefix}{key[1][0]}", f"ambiguous: {count} match ({ids})")
            )
        return found[0] if found else None

    def _linkage(self, row: Row, name: str, created: dict[ResourceKey, tuple[str, Values]]) -> Any:
        """Return the data of a relationship; a target that has to be created is added."""
        link, key, prefix = row.links[name], self._keys.of_link(row, name), f"{name}."
        if link is None or key is None:
            return link and self._labelled(row, name, link)
        stored = self._match(row, key, prefix)
        if stored is None and ID in link:
            raise InvalidRow(row.line, (f"{prefix}{ID}", f"no {key[0]} {link[ID]} is stored"))
        if stored is not None:
            known = stored["attributes"]
        elif earlier := self.new_targets.get(key) or created.get(key):
            known = earlier[1]
        else:
            self._check_complete(row, key[0], link, prefix)
            known = link
            created[key] = prefix, link
        # In a dry run, what an earlier request would create has no id.
        origin = f"{key[0]} {stored[ID]}" if stored and stored[ID] else "an earlier row"
        defects = [
            (f"{prefix}{one}", f"{origin} has {known.get(one)!r}")
            for one, value in link.items()
            if one not in key[1] and known.get(one) != value
        ]
        if defects:
            raise InvalidRow(row.line, *defects)
        if stored is None:
            return {"type": key[0], LID: self._lid(key)}
        return {"type": key[0], ID: stored[ID]} if stored[ID] else None

    def _labelled(self, row: Row, name: str, link: Values) -> Document | None:
        """Return the data of a relationship to what the file names by an id or a local id."""
        target = to_one(self._graph[row.type])[name].target
        kind = ID if ID in link else LID
        place = target, kind, link[kind]
        if place in self._lids:
            return {"type": target, LID: self._lids[place]}
        if place in self._labels:
            return {"type": target, ID: self._labels[place]} if self._labels[place] else None
        if kind == LID or target in self._options.labels:
            raise InvalidRow(row.line, (name, f"no earlier line has the {target} {link[kind]}"))
        return {"type": target, ID: link[ID]}

    def _update(
        self, row: Row, key: ResourceKey | None, stored: Document, linkage: Mapping[str, Any]
    ) -> None:
        keeps, known = self._options.keeps_empty, stored["attributes"]
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
            if data != _identifier(links[name]["data"]) and not (keeps and data is None)
        }
        self.ids.append((row, stored[ID]))
        self.effects[CHANGED if values or changed else UNCHANGED, row.type] += 1
        if values or changed:
            data = {"type": row.type, ID: stored[ID], "attributes": values}
            self._operate(row, "", "update", {**data, "relationships": changed})

    def _create(self, row: Row, prefix: str, lid: Any, data: Document) -> None:
        self._operate(row, prefix, "add", {**data, LID: self._lid(lid)})
        self.effects[CREATED, data["type"]] += 1

    def _operate(self, row: Row, prefix: str, op: str, data: Document) -> None:
        self.operations.append({"op": op, "data": data})
        self.origins.append((row, prefix))

    def _lid(self, place: Any) -> str:
        if place[-1] is None:  # a row without a label: no other refers to it
            place = len(self._lids)
        return self._lids.setdefault(place, str(len(self._lids)))


def _identifier(data: Document | None) -> Document | None:
    return data and {"type": data["type"], ID: data[ID]}
