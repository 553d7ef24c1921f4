"""Finding the stored resources that rows of a file mean."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias
from urllib.parse import quote

import orjson

from registry.model.graph import Graph
from registry.transfer.client import Client, Document
from registry.transfer.rows import ID, Values, to_one

ResourceKey: TypeAlias = tuple[str, tuple[str, ...], tuple[Any, ...]]
"""A type, names of attributes (or `id`), and values: those of one resource, or of few."""

_MAX_CONDITIONS = 240
"""Conditions of one request: a filter may have 250."""

_MAX_VALUES = 100
"""Values per condition: an index serves so many in the order of the ids."""

_MAX_LENGTH = 60_000
"""Characters of the values in a URL: half of what the service accepts."""


def key_of(
    graph: Graph, type_name: str, names: Iterable[str], values: Mapping[str, Any]
) -> ResourceKey:
    """Return the key of a resource. Values that differ only in a case that is ignored are equal."""
    attributes, chosen = graph[type_name].readable, tuple(names)
    folded = (
        value.casefold() if isinstance(value, str) and _ignores_case(attributes, name) else value
        for name, value in ((name, values.get(name)) for name in chosen)
    )
    return type_name, chosen, tuple(folded)


def _ignores_case(attributes: Mapping[str, Any], name: str) -> bool:
    return name in attributes and attributes[name].ignores_case


async def find_stored(
    client: Client, graph: Graph, wanted: Mapping[ResourceKey, Values]
) -> dict[ResourceKey, list[Document]]:
    """Return the stored resources of each key, with their to-one linkage. Raises TransferError.

    wanted: by key, the values as in the file.
    """
    requests = [
        _read(client, graph, type_name, conditions)
        for (type_name, names), group in groupby(sorted(wanted, key=_shape), _shape)
        for conditions in _conditions(graph, type_name, names, [wanted[key] for key in group])
    ]
    shapes = {(type_name, names) for type_name, names, _ in wanted}
    found: defaultdict[ResourceKey, dict[str, Document]] = defaultdict(dict)
    for type_name, resources in await asyncio.gather(*requests):
        for resource in resources:
            values = {**resource["attributes"], ID: resource[ID]}
            for shape_type, names in shapes:
                if shape_type == type_name:
                    key = key_of(graph, type_name, names, values)
                    if key in wanted:
                        found[key][resource[ID]] = resource
    return {key: list(resources.values()) for key, resources in found.items()}


def _shape(key: ResourceKey) -> tuple[str, tuple[str, ...]]:
    return key[:2]


async def _read(
    client: Client, graph: Graph, type_name: str, conditions: Sequence[Any]
) -> tuple[str, list[Document]]:
    resource = graph[type_name]
    parameters = [("filter", orjson.dumps(conditions).decode())]
    if links := to_one(resource):
        parameters.append(("include", ",".join(links)))
        targets = {link.target for link in links.values()} - {type_name}
        parameters += [(f"fields[{target}]", ID) for target in sorted(targets)]
    document = await client.read(resource.collection, parameters)
    return type_name, document["data"]


def _conditions(
    graph: Graph, type_name: str, names: Sequence[str], wanted: Iterable[Values]
) -> Iterator[list[Any]]:
    """Yield filters in JSON, which together match all that is wanted."""
    attributes = graph[type_name].readable
    spelled = {name: _ignores_case(attributes, name) for name in names}
    if len(names) == 1:
        (name,) = names
        texts = dict.fromkeys(
            one for values in wanted for one in _spellings(values.get(name), ignores=spelled[name])
        )
        for part in _parts(list(texts), _MAX_VALUES):
            yield [{"name": name, "op": "in", "val": part}]
        return
    alternatives = [
        {
            "and": [
                {
                    "name": name,
                    "op": "in",
                    "val": _spellings(values.get(name), ignores=spelled[name]),
                }
                for name in names
            ]
        }
        for values in wanted
    ]
    for part in _parts(alternatives, _MAX_CONDITIONS // len(names)):
        yield [{"or": part}]


def _spellings(value: Any, *, ignores: bool) -> list[Any]:
    """Return a value, if its case is ignored in all usual spellings: filters compare exactly."""
    if not ignores or not isinstance(value, str):
        return [value]
    local, at, domain = value.lower().partition("@")
    usual = [f"{each}{at}{domain}" for each in (local, local.title(), local.capitalize())]
    return list(dict.fromkeys([value, *usual, value.upper()]))


def _parts(items: Sequence[Any], count: int) -> Iterator[list[Any]]:
    """Divide conditions or values into what one request can have."""
    part: list[Any] = []
    length = 0
    for item in items:
        size = len(quote(orjson.dumps(item)))
        if part and (len(part) == count or length + size > _MAX_LENGTH):
            yield part
            part, length = [], 0
        part.append(item)
        length += size
    if part:
        yield part
