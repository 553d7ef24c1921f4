"""The commands on a database: backup, restore, check, upgrade and forget.

The database is that of MONGODB_URI, or the embedded one, also while a service uses it. Each command
exits with status 1 if it fails, with 2 if the arguments are wrong.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Container, Coroutine, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import replace
from typing import Any, TypeVar

from registry.commands.arguments import database_parser
from registry.commands.output import counted, describe, fail, input_file, output, output_file
from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import Unavailable
from registry.jsonapi.resource_objects import path_of
from registry.model.implicit_attributes import parse_id
from registry.model.resource_type import ResourceType
from registry.mongod.data_directory import has_data, running_uri
from registry.mongod.embedded import long_snapshots
from registry.operations.backups import Backup, BackupError, Manifest, back_up, record_backup
from registry.operations.backups import restore as restore_backup
from registry.operations.consistency import Report
from registry.operations.consistency import check as check_database
from registry.operations.forgetting import forget as forget_copies
from registry.operations.upgrade import raise_format, require_current
from registry.program import StartError, note
from registry.settings import Settings, without_credentials
from registry.storage import (
    COLLECTION,
    SERVICE_COLLECTION,
    Database,
    SnapshotExpired,
    Tokens,
    connect,
    require_complete,
)

_Result = TypeVar("_Result")


def backup(arguments: Sequence[str]) -> None:
    """Write the whole database at one point in time to a file."""
    parser = database_parser(
        "backup",
        "Write the whole database at one point in time to a new file, even while the service runs. "
        "The file has a checksum, and gets its name when it is complete.",
        "[OPTIONS] FILE",
    )
    parser.add_argument(
        "file", metavar="FILE", help="Create this file; - writes to standard output."
    )
    parsed = parser.parse_args(arguments)
    run(_back_up(parser.settings(parsed), parsed.file))


async def _back_up(settings: Settings, file: str) -> None:
    with _reported_errors("write"):
        async with open_database(settings) as database:
            with output_file(file) as opened:
                async with _long_snapshots(settings, database):
                    manifest = await back_up(database, opened)
            try:
                await record_backup(database, manifest)
            except BackupError as error:
                note(f"Cannot record the time of the backup for the metrics: {error}")
    note(f"Wrote {_summary(manifest, settings)} of {place_of(settings)} to {file}")
    writable = settings.graph.writable
    if not any(manifest.documents.get(resource.collection) for resource in writable):
        names = " and no ".join(resource.type for resource in writable)
        note(f"Warning: the backup has no {names}: is this the right database?")


def restore(arguments: Sequence[str]) -> None:
    """Write the content of a backup into an empty database."""
    parser = database_parser(
        "restore",
        "Write the content of a backup into an empty database, or one that an interrupted restore "
        "left behind. The whole file is checked first. Stop the services that use the database.",
        "[OPTIONS] FILE",
    )
    help_text = "Read this file, which backup has written; - reads standard input."
    parser.add_argument("file", metavar="FILE", help=help_text)
    parser.add_argument(
        "--without-tokens",
        action="store_true",
        help="Restore no access tokens: some may have been revoked since the backup.",
    )
    parsed = parser.parse_args(arguments)
    omitted = {COLLECTION} if parsed.without_tokens else set[str]()
    run(_restore(parser.settings(parsed), parsed.file, omitted))


async def _restore(settings: Settings, name: str, omitted: Container[str]) -> None:
    with _reported_errors("restore"), input_file(name) as file:
        opened = Backup(file)
        async with open_database(settings, exclusive=True, creates=True) as database:
            directory = None if settings.mongodb_uri else settings.data_dir
            manifest = await restore_backup(database, opened, directory, omitted)
            tokens = await Tokens(database).find_all()
    restored = f"{_summary(manifest, settings)} from the backup of {manifest.time}"
    note(f"Restored {restored} into {place_of(settings)}")
    advice = ": revoke those that have been revoked since the backup"
    valid = ", ".join(token.name for token in tokens if token.state == "valid")
    note(f"Valid access tokens: {f'{valid}{advice}' if valid else 'none'}")


def check(arguments: Sequence[str]) -> None:
    """Print the first violations of each rule, one per line; exit with status 1 if there are any.

    With `--repair`, correct what follows from other data, and check again.
    """
    parser = database_parser(
        "check",
        "Check that records fit their types, that links lead to existing resources, that counters "
        "agree with their collections, and counts with the members of relationships, and that the "
        "periods of a link do not overlap, all at one point in time, even while the service runs.",
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="Remove links to nothing, end overlapping periods, correct counters and counts, and "
        "check again.",
    )
    parsed = parser.parse_args(arguments)
    if not run(_check(parser.settings(parsed), repair=parsed.repair)):
        sys.exit(1)


async def _check(settings: Settings, *, repair: bool) -> bool:
    """Check, and if `repair` is set and necessary, check again; return whether all is right."""
    try:
        async with open_database(settings) as database:
            await require_complete(database)
            await require_current(database)
            async with _long_snapshots(settings, database):
                report = await check_database(database, settings.graph, repair=repair)
            _print(report, settings)
            if report.total and repair:
                note("Repaired; the result of another check follows")
                report = await check_database(database, settings.graph)
                _print(report, settings)
    except (SnapshotExpired, RequestError) as error:
        reason = "it does not respond, or writes conflict"
        if not isinstance(error, Unavailable):
            reason = str(error)
        raise StartError(f"cannot check the database: {reason}") from error
    return not report.total


def _print(report: Report, settings: Settings) -> None:
    for line in report.lines:
        output(line)
    result = f"{report.total:,} inconsistent" if report.total else "consistent"
    checked = ", ".join(counted(settings.graph, report.records))
    note(f"Checked {checked} of {place_of(settings)}: {result}")


def upgrade(arguments: Sequence[str]) -> None:
    """Raise the data format of the embedded MongoDB to that of its mongod."""
    parser = database_parser(
        "upgrade",
        "Raise the format of the data of the embedded MongoDB (its feature compatibility version) "
        "to that of its mongod, also while the service runs. Earlier versions of MongoDB cannot "
        "open the data any more: make a backup before.",
    )
    run(_upgrade(parser.settings(parser.parse_args(arguments))))


async def _upgrade(settings: Settings) -> None:
    if settings.mongodb_uri is not None:
        raise StartError(
            "upgrade is for the embedded MongoDB: unset MONGODB_URI, or upgrade the members of "
            "that cluster as MongoDB's documentation describes"
        )
    async with open_database(settings) as database:
        own, data = await raise_format(database)
    if data == own:
        note(f"{place_of(settings)} has the data format of MongoDB {own} already.")
    else:
        note(f"Raised the data format of {place_of(settings)} from {data} to {own}.")


def forget(arguments: Sequence[str]) -> None:
    """Remove what histories keep of a deleted resource, such as a name."""
    parser = database_parser(
        "forget",
        "Remove what the history keeps of a deleted resource, such as the name of a person, even "
        "while the service runs. Periods and ids stay. Backups still contain the name.",
        "[OPTIONS] TYPE ID",
    )
    parser.add_argument("type", metavar="TYPE", help="The type of the resource, such as person.")
    parser.add_argument("id", metavar="ID", help="The id that the resource had.")
    parsed = parser.parse_args(arguments)
    settings, id_ = parser.settings(parsed), parse_id(parsed.id)
    types = {resource.type: resource for resource in settings.graph.writable}
    if parsed.type not in types:
        parser.error(f"TYPE: {parsed.type!r} is not {' or '.join(types)}")
    if id_ is None:
        parser.error(f"ID: {parsed.id!r} is not a valid id")
    run(_forget(settings, types[parsed.type], id_))


async def _forget(settings: Settings, resource: ResourceType, id_: int) -> None:
    async with open_database(settings) as database:
        await require_current(database)
        changed = await forget_copies(database, settings.graph, resource, id_)
    name, place = f"{resource.type} {id_}", place_of(settings)
    if changed is None:
        path = path_of(resource, id_)
        raise StartError(f"{name} exists: delete it first, DELETE {path}")
    counts = [f"{count:,} {periods.collection}" for periods, count in changed.items() if count]
    if counts:
        note(f"Removed the copied attributes of {name} from {', '.join(counts)} in {place}")
    else:
        types = " or ".join(periods.type for periods in changed)
        note(f"No {types or 'history'} has copied attributes of {name} in {place}")


def _long_snapshots(settings: Settings, database: Database) -> AbstractAsyncContextManager[None]:
    """Let the embedded mongod keep the point in time that a command reads, for up to an hour."""
    return nullcontext() if settings.mongodb_uri else long_snapshots(database.client)


def place_of(settings: Settings) -> str:
    """Return where the database is, for messages: the data directory, or the URI and the name."""
    if settings.mongodb_uri is None:
        return str(settings.data_dir.absolute())
    return f"the database {settings.database} at {without_credentials(settings.mongodb_uri)}"


@asynccontextmanager
async def open_database(
    settings: Settings, *, exclusive: bool = False, creates: bool = False
) -> AsyncIterator[Database]:
    """Yield the database; for the embedded one, a mongod is started if no service runs it.

    exclusive: whether a running service is an error. creates: whether the data directory is created
    if it has no data, which is an error otherwise. Raises StartError.
    """
    async with AsyncExitStack() as stack:
        if settings.mongodb_uri is None:
            uri = stack.enter_context(running_uri(settings))
            if uri is not None and exclusive:
                raise StartError(
                    f"a service uses the data directory {settings.data_dir}: stop it first"
                )
            if uri is None and not creates and not has_data(settings):
                raise StartError(
                    f"the data directory {settings.data_dir.absolute()} has no data: correct "
                    "--data-dir or REGISTRY_DATA_DIR, or start the service, which creates it"
                )
            settings = replace(settings, mongodb_uri=uri)
        yield await stack.enter_async_context(connect(settings, settings.graph))


def run(command: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a command; exit with status 1 and one line if it fails."""
    try:
        return asyncio.run(command)
    except StartError as error:
        fail(error)


@contextmanager
def _reported_errors(action: str) -> Iterator[None]:
    """Raise StartError with the reason why the action on a backup is not possible."""
    try:
        yield
    except (BackupError, OSError) as error:
        raise StartError(f"cannot {action} the backup: {describe(error)}") from error


def _summary(manifest: Manifest, settings: Settings) -> str:
    """Return the number of documents in each collection of a backup that has data."""
    documents = manifest.documents.items()
    counts = {name: count for name, count in documents if count and name != SERVICE_COLLECTION}
    return ", ".join(counted(settings.graph, counts)) or "no documents"
