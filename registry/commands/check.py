"""The command `check`: lists inconsistent data, and repairs what can be derived."""

import sys
from collections.abc import Sequence

from registry.commands.database import database_parser, open_database, run, settings_of
from registry.commands.output import note, output
from registry.model.graph import Graph
from registry.operations.consistency import Report, check
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.start_error import StartError
from registry.storage import SnapshotExpired, require_complete

_DESCRIPTION = (
    "Check that links lead to resources that exist, that counters are ahead of ids, that computed "
    "attributes, versions and text blocks are right, and that indexes are complete, all at one "
    "point in time, also while the service runs."
)


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if data are inconsistent, or if it fails.

    Prints the first violations of each rule, one per line. Exits with status 2 if the arguments are
    wrong.
    """
    parser = database_parser("check", _DESCRIPTION)
    parser.add_argument(
        "--repair",
        action="store_true",
        help="remove dangling links, store recomputed values, and check again",
    )
    parsed = parser.parse_args(arguments)
    if not run(_check(settings_of(parsed), repair=parsed.repair)):
        sys.exit(1)


async def _check(settings: Settings, *, repair: bool) -> bool:
    """Check, and if `repair` is set and necessary, check again; return whether all is right."""
    graph = Graph(RESOURCES)
    try:
        async with open_database(settings) as database:
            await require_complete(database)
            report = await check(database, graph, repair=repair)
            _print(report)
            if report.total and repair:
                note("Repaired; what follows is the result of another check")
                report = await check(database, graph)
                _print(report)
    except SnapshotExpired as error:
        raise StartError(f"cannot check the database: {error}") from error
    return not report.total


def _print(report: Report) -> None:
    for rule in report.rules:
        for violation in rule.listed:
            output(str(violation))
        if more := rule.total - len(rule.listed):
            output(f"... and {more:,} more of this kind")
    records = ", ".join(f"{number:,} {name}" for name, number in report.records.items())
    result = f"{report.total:,} inconsistent" if report.total else "consistent"
    note(f"Checked {records}: {result}")
