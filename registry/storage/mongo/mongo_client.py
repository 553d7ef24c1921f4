"""The MongoDB client, from the start of the service to its end, with its sessions and metrics."""

import asyncio
import logging
import re
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

import pymongo
from bson.codec_options import CodecOptions, TypeCodec, TypeRegistry
from bson.decimal128 import Decimal128
from motor.motor_asyncio import (
    AsyncIOMotorClient,
    AsyncIOMotorClientSession,
    AsyncIOMotorDatabase,
)
from pymongo import monitoring
from pymongo.errors import (
    ConnectionFailure,
    OperationFailure,
    PyMongoError,
)

from registry.capacity import THREADS
from registry.metrics import COMMANDS, CONNECTIONS, CONNECTIONS_IN_USE
from registry.model.graph import Graph
from registry.model.record import Record
from registry.mongod.embedded import mongod
from registry.program import InvalidSetting, StartError
from registry.settings import Settings

Database: TypeAlias = AsyncIOMotorDatabase[Record]

_Reply = TypeVar("_Reply")

APP_NAME = "registry"
"""The name under which MongoDB lists the connections of the service."""

_OPTIONS: dict[str, Any] = {
    "appname": APP_NAME,
    "w": "majority",
    "journal": True,
    "wTimeoutMS": 10_000,
    "readPreference": "primary",
    "serverSelectionTimeoutMS": 5_000,
    # A frozen or unreachable server leaves its connections open. The driver interrupts the commands
    # that wait on them when a heartbeat is late: after 4.5 s at most, before MongoDB elects another
    # primary. A busy server is not late by 3 s: heartbeats wait for neither disk nor commands.
    "heartbeatFrequencyMS": 1_000,
    "connectTimeoutMS": 3_000,
    "maxPoolSize": THREADS,
    "tz_aware": True,
    # A value that cannot be decoded must not keep the other records of a reply from being read.
    "unicode_decode_error_handler": "replace",
    "datetime_conversion": "DATETIME_AUTO",
}
"""Options that MONGODB_URI cannot override."""

_SOCKET_SECONDS = 10.0
"""How long MongoDB may take to reply, in addition to the time limit of a query."""

_MIN_WIRE_VERSION = 17
"""The wire version of MongoDB 6.0."""

_log = logging.getLogger("registry")

_WAIT_PAUSE_SECONDS = 0.5

_SNAPSHOT_TOO_OLD = 239

_READ_SECONDS = 3_600.0
"""The time limit of all reads in a session: some read a whole collection before they reply."""

_ADVICE = "correct it or start that cluster, or leave it unset for an embedded mongod"

_HOST = r"(\[[^][@/?,]+\]|[^][:@/?,]+)(:[0-9]+)?"
_URI = re.compile(
    rf"mongodb(\+srv)?://([^:@/?]+(:[^:@/?]*)?@)?{_HOST}(,{_HOST})*(/[^:@/?=]*)?(\?[^@]*)?"
)
"""A URI in which no other part can contain a piece of the user name or the password.

pymongo accepts others: in `mongodb://me:1/ret@db`, `me` is the host, which its errors show.
"""

_FORM = (
    "it is not a URI such as mongodb://user:password@host:27017/?tls=true, in which / ? : % and @ "
    "of the user name and password, and any other @, are percent-encoded (@ as %40)"
)
_SECRET_OPTIONS = re.compile(r"\?.*(password|properties)=", re.IGNORECASE | re.DOTALL)
_INVALID_OPTION = "one of its options is not valid"


@asynccontextmanager
async def connect(
    settings: Settings,
    graph: Graph,
    on_failure: Callable[[str], None] = lambda _: None,
    wait_seconds: float = 0.0,
) -> AsyncIterator[Database]:
    """Yield the database: of the cluster in MONGODB_URI, or of an embedded mongod.

    Writes are acknowledged by the majority and journaled. The client belongs to the running event
    loop. wait_seconds: how long to wait for a primary. Raises StartError if the database cannot be
    reached, or rejects the first commands.
    """
    async with AsyncExitStack() as stack:
        uri = settings.mongodb_uri
        if uri is None:
            uri, wait_seconds = await stack.enter_async_context(mongod(settings, on_failure)), 0.0
        client = _open(uri, _SOCKET_SECONDS + settings.query_seconds)
        stack.callback(client.close)
        try:
            await _wait_for_primary(client, settings.database, wait_seconds)
            yield client.get_database(settings.database, codec_options(client.codec_options, graph))
        except PyMongoError as error:
            if settings.mongodb_uri is None:
                raise StartError(f"the embedded mongod: {reason_of(error)}") from error
            raise StartError(f"MONGODB_URI: {reason_of(error)}; {_ADVICE}") from error


def _open(uri: str, seconds: float) -> AsyncIOMotorClient[dict[str, Any]]:
    """Return a client. Raises InvalidSetting, whose message has nothing of the credentials."""
    if not _URI.fullmatch(uri):
        raise InvalidSetting(f"MONGODB_URI: {_FORM}; {_ADVICE}")
    try:
        with warnings.catch_warnings():
            # pymongo only warns of a misspelt option and ignores it, even one for security.
            warnings.simplefilter("error", UserWarning)
            options = {**_OPTIONS, "socketTimeoutMS": round(seconds * 1_000)}
            return AsyncIOMotorClient(uri, event_listeners=[_PoolSize()], **options)
    except (PyMongoError, ValueError, TypeError, OSError, UserWarning) as error:
        # What follows an unescaped & in the value of an option is taken for the name of another.
        is_secret = _SECRET_OPTIONS.search(uri) and not isinstance(error, OSError)
        reason = _INVALID_OPTION if is_secret else reason_of(error)
        raise InvalidSetting(f"MONGODB_URI: {reason}; {_ADVICE}") from error


async def _wait_for_primary(
    client: AsyncIOMotorClient[dict[str, Any]], database: str, seconds: float
) -> None:
    deadline, is_first = time.monotonic() + seconds, True
    while True:
        try:
            return await _check(client, database)
        except ConnectionFailure as error:
            if time.monotonic() >= deadline:
                raise
            if is_first:
                _log.warning("Waiting for the primary of MONGODB_URI: %s", reason_of(error))
                is_first = False
            await asyncio.sleep(_WAIT_PAUSE_SECONDS)


async def _check(client: AsyncIOMotorClient[dict[str, Any]], database: str) -> None:
    try:
        hello = await client.admin.command("hello")
    except ValueError as error:  # of SASLprep, which prohibits some characters in passwords
        raise StartError(f"MONGODB_URI: {error}; {_ADVICE}") from error
    if "setName" not in hello and hello.get("msg") != "isdbgrid":  # how a mongos identifies itself
        raise StartError(
            "MONGODB_URI: the server is not a member of a replica set: start it with --replSet "
            "and initiate the set, or leave MONGODB_URI unset for an embedded mongod"
        )
    if not hello["isWritablePrimary"]:
        raise StartError(
            "MONGODB_URI: the server is not the primary of its replica set: remove directConnection"
        )
    if hello["maxWireVersion"] < _MIN_WIRE_VERSION:
        version = (await client.server_info())["version"]
        raise StartError(f"the database is MongoDB {version}: the service requires 6.0 or later")
    await client[database].list_collection_names()  # fails if authentication is required


def reason_of(error: Exception) -> str:
    """Return pymongo's message, without the client state that it appends.

    Of a command that MongoDB denies, only the name is kept.
    """
    message = re.split(r" \(configured timeouts|, Timeout: |, full error: ", str(error))[0]
    return re.sub(r"(?<=execute command )\{ (\w+): .*", r"`\1`", message).rstrip(".")


SERVICE_COLLECTION, LAST_BACKUP_ID = "registry", "backup"
"""The collection that has the number of the format of the data, and the time of the last complete
backup under this id."""

INCOMPLETE_RESTORE = "incomplete_restore"
"""The collection that exists, with the time of the backup, until a restore is complete."""


async def require_complete(database: Database) -> None:
    """Raise StartError if a restore into the database was interrupted; also PyMongoError."""
    if await is_incomplete(database):
        raise StartError(
            f"the database {database.name} has only a part of a backup: "
            "restore it again, which removes that part, or choose another with --database"
        )


async def is_incomplete(database: Database) -> bool:
    """Return whether a restore into the database was interrupted. Raises PyMongoError."""
    return bool(await database.list_collection_names(filter={"name": INCOMPLETE_RESTORE}))


def codec_options(options: CodecOptions[Any], graph: Graph) -> CodecOptions[Any]:
    """Return the options with the codec of decimals, if an attribute needs it.

    With any codec, decoding takes 1.5 times as long.
    """
    declared = (each for resource_type in graph.values() for each in resource_type.fields)
    if not any(each.kind.stored_type is Decimal for each in declared):
        return options
    return options.with_options(type_registry=TypeRegistry([DecimalCodec()]))


class DecimalCodec(TypeCodec):
    """Stores exact decimal numbers as Decimal128, so that MongoDB compares them as numbers."""

    python_type, bson_type = Decimal, Decimal128

    def transform_python(self, value: Any) -> Decimal128:
        """Return a number, of at most 34 digits, as it is stored."""
        return Decimal128(value)

    def transform_bson(self, value: Decimal128) -> Decimal:
        """Return a stored number."""
        return value.to_decimal()


class SnapshotExpired(Exception):
    """Reads took longer than MongoDB keeps a snapshot; the message says how to keep it longer."""


@asynccontextmanager
async def snapshot_session(database: Database) -> AsyncIterator[AsyncIOMotorClientSession]:
    """Yield a session whose reads all show the point in time of the first one.

    Raises SnapshotExpired, after five minutes by default; also PyMongoError.
    """
    try:
        async with await database.client.start_session(snapshot=True) as session:
            with pymongo.timeout(_READ_SECONDS):
                yield session
    except OperationFailure as error:
        if error.code == _SNAPSHOT_TOO_OLD:
            raise SnapshotExpired(
                "it takes longer than MongoDB keeps a snapshot: "
                "increase the server parameter minSnapshotHistoryWindowInSeconds"
            ) from error
        raise


async def observed(command: str, reply: Awaitable[_Reply]) -> _Reply:
    """Return the reply to a command, or raise its error, and observe how long it takes.

    With a CommandListener instead, reading one person took a tenth more CPU time.
    """
    begin, outcome = perf_counter(), "failure"
    try:
        result = await reply
        outcome = "success"
        return result
    finally:
        COMMANDS.labels(command, outcome).observe(perf_counter() - begin)


class _PoolSize(monitoring.ConnectionPoolListener):
    """Counts the connections of the pool, when the driver calls it on its threads."""

    def connection_created(self, _: monitoring.ConnectionCreatedEvent) -> None:
        CONNECTIONS.inc()

    def connection_closed(self, _: monitoring.ConnectionClosedEvent) -> None:
        CONNECTIONS.dec()

    def connection_checked_out(self, _: monitoring.ConnectionCheckedOutEvent) -> None:
        CONNECTIONS_IN_USE.inc()

    def connection_checked_in(self, _: monitoring.ConnectionCheckedInEvent) -> None:
        CONNECTIONS_IN_USE.dec()

    def _ignore(self, event: Any) -> None:
        """Do nothing; the base class requires a method for each event."""

    connection_ready = connection_check_out_started = connection_check_out_failed = _ignore
    pool_created = pool_ready = pool_cleared = pool_closed = _ignore
