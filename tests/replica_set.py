"""A replica set of three real mongods whose members can be killed, frozen and kept behind."""

import asyncio
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import AutoReconnect

from tests.waiting import eventually

_NAME = "registry"

_RECOVERY_SECONDS = 60.0
"""Within which the set elects a primary and every member catches up; two are usual."""

_OPTIONS = (
    *("--replSet", _NAME, "--bind_ip", "127.0.0.1", "--nounixsocket"),
    *("--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "64"),
    *("--setParameter", "enableTestCommands=1"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    # Otherwise a secondary replicates from a frozen member for up to 13 s, while nothing that the
    # next primary writes is acknowledged by the majority.
    *("--setParameter", "oplogNetworkTimeoutBufferSeconds=1"),
    *("--setParameter", "oplogFetcherSteadyStateMaxFetcherRestarts=0"),
)

_SETTINGS = {"electionTimeoutMillis": 1500, "heartbeatIntervalMillis": 500}
"""Short, so that another primary is elected two seconds after the loss of one."""


class Processes:
    """Processes that end when this one ends, in any way, even those that SIGSTOP has stopped.

    group: the process group whose members do so.
    """

    def __init__(self) -> None:
        # Its standard input closes with the end of this process.
        guard = subprocess.Popen(
            ["/bin/sh", "-c", "read -r _; kill -KILL 0"],  # 0: the process group
            stdin=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self.group = guard.pid
        self._processes = [guard]

    def start(self, command: Sequence[str | Path], **streams: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # noqa: S603 - a mongod or a helper program of the tests
            command, process_group=self.group, text=True, **streams
        )
        self._processes.append(process)
        return process

    def end(self) -> None:
        for process in self._processes:
            with process:
                process.kill()


class Member:
    """One mongod of the set. uri: of a direct connection to it."""

    def __init__(self, program: str, home: Path, port: int, processes: Processes) -> None:
        home.mkdir()
        address = ("--port", str(port))
        files = ("--dbpath", str(home), "--logpath", str(home / "mongod.log"), "--logappend")
        self._command = (program, *address, *files, *_OPTIONS)
        self._processes = processes
        self._is_frozen = False
        self._fail_points: set[str] = set()
        self.host = f"127.0.0.1:{port}"
        self.uri = f"mongodb://{self.host}/?directConnection=true"
        self.start()
        self.client: MongoClient[dict[str, Any]] = MongoClient(self.uri, appname="test")

    def start(self) -> None:
        """Start it, on the data that it has left if it was killed."""
        self._process = self._processes.start(self._command, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        """End it as a loss of power would, except that written files are kept."""
        self._process.kill()
        self._process.wait()
        self._fail_points.clear()

    def freeze(self) -> None:
        """Stop it until it is thawed, with its connections open."""
        self._process.send_signal(signal.SIGSTOP)
        self._is_frozen = True

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._is_frozen = False

    async def command(self, name: str, value: Any = 1, **arguments: Any) -> dict[str, Any]:
        """Run a command on the database `admin`; return its reply."""
        return await asyncio.to_thread(lambda: self.client.admin.command(name, value, **arguments))

    async def affect(
        self,
        commands: Sequence[str],
        namespace: str,
        effect: Mapping[str, Any],
        mode: Any = "alwaysOn",
    ) -> int:
        """Enable the fail point `failCommand` for commands on a collection, as `enable` does.

        effect: members of its data, such as `closeConnection`.
        """
        data = {"failCommands": commands, "namespace": namespace, **effect}
        return await self.enable("failCommand", data, mode)

    async def enable(self, fail_point: str, data: Mapping[str, Any], mode: Any = "alwaysOn") -> int:
        """Enable a fail point; return how often it was entered so far."""
        reply = await self.command("configureFailPoint", fail_point, mode=mode, data=data)
        self._fail_points.add(fail_point)
        count: int = reply["count"]
        return count

    async def wait_until_entered(self, fail_point: str, times: int) -> None:
        """Wait until a fail point was entered this often since the start of the member."""
        await self.command(
            "waitForFailPoint", fail_point, timesEntered=times, maxTimeMS=_RECOVERY_SECONDS * 1000
        )

    async def recover(self) -> None:
        """Let it run again, without fail points."""
        self.thaw()
        if self._process.poll() is not None:
            self.start()
        for fail_point in set(self._fail_points):
            await self.command("configureFailPoint", fail_point, mode="off")
            self._fail_points.discard(fail_point)

    async def is_primary(self) -> bool:
        """Return whether it says so; False if it was killed or frozen."""
        if self._process.poll() is not None or self._is_frozen:
            return False
        with suppress(AutoReconnect):
            return bool((await self.command("hello"))["isWritablePrimary"])
        return False


class ReplicaSet:
    """Three members with short election timeouts. uri: what the service connects to."""

    def __init__(self, members: Sequence[Member], processes: Processes) -> None:
        self.members = members
        self.processes = processes
        hosts = ",".join(member.host for member in members)
        self.uri = f"mongodb://{hosts}/?replicaSet={_NAME}"

    async def initiate(self) -> None:
        """Form the set once all members respond."""
        for member in self.members:
            await member.command("hello")
        members = [{"_id": index, "host": member.host} for index, member in enumerate(self.members)]
        config = {"_id": _NAME, "members": members, "settings": _SETTINGS}
        await self.members[0].command("replSetInitiate", config)

    async def primary(self) -> Member:
        """Return the primary, once there is one."""
        found: list[Member] = []

        async def is_found() -> bool:
            found[:] = [member for member in self.members if await member.is_primary()]
            return bool(found)

        await _wait_for(is_found)
        return found[0]

    async def secondaries(self) -> list[Member]:
        """Return the members other than the primary."""
        primary = await self.primary()
        return [member for member in self.members if member is not primary]

    async def has_no_primary(self) -> bool:
        """Return whether no member says that it is the primary."""
        return not any([await member.is_primary() for member in self.members])

    async def step_down(self) -> Member:
        """Let the primary step down; return the next one."""
        previous = await self.primary()
        with suppress(AutoReconnect):  # it may close its connections
            await previous.command("replSetStepDown", 30)

        async def has_changed() -> bool:
            return await self.primary() is not previous

        await _wait_for(has_changed)
        return await self.primary()

    async def hold_back_secondaries(self) -> Member:
        """Let the secondaries catch up and then replicate nothing more; return the primary."""
        await self.recover()
        primary = await self.primary()
        for member in self.members:
            if member is not primary:
                entered = await member.enable("stopReplProducer", {})
                await member.wait_until_entered("stopReplProducer", entered + 1)
        return primary

    async def lose(self, primary: Member) -> Member:
        """Kill the primary while the secondaries lack its last writes; return the next one."""
        primary.kill()
        for member in self.members:
            if member is not primary:
                await member.recover()
        return await self.primary()

    async def recover(self) -> None:
        """Let all members run, and wait until they have all writes of the primary."""
        for member in self.members:
            await member.recover()
        await _wait_for(self._is_complete)

    async def _is_complete(self) -> bool:
        status = await (await self.primary()).command("replSetGetStatus")
        states = sorted(member["stateStr"] for member in status["members"])
        optimes = {str(member["optime"]) for member in status["members"]}
        return states == ["PRIMARY", "SECONDARY", "SECONDARY"] and len(optimes) == 1


async def _wait_for(condition: Callable[[], Awaitable[bool]]) -> None:
    async def holds() -> bool:
        with suppress(AutoReconnect):  # an election closes connections
            return await condition()
        return False

    assert await eventually(holds, _RECOVERY_SECONDS)


@contextmanager
def replica_set_on(ports: Sequence[int], program: str, home: Path) -> Iterator[ReplicaSet]:
    """Start a mongod on each port, with data in a new directory each."""
    with ExitStack() as stack:
        processes = Processes()
        stack.callback(processes.end)
        members = [Member(program, home / str(port), port, processes) for port in ports]
        for member in members:
            stack.enter_context(member.client)
        yield ReplicaSet(members, processes)
