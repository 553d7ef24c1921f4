"""The command `restore`: the content of a backup into an empty database."""

from collections.abc import Sequence
from pathlib import Path

from registry.commands.backup import summary
from registry.commands.database import open_database, parse_file, run
from registry.commands.output import describe, note
from registry.settings import Settings
from registry.start_error import StartError
from registry.storage.backup_archive import BackupError, open_backup
from registry.storage.backups import restore

_DESCRIPTION = (
    "Write the content of a backup into an empty database, or into one that an "
    "interrupted restore has left. The whole file is checked before. Services that use the "
    "database must be stopped."
)


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    settings, file = parse_file("restore", _DESCRIPTION, "a file written by backup", arguments)
    run(_restore(settings, file))


async def _restore(settings: Settings, file: Path) -> None:
    try:
        with open_backup(file) as backup:
            async with open_database(settings, exclusive=True, creates=True) as database:
                directory = None if settings.mongodb_uri else settings.data_dir
                manifest = await restore(database, backup, directory)
    except BackupError as error:
        raise StartError(f"cannot restore the backup: {error}") from error
    except OSError as error:
        raise StartError(f"cannot restore the backup: {describe(error)}") from error
    note(f"Restored {summary(manifest)} from the backup of {manifest.time}")
