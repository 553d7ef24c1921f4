"""The embedded mongod: a one-node replica set on a unix socket that only this user can open."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from motor.motor_asyncio import AsyncIOMotorClient
from pymongo.errors import OperationFailure, PyMongoError

from registry.installation import program
from registry.mongod.binary import find_binary
from registry.mongod.child_process import ChildProcess
from registry.mongod.data_directory import db_path, locked, opened_log
from registry.mongod.data_format import MongoClient, read_format, version_conflict
from registry.mongod.server_log import Log
from registry.mongod.supervision import Program, ProgramSupervisor
from registry.mongod.unix_socket import (
    MEMBER,
    is_listening,
    socket_directory,
    socket_uri,
)
from registry.settings import Settings
from registry.start_error import StartError

_OPTIONS = (
    *("--quiet", "--setParameter", "diagnosticDataCollectionEnabled=false"),
    *("--replSet", "registry"),
    *("--slowms", "5000"),  # under load, ordinary transactions take longer than 100 ms
    *("--bind_ip", MEMBER, "--unixSocketPrefix", ".", "--filePermissions", "0700"),
    # The service needs neither, and what is off cannot be attacked.
    *("--networkMessageCompressors", "disabled", "--noscripting"),
    *("--oplogSize", "128"),  # instead of 5 % of the disk
    # Instead of three files of 100 MB, which double the time of a first start.
    *("--wiredTigerEngineConfigString", "log=(file_max=10MB)"),
)

_POLL_SECONDS = 0.005
_START_SECONDS = 120.0  # after a crash there may be a journal to replay

_log = logging.getLogger("registry")


@asynccontextmanager
async def mongod(
    settings: Settings, on_failure: Callable[[str], None] = lambda _: None
) -> AsyncIterator[str]:
    """Run a mongod on `settings.data_dir`; yield its URI once it accepts writes.

    If it exits, it is restarted under the same URI; if that fails repeatedly, `on_failure` is
    called with the reason, on another thread. It ends with the context, or soon after this process,
    even after kill -9, and is not bound to an event loop. Raises StartError if it cannot run.
    """
    binary = find_binary(settings.mongod)
    data_dir = settings.data_dir.absolute()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(locked(data_dir))
        log = stack.enter_context(opened_log(data_dir))
        sockets = stack.enter_context(socket_directory(data_dir))
        path, uri = stack.enter_context(socket_uri(sockets))
        data = ("--dbpath", str(db_path(data_dir)))
        command = [str(binary), *data, "--wiredTigerCacheSizeGB", _cache_gib(), *_OPTIONS]

        def start() -> ChildProcess:
            return ChildProcess(command, sockets, log.file)

        ready = partial(_wait_for_restart, path)
        supervised = Program("mongod", start, ready, data_dir, log, on_failure)
        supervisor = ProgramSupervisor(supervised, child := start())
        try:
            await _wait_until_started(child, path, uri, log)
            supervisor.start()
            yield uri
        finally:
            await asyncio.to_thread(supervisor.stop)


async def _wait_until_started(child: ChildProcess, path: Path, uri: str, log: Log) -> None:
    try:
        async with asyncio.timeout(_START_SECONDS):
            await _wait_for_socket(path, child)
            await _wait_for_primary(uri)
    except (TimeoutError, ChildProcessError, PyMongoError) as error:
        late = f"it was not ready after {_START_SECONDS:g} s"
        reason = version_conflict(log) or log.first_error() or str(error) or late
        raise StartError(f"mongod does not start: {reason} (its log is {log})") from error


def _cache_gib() -> str:
    # mongod would take half of the memory; 0.25 is its minimum, 2 suffice for millions of records.
    quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**32
    return f"{min(max(0.25, quarter), 2.0):.2f}"


async def _wait_for_restart(path: Path, child: ChildProcess) -> None:
    async with asyncio.timeout(_START_SECONDS):
        await _wait_for_socket(path, child)


async def _wait_for_socket(path: Path, child: ChildProcess) -> None:
    while not (ending := child.ending()):
        if is_listening(path):
            return
        await asyncio.sleep(_POLL_SECONDS)
    raise ChildProcessError(f"it ended with {ending}")


async def _wait_for_primary(uri: str) -> None:
    """Initiate the replica set if there is none yet, and wait until it accepts writes."""
    # Used here only: a client that connected before the initiation assumes no session support.
    client: MongoClient = AsyncIOMotorClient(uri, serverSelectionTimeoutMS=5000)
    try:
        while not (hello := await client.admin.command("hello"))["isWritablePrimary"]:
            if "isreplicaset" in hello:  # not a member of a set yet, or not yet known to be one
                await _initiate(client)
            await asyncio.sleep(_POLL_SECONDS)
        data_format = await read_format(client)
    finally:
        client.close()
    if data_format.data != data_format.own:
        _log.info(
            "mongod %s keeps the data in the format of MongoDB %s, so that version can still open "
            "it: `%s upgrade` raises the format",
            data_format.mongod,
            data_format.data,
            program(),
        )


async def _initiate(client: MongoClient) -> None:
    members = [{"_id": 0, "host": MEMBER}]
    try:
        await client.admin.command("replSetInitiate", {"_id": "registry", "members": members})
    except OperationFailure as error:
        if error.code != 23:  # AlreadyInitialized
            raise
