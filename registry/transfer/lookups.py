"""What tells the resources of rows apart, and finding those that are stored."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any
from urllib.parse import quote

import orjson

from registry.client import Client
from registry.client.transport import Document
from registry.model.graph import Graph
from registry.model.implicit_attributes import parse_id
from registry.transfer.row_files import ID, LID, Mention, ResourceKey, Row, Values

_MAX_BYTES = 7_000
"""Bytes of the values in a URL, so that servers in between accept it, which often take 8,190.

The values are thus fewer than 1,000, and the conditions fewer than 250, as a filter requires.
"""


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


@dataclass(frozen=True, slots=True)
class Known:
    """A resource that is stored, or that an earlier row adds.

    identifier: by its id, or in the same request its local id; None if a dry run would add it.
    values: with the id. linkage: the identifiers of targets by relationship. line: of the row that
    it is the resource of.
    """

    identifier: Document | None
    values: Values
    linkage: Mapping[str, Document | None] = field(default_factory=dict)
    line: int | None = None


@dataclass
class Lookups:
    """Tells which resources rows mean, and finds them in the service."""

    client: Client
    graph: Graph
    options: ImportOptions

    def __post_init__(self) -> None:
        self._addresses = {
            type_name: {
                name for name, attribute in resource.readable.items() if attribute.kind.ignores_case
            }
            for type_name, resource in self.graph.items()
        }

    def identify(self, row: Row) -> None:
        """Set the keys of a row and of its targets."""
        for mention in row.mentions:
            if ID in mention.values and mention.type in self.options.labels:
                mention.lid = f"id {mention.values.pop(ID)}"
            if mention is not row and mention.label:
                mention.key = mention.label
            elif mention.values and (mention is not row or not self.options.creates):
                names = self._names(mention)
                mention.is_named = bool(names)
                if all(mention.values.get(name) is None for name in names):
                    names = tuple(sorted(mention.values))
                mention.key = self._key(mention.type, names, mention.values)

    def _names(self, mention: Mention) -> tuple[str, ...]:
        """Return the names of what tells a resource apart: named, its id, unique, an address.

        There are none if only all values together do.
        """
        if mention.type in self.options.keys:
            return self.options.keys[mention.type]
        unique, addresses = self.graph[mention.type].unique_attributes, self._addresses
        possible = ({ID}, unique, addresses[mention.type])
        names = (name for some in possible for name in mention.values if name in some)
        return tuple(islice(names, 1))

    def _key(self, type_name: str, names: tuple[str, ...], values: Values) -> ResourceKey:
        """Return a key, the same for values that differ only in a case that is ignored."""
        addresses = self._addresses[type_name]
        chosen = [
            value.lower() if name in addresses and value else value
            for name in names
            for value in [values.get(name)]
        ]
        return type_name, names, tuple(chosen)

    async def find(self, mentions: Iterable[Mention]) -> dict[ResourceKey, list[Known]]:
        """Return the stored resources of each key. Raises RegistryError."""
        wanted = defaultdict[tuple[str, tuple[str, ...]], list[Values]](list)
        for mention in mentions:
            # What is not a valid id is in no resource, and must be in no filter.
            if mention.key and mention.key[1] != (LID,) and parse_id(mention.values.get(ID, "1")):
                wanted[mention.key[:2]].append(mention.values)
        requests = [
            self._read(*shape, conditions)
            for shape, values in wanted.items()
            for conditions in self._filters(*shape, values)
        ]
        found: defaultdict[ResourceKey, dict[str, Known]] = defaultdict(dict)
        for key, known in chain.from_iterable(await asyncio.gather(*requests)):
            found[key][known.values[ID]] = known
        return {key: list(by_id.values()) for key, by_id in found.items()}

    async def _read(
        self, type_name: str, names: tuple[str, ...], conditions: Sequence[Document]
    ) -> list[tuple[ResourceKey, Known]]:
        """Return the resources that match, with their keys."""
        resource, links = self.graph[type_name], self.graph[type_name].to_one
        # An index serves any number of values in their own order.
        parameters = [("filter", orjson.dumps(conditions).decode()), ("sort", names[0])]
        if links:
            parameters.append(("include", ",".join(links)))
            targets = {link.target for link in links.values()} - {type_name}
            parameters += [(f"fields[{target}]", ID) for target in sorted(targets)]
        found = []
        async for document in self.client.pages(resource.collection, parameters):
            for resource_object in document["data"]:
                values = {**resource_object["attributes"], ID: resource_object[ID]}
                linkage = {name: resource_object["relationships"][name]["data"] for name in links}
                known = Known({"type": type_name, ID: resource_object[ID]}, values, linkage)
                found.append((self._key(type_name, names, values), known))
        return found

    def _filters(
        self, type_name: str, names: Sequence[str], wanted: Iterable[Values]
    ) -> list[list[Document]]:
        """Return filters in JSON, which together match all that is wanted."""
        addresses = self._addresses[type_name]
        spellings = [
            [_spellings(values.get(name), ignores_case=name in addresses) for name in names]
            for values in wanted
        ]
        if len(names) == 1:
            texts = dict.fromkeys(text for (some,) in spellings for text in some)
            return [[_condition(names[0], part)] for part in _parts(list(texts))]
        alternatives = [
            {"and": [_condition(*pair) for pair in zip(names, each, strict=True)]}
            for each in spellings
        ]
        return [[{"or": part}] for part in _parts(alternatives)]


def _condition(name: str, values: Sequence[Any]) -> Document:
    return {"name": name, "op": "in", "val": values}


def _spellings(value: Any, *, ignores_case: bool) -> list[Any]:
    """Return a value, in all usual spellings if its case is ignored: filters regard it."""
    if not ignores_case or value is None:
        return [value]
    local, at, domain = value.lower().partition("@")
    usual = [f"{each}{at}{domain}" for each in (local, local.title(), local.capitalize())]
    return list(dict.fromkeys([value, *usual, value.upper()]))


def _parts(items: Sequence[Any]) -> list[Sequence[Any]]:
    """Divide conditions or values into what one request can have, of similar sizes."""
    count = len(quote(orjson.dumps(items))) // _MAX_BYTES + 1
    by_size = sorted(items, key=lambda item: len(quote(orjson.dumps(item))))
    return [by_size[start::count] for start in range(min(count, len(items)))]
