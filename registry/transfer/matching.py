"""Matching: which of the persons and computers in rows are stored already."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson

from registry.resources.computer import computer
from registry.resources.person import person
from registry.transfer.client import Client
from registry.transfer.operations import ResourceIdentifier, identifier
from registry.transfer.plans import KnownComputer, KnownPerson, PersonKey, Planner
from registry.transfer.rows import COMPUTER, OWNER, PERSON, PERSON_ATTRIBUTES, SERIAL, Row

_MAX_VALUES = 100
"""Values per condition: an index serves so many in the order of the ids."""

_MAX_LENGTH = 60_000
"""Characters of the values in a URL: half of what the service accepts."""


def keys_of(row: Row) -> Iterator[PersonKey | str]:
    """Yield what identifies the person of a row, and the serials of its computers."""
    if row.person is not None and (key := PersonKey.of(row.person)) is not None:
        yield key
    for attributes in row.computers:
        if isinstance(serial := attributes.get(SERIAL), str):
            yield serial


async def planner_for(keys: Collection[PersonKey | str], client: Client) -> Planner:
    """Return the planner of rows with these keys. Raises TransferError."""
    persons = [key for key in keys if isinstance(key, PersonKey)]
    emails = {key.email for key in persons if key.email is not None}
    full_names = {" ".join(key.names) for key in persons if key.names is not None}
    serials = {key for key in keys if isinstance(key, str)}
    fields = {f"fields[{PERSON}]": ",".join(PERSON_ATTRIBUTES)}
    by_email, by_name, by_serial = await asyncio.gather(
        _find(client, person.collection, ("email", emails), fields),
        _find(client, person.collection, ("full_name", full_names), fields),
        _find(
            client,
            computer.collection,
            (SERIAL, serials),
            {"include": OWNER, f"fields[{PERSON}]": "id"},
        ),
    )
    return Planner(_persons([*by_email, *by_name]), _computers(by_serial))


async def _find(
    client: Client, path: str, condition: tuple[str, Iterable[str]], parameters: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    """Return the resources whose attribute has one of the values, by ascending id per request.

    condition: the name of the attribute, and the values.
    """
    name, values = condition
    filters = [[{"name": name, "op": "in", "val": each}] for each in _chunks(values)]
    requests = (client.find(path, {"filter": _json(each), **parameters}) for each in filters)
    return [resource for found in await asyncio.gather(*requests) for resource in found]


def _chunks(values: Iterable[str]) -> Iterator[Sequence[str]]:
    chunk: list[str] = []
    length = 0
    for value in values:
        size = len(quote(value, errors="replace"))
        if chunk and (len(chunk) == _MAX_VALUES or length + size > _MAX_LENGTH):
            yield chunk
            chunk, length = [], 0
        if size <= _MAX_LENGTH:  # no stored text is as long
            chunk.append(value)
            length += size
    if chunk:
        yield chunk


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _persons(resources: Iterable[Mapping[str, Any]]) -> dict[PersonKey, KnownPerson]:
    """Return the persons by key; of several with one key, the first."""
    persons: dict[PersonKey, KnownPerson] = {}
    for resource in resources:
        if (key := PersonKey.of(resource["attributes"])) is not None:
            stored = KnownPerson(identifier(PERSON, resource["id"]), resource["attributes"])
            persons.setdefault(key, stored)
    return persons


def _computers(
    resources: Iterable[Mapping[str, Any]],
) -> defaultdict[str, list[KnownComputer]]:
    computers: defaultdict[str, list[KnownComputer]] = defaultdict(list)
    for resource in resources:
        owner: ResourceIdentifier | None = resource["relationships"][OWNER]["data"]
        stored = KnownComputer(identifier(COMPUTER, resource["id"]), owner)
        computers[resource["attributes"][SERIAL]].append(stored)
    return computers
