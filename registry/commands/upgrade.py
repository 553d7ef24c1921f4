"""The command `upgrade`: the data of the embedded MongoDB, in the format of its mongod."""

from collections.abc import Sequence

from registry.commands.database import database_parser, open_database, run, settings_of
from registry.commands.output import note
from registry.mongod.data_format import raise_format
from registry.settings import Settings
from registry.start_error import StartError

_DESCRIPTION = (
    "Raise the format of the data of the embedded MongoDB (its feature compatibility version) "
    "to that of its mongod, also while the service runs. Earlier versions of MongoDB cannot open "
    "the data any more: make a backup before."
)


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    parser = database_parser("upgrade", _DESCRIPTION)
    run(_upgrade(settings_of(parser.parse_args(arguments))))


async def _upgrade(settings: Settings) -> None:
    if settings.mongodb_uri is not None:
        raise StartError(
            "upgrade is for the embedded MongoDB: unset MONGODB_URI, or upgrade the members of "
            "that cluster as MongoDB's documentation describes"
        )
    async with open_database(settings) as database:
        before = await raise_format(database.client)
    if before.data == before.own:
        note(f"The data have the format of MongoDB {before.own} already.")
    else:
        note(f"Raised the format of the data from MongoDB {before.data} to {before.own}.")
