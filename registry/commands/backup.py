"""The command `backup`: the whole database at one point in time, as one file."""

from collections.abc import Sequence
from pathlib import Path

from registry.commands.database import backup_parser, open_database, run, settings_of
from registry.commands.output import describe, note
from registry.operations.backup_archive import BackupError, Manifest
from registry.operations.backups import back_up
from registry.settings import Settings
from registry.start_error import StartError

_DESCRIPTION = (
    "Write the whole database, as it is at one point in time, to a new file, also "
    "while the service runs. The file has a checksum, and gets its name when it is complete."
)


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    parsed = backup_parser("backup", _DESCRIPTION, "file to create").parse_args(arguments)
    run(_back_up(settings_of(parsed), parsed.file))


async def _back_up(settings: Settings, file: Path) -> None:
    try:
        async with open_database(settings) as database:
            manifest = await back_up(database, file)
    except BackupError as error:
        raise StartError(f"cannot write the backup: {error}") from error
    except OSError as error:
        raise StartError(f"cannot write the backup: {describe(error)}") from error
    note(f"Wrote {summary(manifest)} to {file}")


def summary(manifest: Manifest) -> str:
    """Return the number of documents in each collection of a backup that is not empty."""
    counts = (f"{one.documents:,} {one.name}" for one in manifest.collections if one.documents)
    return ", ".join(counts) or "no documents"
