"""The plans of typical requests: each is served by an index, or counts as heavy.

The requests are generated from the declarations, so that none is forgotten for a new type or
attribute; further ones are in MORE.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from urllib.parse import quote

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import monitoring

from registry.http.app_keys import REPOSITORY
from registry.jsonapi.filter_parsing import filter_operators
from registry.jsonapi.sorting import sort_names
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.model.stored_fields import UNINDEXED, StoredField, stored_fields
from registry.resources import RESOURCES
from registry.storage.bulkheads import Bulkhead
from tests.conftest import Serve
from tests.support import Api, Database

GRAPH = Graph(RESOURCES)

COUNT, SIZE = 1_500, 5

BOUND = 60
"""Index keys or documents that a cheap page may examine: a multiple of its size, and of the values
that it is filtered by, but not of the collection."""

PAGES = (f"&page[size]={SIZE}", f"&page[number]=3&page[size]={SIZE}&page[total]=false")

MORE = [
    'persons?filter=[{"or":[{"name":"last_name","op":"eq","val":"last_name 7"},'
    '{"name":"email","op":"in","val":["email 7","email 8"]}]}]',
    'persons?filter=[{"or":[{"name":"last_name","op":"contains","val":"7"},'
    '{"name":"email","op":"prefix","val":"email 7"}]}]',
    'persons?filter=[{"not":{"name":"email","op":"eq","val":"email 7"}}]&sort=email',
    "persons?filter[last_name]=last_name 7&filter[email][contains]=7&sort=-first_name",
    "persons?filter[last_name]=last_name 7&sort=first_name,-email",
    "persons?sort=last_name,-email",
    "computers?filter[owner]=3,4,null&filter[serial][prefix]=serial",
    "persons/7/computers?sort=serial",
    "persons/7/relationships/computers?",
    "persons?sort=-updated_at",
    "persons?sort=updated_by,-last_name",
    "persons?filter[updated_by]=ci",
    "persons?filter[created_at][ge]=2026-01-01T00:00:00Z&sort=created_at",
]
"""Requests that combine conditions and sort keys, each without its page."""


def values(one: StoredField) -> list[Any]:
    return [7] if one.attribute.stored_type is int else [f"{one.name} 7"]


def filters(one: StoredField) -> Iterator[str]:
    (value,) = values(one)
    for operator in filter_operators(one.attribute):
        text = {"in": f"{value},{value}", "null": "true"}.get(operator, value)
        yield f"filter[{one.name}][{operator}]={text}"


def requests_of(resource: ResourceType) -> Iterator[str]:
    indexed = [one for one in stored_fields(resource).values() if one.name not in UNINDEXED]
    for one in indexed:
        for condition in filters(one):
            for sort in ("", f"&sort={one.name}", f"&sort=-{one.name}"):
                yield f"{resource.collection}?{condition}{sort}"
    for name in sort_names(resource, GRAPH):
        if name in UNINDEXED:
            continue
        yield f"{resource.collection}?sort={name}"
        if name != "id":
            yield f"{resource.collection}?sort=-{name},id"


REQUESTS = [
    f"{request}{page}"
    for request in chain(*map(requests_of, GRAPH.values()), MORE)
    for page in PAGES
]


@dataclass
class Observed(monitoring.CommandListener):
    """The reads that the service sends, and whether their request counts as heavy."""

    commands: list[dict[str, Any]] = field(default_factory=list)
    is_heavy: bool = False

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        command = event.command
        if event.command_name not in {"find", "aggregate"} or command.get("find") == "counters":
            return  # the index of ids asks for the time of a snapshot between requests
        if "$changeStream" not in (command.get("pipeline") or [{}])[0]:
            self.commands.append(dict(command))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Not recorded."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Not recorded."""


OBSERVED = Observed()


@pytest.fixture
async def observed(database: Database, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Api:
    """The service on resources with distinct values, most of whose texts are in blocks."""
    for resource in GRAPH.values():
        await database[resource.collection].insert_many(
            {
                "_id": number,
                **{name: f"{name} {number * 7919 % COUNT}" for name in resource.attributes},
                **{link.foreign_key: number for link in resource.links},
            }
            for number in range(1, COUNT + 1)
        )
    enter = Bulkhead.__aenter__

    async def observe(bulkhead: Bulkhead) -> None:
        OBSERVED.is_heavy |= bulkhead._name == "heavy_queries"
        await enter(bulkhead)

    monkeypatch.setattr(Bulkhead, "__aenter__", observe)
    monkeypatch.setattr(
        "registry.storage.mongo.mongo_client.AsyncIOMotorClient",
        lambda *args, event_listeners, **options: AsyncIOMotorClient(
            *args, **options, event_listeners=[*event_listeners, OBSERVED]
        ),
    )
    api = await serve()
    assert api.client.app is not None
    await api.client.app[REPOSITORY].catch_up()
    for resource in GRAPH.values():  # loads the index of ids
        await api.get(f"/{resource.collection}?page[number]=1&page[size]=1")
    return api


async def explained(database: Database, command: dict[str, Any]) -> dict[str, Any]:
    name = next(iter(command))
    ignored = {"lsid", "$db", "$clusterTime", "$readPreference", "readConcern", "maxTimeMS"}
    options = {key: value for key, value in command.items() if key not in ignored}
    plan = await database.command(
        {"explain": {name: command[name], **options}, "verbosity": "executionStats"}
    )
    return dict(plan)


def found(plan: Any, key: str) -> Iterator[Any]:
    """Yield all values of a key, at any depth; of rejected plans none."""
    if isinstance(plan, dict):
        for name, value in plan.items():
            if name == key:
                yield value
            elif name not in {"rejectedPlans", "command"}:
                yield from found(value, key)
    elif isinstance(plan, list):
        for one in plan:
            yield from found(one, key)


async def defects(api: Api, database: Database, request: str) -> Iterator[str]:
    """Return what is wrong with the plans of a request."""
    OBSERVED.commands.clear()
    OBSERVED.is_heavy = False
    path, _, query = request.partition("?")
    response = await api.client.get(f"/{path}?{quote(query, safe='&=[],')}")
    assert response.status == 200, (request, await response.text())
    is_heavy, commands = OBSERVED.is_heavy, list(OBSERVED.commands)
    assert commands, request
    result = []
    for command in commands:
        plan = await explained(database, command)
        stages = set(found(plan, "stage"))
        if "COLLSCAN" in stages and not is_heavy:
            result.append(f"{request} scans a collection: {json.dumps(command, default=str)}")
        cost = max(sum(found(plan, name)) for name in ("totalKeysExamined", "totalDocsExamined"))
        if not is_heavy and cost > BOUND:
            result.append(f"{request} examines {cost} keys or documents")
    return iter(result)


async def test_every_request_is_served_by_an_index_or_counts_as_heavy(
    observed: Api, database: Database
) -> None:
    wrong = [one for request in REQUESTS for one in await defects(observed, database, request)]
    assert wrong == []
