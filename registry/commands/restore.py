"""The command `restore`: the content of a backup into an empty database."""

from collections.abc import Container, Sequence
from pathlib import Path

from registry.commands.backup import summary
from registry.commands.database import backup_parser, open_database, run, settings_of
from registry.commands.output import describe, note
from registry.operations.backup_archive import BackupError, open_backup
from registry.operations.backups import restore
from registry.settings import Settings
from registry.start_error import StartError
from registry.storage import COLLECTION, Tokens

_DESCRIPTION = (
    "Write the content of a backup into an empty database, or into one that an "
    "interrupted restore has left. The whole file is checked before. Services that use the "
    "database must be stopped."
)

_MAX_LISTED = 100
"""Names of tokens."""


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    parser = backup_parser("restore", _DESCRIPTION, "a file written by backup")
    parser.add_argument(
        "--without-tokens",
        action="store_true",
        help="leave out the access tokens, among which some may have been revoked since the backup",
    )
    parsed = parser.parse_args(arguments)
    omitted = {COLLECTION} if parsed.without_tokens else set[str]()
    run(_restore(settings_of(parsed), parsed.file, omitted))


async def _restore(settings: Settings, file: Path, omitted: Container[str]) -> None:
    try:
        with open_backup(file) as backup:
            async with open_database(settings, exclusive=True, creates=True) as database:
                directory = None if settings.mongodb_uri else settings.data_dir
                manifest = await restore(database, backup, directory, omitted)
                tokens, _ = await Tokens(database).find_all()
    except BackupError as error:
        raise StartError(f"cannot restore the backup: {error}") from error
    except OSError as error:
        raise StartError(f"cannot restore the backup: {describe(error)}") from error
    note(f"Restored {summary(manifest)} from the backup of {manifest.time}")
    note(f"Valid access tokens: {_listed([one.name for one in tokens if one.state == 'valid'])}")


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    advice = "revoke those that have been revoked since the backup"
    return f"{', '.join(names[:_MAX_LISTED])}{more}: {advice}"
