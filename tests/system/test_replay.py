"""A registry that replays the change feed of another, through failures of all parts, equals it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout

from registry.testing_databases import new_name
from tests.feed import Stream
from tests.mongods import program_of
from tests.replica_set import three_members
from tests.support import ATOMIC, OPERATIONS, RESULTS
from tests.system.conftest import Start
from tests.system.service import COMMAND, Service, environment, person, run_command
from tests.system.test_workers import workers_of

pytestmark = pytest.mark.slow

FIELDS = {"person": "first_name,last_name,email", "computer": "serial,owner.first_name"}

LAST = "Last"

Identity = tuple[str, str]


class Replica:
    """Replays what it gets from one service into another; `run` can be cancelled at any time."""

    def __init__(self, source: Service, target: Service, position: str) -> None:
        self._source, self._target = source, target
        self._ids: dict[Identity, str] = {}
        self.position = position
        self.transactions = 0
        self.names: set[str] = set()

    async def run(self, session: ClientSession) -> None:
        """Replay what follows, until the connection ends."""
        changes: list[Any] = []
        headers = {"Accept": "text/event-stream", "Last-Event-ID": self.position}
        async with session.get(f"{self._source.url}/changes", headers=headers) as response:
            stream = Stream(response)
            while response.status == 200:
                event = await stream.next()
                if event.name == "message":
                    changes.append(event.data)
                if event.id:
                    if changes:
                        await self._replay(session, changes, event.id)
                    changes, self.position = [], event.id

    async def _replay(self, session: ClientSession, changes: list[Any], position: str) -> None:
        """Execute the changes of a transaction, once, however often they are sent."""
        added = [identity(one["data"]) for one in changes if one["op"] == "add"]
        body = orjson.dumps({OPERATIONS: [self._translated(one, added) for one in changes]})
        headers = {"Content-Type": ATOMIC, "Idempotency-Key": position}
        async with session.post(
            f"{self._target.url}/operations", data=body, headers=headers
        ) as response:
            document = orjson.loads(await response.read())
            assert response.status == 200, (changes, document)
        for change, result in zip(changes, document[RESULTS], strict=True):
            if change["op"] == "add":
                self.names.update(change["data"]["attributes"].values())
                self._ids[identity(change["data"])] = result["data"]["id"]
        self.transactions += 1

    def _translated(self, part: Any, added: list[Identity]) -> Any:
        """Return a part of an operation with the ids of the target."""
        if isinstance(part, list):
            return [self._translated(one, added) for one in part]
        if not isinstance(part, dict):
            return part
        members = {name: self._translated(one, added) for name, one in part.items()}
        if "id" in part:
            if identity(part) in added:
                members["lid"] = members.pop("id")
            else:
                members["id"] = self._ids[identity(part)]
        return members


def identity(part: Any) -> Identity:
    return part["type"], part["id"]


class Writer:
    """Writes to a service at random; a request that fails may be in effect."""

    def __init__(self, service: Service, choose: random.Random) -> None:
        self._service, self._choose = service, choose
        self._number = 0
        self.succeeded = 0

    async def run(self, session: ClientSession) -> None:
        """Write until it is cancelled."""
        while True:
            with suppress(ClientError, TimeoutError, OSError):
                persons = await self._ids_of(session, "persons")
                computers = await self._ids_of(session, "computers")
                body = orjson.dumps({OPERATIONS: self._operations(persons, computers)})
                url, headers = f"{self._service.url}/operations", {"Content-Type": ATOMIC}
                async with session.post(url, data=body, headers=headers) as response:
                    self.succeeded += response.ok
            await asyncio.sleep(0.01)

    async def _ids_of(self, session: ClientSession, collection: str) -> list[str]:
        async with session.get(f"{self._service.url}/{collection}?page[size]=50") as response:
            document = orjson.loads(await response.read())
        return [one["id"] for one in document.get("data", ())]

    def _operations(self, persons: list[str], computers: list[str]) -> list[Any]:
        self._number += 1
        names = {"first_name": f"P{self._number}", "last_name": "L"}
        ada, laptop = {"type": "person", "lid": "p"}, {"type": "computer", "lid": "c"}
        choose = self._choose
        adding: list[Any] = [
            {"op": "add", "data": {**ada, "attributes": names}},
            {"op": "add", "data": {**laptop, "attributes": {"serial": f"C{self._number}"}}},
            {"op": "update", "ref": {**laptop, "relationship": "owner"}, "data": ada},
        ]
        if not persons or not computers:
            return adding
        owner = {"type": "person", "id": choose.choice(persons)}
        member = {"type": "computer", "id": choose.choice(computers)}
        email = {**owner, "attributes": {"email": f"e{self._number}@example.com"}}
        members = {**owner, "relationship": "computers"}
        return choose.choice(
            [
                adding,
                adding[:1],
                [{"op": "update", "data": email}],
                [{"op": "update", "ref": {**member, "relationship": "owner"}, "data": owner}],
                [{"op": "update", "ref": members, "data": [member]}],
                [{"op": "remove", "ref": choose.choice([owner, member])}],
                [*adding, {"op": "remove", "ref": member}],
            ]
        )


def exported(service: Service, type_name: str) -> list[str]:
    command = [*COMMAND, "export", "--url", service.url, "--type", type_name]
    done = run_command([*command, "--fields", FIELDS[type_name], "-"], environment())
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


async def test_a_replica_equals_its_source_through_failures_of_all_parts(
    mongodb_uri: str,
    unused_tcp_port_factory: Callable[[], int],
    tmp_path: Path,
    start: Start,
) -> None:
    choose, program = random.Random(3), await program_of(mongodb_uri)  # noqa: S311 - the same ones
    ports = [unused_tcp_port_factory() for _ in range(3)]
    (home := tmp_path / "members").mkdir()
    with three_members(program, home, ports) as members:
        await members.initiate()
        await members.primary()
        variables = {"MONGODB_URI": members.uri, "REGISTRY_DATABASE": new_name()}
        source = await asyncio.to_thread(start, "--workers", "2", **variables)
        target = await asyncio.to_thread(start, data_dir=tmp_path / "target")
        timeout = ClientTimeout(total=None, sock_connect=5, sock_read=30)
        async with ClientSession(timeout=timeout) as session:
            async with session.get(f"{source.url}/persons") as response:
                replica = Replica(source, target, response.headers["Registry-Position"])
            writer = Writer(source, choose)
            writing = asyncio.create_task(writer.run(session))

            async def replay_for(seconds: float) -> None:
                """Follow, and be killed after some time."""
                with suppress(TimeoutError, EOFError, ClientError, OSError):
                    async with asyncio.timeout(seconds):
                        await replica.run(session)
                await asyncio.sleep(0.01)

            async def fail() -> None:
                (await members.primary()).kill()
                await members.recover()
                os.kill(workers_of(source)[0], signal.SIGKILL)
                await members.step_down()
                await members.recover()

            failing = asyncio.create_task(fail())
            while not failing.done() or writer.succeeded < 200:
                await replay_for(3 * choose.random())
            await failing
            writing.cancel()
            await asyncio.wait([writing])
            await asyncio.to_thread(source.request, "/persons", person(LAST))
            while LAST not in replica.names:
                await replay_for(10.0)
            for type_name in FIELDS:
                assert exported(target, type_name) == exported(source, type_name)
            assert replica.transactions > 100
