"""The command `restore`: the content of a backup into an empty database."""

from collections.abc import Sequence
from pathlib import Path

from registry.commands.backup import summary
from registry.commands.database import database_options, note, open_database, run, settings_of
from registry.settings import Parser, Settings, StartError
from registry.storage.backups import BackupError, restore


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    parser = Parser(
        prog="python -m registry restore",
        description="Write the content of a backup into an empty database, or into one that an "
        "interrupted restore has left. The whole file is checked before. Services that use the "
        "database must be stopped.",
        parents=[database_options()],
        allow_abbrev=False,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a file written by backup")
    parsed = parser.parse_args(arguments)
    run(_restore(settings_of(parsed), parsed.file))


async def _restore(settings: Settings, file: Path) -> None:
    try:
        async with open_database(settings, exclusive=True) as database:
            manifest = await restore(database, file)
    except (BackupError, OSError) as error:
        raise StartError(f"cannot restore the backup: {error}") from error
    note(f"Restored {summary(manifest)} of {manifest.time}")
