"""Commands whose standard input or output is closed, full, or read by nobody."""

import asyncio
import shlex

import pytest

from tests.support import Database, complete_record
from tests.system.service import COMMAND, environment, run_command

pytestmark = pytest.mark.slow

BACKUP = "backup -"


@pytest.fixture
async def variables(database: Database, mongodb_uri: str) -> dict[str, str]:
    """The environment of commands on a database with persons."""
    names = {"first_name": "Ada", "last_name": "Lovelace"}
    await database.persons.insert_many(
        complete_record({"_id": id_, **names}) for id_ in range(1, 2_001)
    )
    return environment(MONGODB_URI=mongodb_uri, REGISTRY_DATABASE=database.name)


@pytest.mark.parametrize(
    ("arguments", "redirection", "status", "errors"),
    [
        (BACKUP, "| true", 141, ""),
        ("--version", "| true", 141, ""),
        (BACKUP, ">/dev/full", 1, "cannot write the backup: No space left on device"),
        (BACKUP, ">&-", 1, "standard output is closed"),
        ("token list", ">&-", 1, "standard output is closed"),
        ("token list", ">/dev/full", 1, "cannot write to standard output: No space left on device"),
        ("import --type person -", "<&-", 2, "-: standard input is closed"),
    ],
)
def test_an_unusable_stream_is_reported_in_one_line(
    arguments: str, redirection: str, status: int, errors: str, variables: dict[str, str]
) -> None:
    command = f"{shlex.join(COMMAND)} {arguments} {redirection}"
    done = run_command(["bash", "-o", "pipefail", "-c", command], variables)
    assert (done.returncode, done.stderr) == (status, errors and f"registry: {errors}\n")


def test_notes_are_not_written_to_the_output(variables: dict[str, str]) -> None:
    command = f"{shlex.join(COMMAND)} token create --name ci --scope read 2>&-"
    done = run_command(["bash", "-c", command], variables)
    assert (done.returncode, len(done.stdout.split())) == (0, 1)


async def test_without_output_no_token_is_made(
    variables: dict[str, str], database: Database
) -> None:
    command = f"{shlex.join(COMMAND)} token create --name ci --scope read >&-"
    done = await asyncio.to_thread(run_command, ["bash", "-c", command], variables)
    assert (done.returncode, done.stderr) == (1, "registry: standard output is closed\n")
    assert await database.tokens.count_documents({}) == 0
