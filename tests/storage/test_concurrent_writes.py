"""Concurrent writes have the results of some order in which they follow each other."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from registry.jsonapi.changes import Linkage, Mode, Verb, Write
from registry.model.record import Record
from registry.storage.errors import FingerprintMismatch, RecordNotFound, VersionConflict
from registry.storage.writes.write_requests import WriteResult
from tests.conftest import Serve
from tests.storage.writing import MISSING, Outcome, Place, Registry, insert_fleet, records
from tests.support import Api, Database

PERSONS, COMPUTERS = 4, 7


@dataclass
class Request:
    """A request that was sent, and what became of it.

    members: the computers of the person whose related resources it shows, as of its commit.
    """

    writes: list[Write]
    key: str | None = None
    outcome: Outcome = field(default_factory=list)
    members: set[int] | None = None

    def precedes(self, other: Request) -> bool:
        """Whether the versions of the results have only this order."""
        later = other.versions
        return any(version < later.get(place, 0) for place, version in self.versions.items())

    @property
    def versions(self) -> dict[Place, int]:
        """The version of each resource after the request."""
        outcome = self.outcome if isinstance(self.outcome, list) else []
        return {_place(one.write): one.record["version"] for one in outcome if not one.is_replayed}

    def is_repetition_of(self, other: Request) -> bool:
        """Whether the outcome is that of a request whose key another one has used before."""
        if repr(self.writes) != repr(other.writes):
            return isinstance(self.outcome, FingerprintMismatch)
        assert isinstance(other.outcome, list)
        return isinstance(self.outcome, list) and all(
            result.is_replayed and result.record["_id"] == first.record["_id"]
            for result, first in zip(self.outcome, other.outcome, strict=True)
        )


@dataclass
class State:
    """What is stored after some of the requests.

    resources: by type and id, without versions. versions: the last that is known of each. newer:
    those that have been changed since. changed: those that any request has changed. keys: the first
    request with each key.
    """

    resources: dict[Place, dict[str, Any]]
    versions: dict[Place, int]
    newer: set[Place] = field(default_factory=set)
    changed: set[Place] = field(default_factory=set)
    keys: dict[str, Request] = field(default_factory=dict)

    def after(self, request: Request) -> State | None:
        """Return the state after a request, None if its outcome is not possible now."""
        if request.key in self.keys:
            return self if request.is_repetition_of(self.keys[request.key]) else None
        state, outcome = self._copy(), request.outcome
        results = outcome if isinstance(outcome, list) else [None] * len(request.writes)
        for write, result in zip(request.writes, results, strict=True):
            if error := state._error(write if result is None else result.write):
                return self if isinstance(outcome, error) else None
            if result is None:
                state._apply(write)
            elif result.is_replayed or not state._can_have(result):
                return None
        if not isinstance(outcome, list):
            return None
        if request.members is not None:
            (result,) = outcome
            if request.members != state._members(result.record["_id"]):
                return None
        if request.key is not None:
            state.keys[request.key] = request
        return state

    def _copy(self) -> State:
        return State(
            self.resources,
            dict(self.versions),
            set(self.newer),
            set(self.changed),
            dict(self.keys),
        )

    def matches(self, stored: dict[Place, Record]) -> bool:
        """Whether these records are stored."""
        return self.resources.keys() == stored.keys() and all(
            _shows(stored[place], one) and stored[place]["version"] >= self._least(place)
            for place, one in self.resources.items()
        )

    def _error(self, write: Write) -> type[Exception] | None:
        place = _place(write)
        if write.verb is not Verb.CREATE and place not in self.resources:
            return RecordNotFound
        if write.versions is not None and place in self.changed:
            return VersionConflict
        for linkage in write.change.linkages:
            targets = {(linkage.relationship.target, id_) for id_ in linkage.ids}
            if linkage.mode is not Mode.REMOVE and not targets <= self.resources.keys():
                return RecordNotFound
        return None

    def _can_have(self, result: WriteResult) -> bool:
        """Apply a write; return whether this can be its result."""
        place = _place(result.write)
        before = self.resources.get(place)
        if result.write.verb is Verb.DELETE:
            assert before is not None
            is_possible: bool = _shows(result.record, before)
            is_possible &= result.record["version"] >= self._least(place)
            self._apply(result.write)
            return is_possible
        self._apply(result.write)
        version, least = result.record["version"], self._least(place)
        self.versions[place] = version
        self.newer.discard(place)
        return version >= least and _shows(result.record, self.resources[place])

    def _least(self, place: Place) -> int:
        return self.versions.get(place, 0) + (place in self.newer)

    def _members(self, person: int) -> set[int]:
        return {id_ for (_, id_), one in self.resources.items() if one.get("person") == person}

    def _apply(self, write: Write) -> None:
        place, before = _place(write), self.resources
        self.resources = {key: dict(one) for key, one in before.items()}
        empty = {"person": None} if place[0] == "computer" else {}
        self.resources.setdefault(place, empty).update(write.change.attributes)
        for linkage in write.change.linkages:
            self._link(place, linkage)
        if write.verb is Verb.DELETE:
            for member in self._members(place[1]) if place[0] == "person" else ():
                self.resources["computer", member]["person"] = None
            del self.resources[place]
        changed = set(_changed(before, self.resources))
        self.changed |= changed
        self.newer |= changed

    def _link(self, place: Place, linkage: Linkage) -> None:
        ids = set(linkage.ids)
        if place[0] == "computer":
            self.resources[place]["person"] = next(iter(ids), None)
            return
        members = self._members(place[1])
        removed = {Mode.REPLACE: members - ids, Mode.ADD: set(), Mode.REMOVE: members & ids}
        for member in removed[linkage.mode]:
            self.resources["computer", member]["person"] = None
        for member in ids if linkage.mode is not Mode.REMOVE else ():
            self.resources["computer", member]["person"] = place[1]


def _changed(
    before: dict[Place, dict[str, Any]], after: dict[Place, dict[str, Any]]
) -> Iterator[Place]:
    """Yield the resources that differ, and the owners of computers that have moved."""
    for place in before.keys() | after.keys():
        old, new = before.get(place, {}), after.get(place, {})
        if old != new:
            yield place
        owners = {old.get("person"), new.get("person")}
        if len(owners) == 2:
            yield from (("person", owner) for owner in owners if owner is not None)


def _place(write: Write) -> Place:
    assert write.target.id is not None
    return write.resource.type, write.target.id


def _shows(record: Record, resource: dict[str, Any]) -> bool:
    return all(record[name] == value for name, value in resource.items())


def are_possible(state: State, requests: Sequence[Request], stored: dict[Place, Record]) -> bool:
    """Whether there is an order in which all requests have their outcomes, and this is stored."""
    # Those that change nothing are next if they can be.
    left = [one for one in requests if state.after(one) is not state]
    if not left:
        return state.matches(stored)
    # The order of arrival is tried first, as it is the usual one.
    for request in left:
        if any(one.precedes(request) for one in left):
            continue
        after = state.after(request)
        others = [one for one in left if one is not request]
        if after is not None and are_possible(after, others, stored):
            return True
    return False


class Chooser:
    """Chooses requests at random, the same in each run.

    are_simple: whether none has several writes or shows related resources. Those that only read a
    record may be in effect after another service has changed it: a snapshot does not lock.
    """

    def __init__(self, registry: Registry, seed: int, *, are_simple: bool) -> None:
        self._are_simple = are_simple
        self._registry = registry
        self._random = random.Random(seed)  # noqa: S311 - the same in every run
        self._numbers = iter(range(1_000_000))

    def requests(self, stored: dict[Place, Record]) -> list[Request]:
        """Return requests for what is stored, and for what does not exist."""
        requests = []
        for _ in range(self._random.randint(2, 9)):
            writes = [self._write(stored, 0)]
            if not self._are_simple and self._random.random() < 0.2:
                writes = [self._write(stored, -n) for n in range(1, self._random.randint(2, 5))]
            elif not self._are_simple and self._random.random() < 0.3:
                writes = [replace(writes[0], shows_related=True)]
            requests.append(Request(writes))
            if self._random.random() < 0.2:
                key = f"key-{next(self._numbers)}"
                repeated = requests[-1].writes
                if self._random.random() < 0.3:
                    repeated = [self._write(stored, 0)]
                requests[-1:] = [Request(writes, key), Request(repeated, key)]
        return requests

    def _write(self, stored: dict[Place, Record], placeholder: int) -> Write:
        choose = self._random
        persons, computers = (
            [id_ for type_name, id_ in stored if type_name == name] * 5 + [MISSING]
            for name in ("person", "computer")
        )
        name = f"N{next(self._numbers) // choose.choice([1, 3])}"
        if choose.random() < 0.5:
            place, attributes = ("person", choose.choice(persons)), {"first_name": name}
            links = {"computers": [choose.choice(computers) for _ in range(choose.randint(0, 4))]}
        else:
            place, attributes = ("computer", choose.choice(computers)), {"serial": name}
            links = {"owner": [choose.choice(persons)] if choose.random() < 0.8 else []}
        kind = choose.random()
        if kind < 0.15:
            return self._registry.delete(place)
        more: dict[str, Any] = links if choose.random() < 0.6 else {}
        if kind < 0.35:
            if place[0] == "person":
                attributes["last_name"] = "L"
            return self._registry.create(place[0], placeholder or None, **attributes, **more)
        if place[0] == "person" and more:
            more = {**more, "mode": choose.choice(list(Mode))}
        if choose.random() < 0.5:
            more |= attributes
        versions = None
        if kind > 0.8 and place in stored:
            versions = frozenset({stored[place]["version"]})
        return self._registry.update(place, versions, **more)


async def related(database: Database, result: WriteResult) -> set[int]:
    """Return the computers of a person at the time of a write, which shows its version."""
    concern = {"level": "snapshot", "atClusterTime": result.time}
    found = []
    for name, query in (
        ("persons", {"_id": result.record["_id"]}),
        ("computers", {"person": result.record["_id"]}),
    ):
        command = {"find": name, "filter": query, "readConcern": concern}
        found.append((await database.command(command))["cursor"]["firstBatch"])
    (person,), computers = found
    assert person["version"] == result.record["version"]
    return {computer["_id"] for computer in computers}


@pytest.mark.parametrize("services", [1, 2])
@pytest.mark.parametrize("seed", range(4))
async def test_concurrent_requests_are_equivalent_to_sequential_ones(
    serve: Serve, database: Database, services: int, seed: int
) -> None:
    await insert_fleet(database, PERSONS, COMPUTERS)
    registries = [Registry(await serve()) for _ in range(services)]
    chooser = Chooser(registries[0], seed, are_simple=services > 1)
    for _ in range(15):
        before = await records(database)
        requests = chooser.requests(before)
        outcomes = await asyncio.gather(
            *(
                registries[number % services].write(*one.writes, key=one.key)
                for number, one in enumerate(requests)
            ),
            return_exceptions=True,
        )
        for request, outcome in zip(requests, outcomes, strict=True):
            request.outcome = outcome
            if isinstance(outcome, list) and request.writes[0].shows_related:
                (result,) = outcome
                is_person = result.write.resource.type == "person"
                if is_person and result.write.verb is not Verb.DELETE and not result.is_replayed:
                    request.members = await related(database, result)
        start = State(
            {place: _resource(place, record) for place, record in before.items()},
            {place: record["version"] for place, record in before.items()},
        )
        assert are_possible(start, requests, await records(database))


def _resource(place: Place, record: Record) -> dict[str, Any]:
    names = ("first_name", "last_name") if place[0] == "person" else ("serial", "person")
    return {name: record[name] for name in names}


async def test_exactly_one_of_concurrent_conditional_updates_succeeds(api: Api) -> None:
    id_ = await api.person()
    etag = (await api.get(f"/persons/{id_}")).headers["ETag"]
    responses = await asyncio.gather(
        *(
            api.request(
                "PATCH",
                f"/persons/{id_}",
                {"data": {"type": "person", "attributes": {"last_name": f"L{number}"}}},
                headers={"If-Match": etag},
            )
            for number in range(20)
        )
    )
    assert sorted(response.status for response in responses) == [200] + [412] * 19


async def test_each_response_with_related_resources_shows_its_own_result(api: Api) -> None:
    """Its entity tag belongs to the version that it shows."""
    persons = [await api.person() for _ in range(3)]
    computers = [await api.computer() for _ in range(4)]

    async def replace_computers(number: int) -> tuple[Any, str]:
        person, ids = persons[number % 3], [computers[number % 4], computers[(number + 1) % 4]]
        linkage = [{"type": "computer", "id": id_} for id_ in ids]
        response = await api.patch(
            f"/persons/{person}?include=computers",
            {
                "type": "person",
                "id": person,
                "attributes": {"last_name": f"L{number}"},
                "relationships": {"computers": {"data": linkage}},
            },
        )
        assert response.status == 200
        assert response.data["attributes"]["last_name"] == f"L{number}"
        assert sorted(response.included) == sorted(("computer", id_) for id_ in ids)
        return response.document, response.headers["ETag"]

    async def rename(number: int) -> None:
        data = {"type": "computer", "attributes": {"serial": f"S{number}"}}
        assert (await api.patch(f"/computers/{computers[number % 4]}", data)).status == 200

    shown, _ = await asyncio.gather(
        asyncio.gather(*map(replace_computers, range(30))), asyncio.gather(*map(rename, range(30)))
    )
    assert len({etag for _, etag in shown}) == 30
    newest: dict[str, tuple[int, Any, str]] = {}
    for document, etag in shown:
        id_ = document["data"]["id"]
        if version_in(etag) > newest.get(id_, (0, None, ""))[0]:
            newest[id_] = version_in(etag), document, etag
    for id_, (version, document, etag) in newest.items():
        now = await api.get(f"/persons/{id_}?include=computers")
        is_same = version_in(now.headers["ETag"]) == version and now.document == document
        assert (now.headers["ETag"] == etag) == is_same


def version_in(etag: str) -> int:
    return int(etag.strip('"').partition("-")[0])
