"""What tells the resources of rows apart, and finding those that are stored."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import orjson

from registry.client import Client
from registry.client.client_documents import Document, understood
from registry.model.graph import Graph
from registry.model.implicit_attributes import parse_id
from registry.transfer.rows import ID, LID, Mention, ResourceKey, Row, Values

_MAX_CONDITIONS = 240
"""Conditions of one request: a filter may have 250."""

_MAX_VALUES = 100
"""Values per condition: an index serves so many in the order of the ids."""

_MAX_BYTES = 20_000
"""Bytes of the values in a URL, where each takes up to three characters: half of what the service
accepts."""


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


class Lookups:
    """Tells which resources rows mean, and finds them in the service."""

    def __init__(self, client: Client, graph: Graph, options: ImportOptions) -> None:
        self._client = client
        self._graph = graph
        self._options = options
        self._addresses = {
            type_name: {name for name, one in resource.readable.items() if one.ignores_case}
            for type_name, resource in graph.items()
        }

    def identify(self, row: Row) -> None:
        """Set the keys of a row and of its targets, and the label of the row."""
        for one in row.mentions:
            if one.id is not None and one.type in self._options.labels:
                one.id, one.lid = None, f"id {one.id}"
            label = None if one.lid is None else (one.type, (LID,), (one.lid,))
            if one is row:
                row.label, label = label, None
            if label is not None:
                one.key = label
            elif one.id is not None:
                is_known = (one is row or one.values) and parse_id(one.id)
                one.key = (one.type, (ID,), (one.id,)) if is_known else None
            elif one.values and (one is not row or not self._options.creates):
                one.key = self._key_of_values(one)

    def has_key(self, row: Row) -> bool:
        """Return whether less than all of its values can tell which resource a row means."""
        return row.id is not None or bool(self._names(row))

    def _key_of_values(self, mention: Mention) -> ResourceKey:
        names, values = self._names(mention), mention.values
        if all(values.get(name) is None for name in names):
            names = tuple(sorted(values))
        return self._key(mention.type, names, values)

    def _names(self, mention: Mention) -> tuple[str, ...]:
        """Return the names of what tells a resource apart: named, unique, or an address."""
        if mention.type in self._options.keys:
            return self._options.keys[mention.type]
        unique, addresses = self._graph[mention.type].unique_attributes, self._addresses
        names = [name for name in mention.values if name in unique]
        names += [name for name in mention.values if name in addresses[mention.type]]
        return tuple(names[:1])

    def _key(self, type_name: str, names: tuple[str, ...], values: Values) -> ResourceKey:
        """Return a key, the same for values that differ only in a case that is ignored."""
        addresses = self._addresses[type_name]
        chosen = [
            value.casefold() if name in addresses and value else value
            for name in names
            for value in [values.get(name)]
        ]
        return type_name, names, tuple(chosen)

    async def find(self, mentions: Iterable[Mention]) -> dict[ResourceKey, list[Document]]:
        """Return the stored resources of each key, with their linkage. Raises RegistryError."""
        wanted = {
            one.key: {**one.values, ID: one.id}
            for one in mentions
            if one.key and one.key[1] != (LID,)
        }
        requests = [
            self._read(type_name, conditions)
            for (type_name, names), group in groupby(sorted(wanted, key=_shape), _shape)
            for conditions in self._filters(type_name, names, [wanted[key] for key in group])
        ]
        shapes = defaultdict[str, set[tuple[str, ...]]](set)
        for type_name, names, _ in wanted:
            shapes[type_name].add(names)
        found: defaultdict[ResourceKey, dict[str, Document]] = defaultdict(dict)
        resources = [each for read in await asyncio.gather(*requests) for each in read]
        with understood(", /".join(self._graph[type_name].collection for type_name in shapes)):
            for resource in resources:
                type_name, id_ = resource["type"], resource[ID]
                for names in shapes[type_name]:
                    key = self._key(type_name, names, {**resource["attributes"], ID: id_})
                    if key in wanted:
                        found[key][id_] = resource
        return {key: list(by_id.values()) for key, by_id in found.items()}

    async def _read(self, type_name: str, conditions: Sequence[Any]) -> list[Document]:
        resource = self._graph[type_name]
        parameters = [("filter", orjson.dumps(conditions).decode())]
        if links := resource.to_one:
            parameters.append(("include", ",".join(links)))
            targets = {link.target for link in links.values()} - {type_name}
            parameters += [(f"fields[{target}]", ID) for target in sorted(targets)]
        pages = self._client.pages(resource.collection, parameters)
        return [each async for document in pages for each in document["data"]]

    def _filters(
        self, type_name: str, names: Sequence[str], wanted: Iterable[Values]
    ) -> Iterator[list[Any]]:
        """Yield filters in JSON, which together match all that is wanted."""
        addresses = self._addresses[type_name]
        spellings = [
            [_spellings(values.get(name), ignores_case=name in addresses) for name in names]
            for values in wanted
        ]
        if len(names) == 1:
            texts = dict.fromkeys(text for (some,) in spellings for text in some)
            for part in _parts(list(texts), _MAX_VALUES):
                yield [{"name": names[0], "op": "in", "val": part}]
            return
        alternatives = [
            {
                "and": [
                    {"name": name, "op": "in", "val": some}
                    for name, some in zip(names, each, strict=True)
                ]
            }
            for each in spellings
        ]
        for part in _parts(alternatives, _MAX_CONDITIONS // len(names)):
            yield [{"or": part}]


def _shape(key: ResourceKey) -> tuple[str, tuple[str, ...]]:
    return key[:2]


def _spellings(value: Any, *, ignores_case: bool) -> list[Any]:
    """Return a value, in all usual spellings if its case is ignored: filters regard it."""
    if not ignores_case or value is None:
        return [value]
    local, at, domain = value.lower().partition("@")
    usual = [f"{each}{at}{domain}" for each in (local, local.title(), local.capitalize())]
    return list(dict.fromkeys([value, *usual, value.upper()]))


def _parts(items: Sequence[Any], count: int) -> Iterator[list[Any]]:
    """Divide conditions or values into what one request can have."""
    part: list[Any] = []
    length = 0
    for item in items:
        size = len(orjson.dumps(item))
        if part and (len(part) == count or length + size > _MAX_BYTES):
            yield part
            part, length = [], 0
        part.append(item)
        length += size
    if part:
        yield part
