"""Access tokens: the command that creates, lists and revokes them, and services that check them."""

import asyncio
import os
import re
from contextlib import nullcontext
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from time import sleep
from urllib.parse import urlsplit

import pytest

from registry.access.principal import check_form
from registry.commands import token as token_command
from registry.settings import Settings
from tests.support import Database
from tests.system.conftest import Start
from tests.system.service import TIMEOUT, Service

ADVICE = "choose another with --data-dir or REGISTRY_DATA_DIR"

ON_ALL_ADDRESSES = ("--host", "0.0.0.0")  # noqa: S104 - what requires tokens


@dataclass(frozen=True)
class Command:
    """The command, which runs in the process of the tests."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def fail(self, *arguments: str | Path) -> str:
        """Run the command, which fails; return its message."""
        output, message = self.run(*arguments, status=1)
        assert output == ""
        return message.removesuffix("\n")

    def run(self, *arguments: str | Path, status: int | None = None) -> tuple[str, str]:
        """Run the command; return its output and its messages. status: what it exits with."""
        with nullcontext() if status is None else pytest.raises(SystemExit) as caught:
            token_command.main(list(map(str, arguments)))
        assert caught is None or caught.value.code == status
        return self.capsys.readouterr()

    def create(self, name: str, *arguments: str | Path) -> str:
        output, message = self.run("create", "--name", name, "--scope", "read", *arguments)
        token = output.removesuffix("\n")
        check_form(token)
        assert token not in message
        return token


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    for variable in [name for name in os.environ if name.startswith(("REGISTRY_", "MONGODB_URI"))]:
        monkeypatch.delenv(variable)
    return Command(monkeypatch, capsys)


def statuses(service: Service, token: str | None) -> set[int]:
    """Return the statuses of requests on several connections, which reach all workers."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    found = set()
    for _ in range(12):
        connection = HTTPConnection("127.0.0.1", urlsplit(service.url).port, timeout=TIMEOUT)
        connection.request("GET", "/persons", headers=headers)
        found.add(connection.getresponse().status)
        connection.close()
    return found


def test_tokens_are_managed_with_and_without_workers(
    start: Start, tmp_path: Path, command: Command
) -> None:
    data_dir = tmp_path / ("long" * 30)  # its socket is elsewhere
    service = start(
        *("--workers", "2", "--metrics-port", "0", *ON_ALL_ADDRESSES), data_dir=data_dir
    )
    command_line = (
        f"./scripts/registry token create --name NAME --scope write --data-dir {data_dir}"
    )
    line = service.announcement
    assert f". No access token exists yet; `{command_line}` creates one. Metrics: http://" in line
    assert statuses(service, None) == {401}
    token = command.create("ci", "--data-dir", data_dir)
    assert statuses(service, token) == {200}
    assert "ci    read" in command.run("list", "--data-dir", data_dir)[0]
    command.run("revoke", "ci", "--data-dir", data_dir)
    sleep(1)
    assert statuses(service, token) == {401}
    _, log = service.stop()
    assert "401" in log
    assert token not in log
    listed, _ = command.run("list", "--data-dir", data_dir)  # starts mongod itself
    assert re.search(r"ci +read .* revoked\n", listed)


def test_a_directory_without_data_is_not_created(tmp_path: Path, command: Command) -> None:
    missing = tmp_path / "missing"
    message = (
        f"registry: the data directory {missing} has no data: correct --data-dir or "
        "REGISTRY_DATA_DIR, or start the service, which creates it"
    )
    assert command.fail("list", "--data-dir", missing) == message
    assert command.fail("revoke", "ci", "--data-dir", missing) == message
    assert not missing.exists()
    invalid = tmp_path / ("x" * 300)
    message = f"registry: cannot use data directory {invalid} (File name too long)"
    assert command.fail("list", "--data-dir", invalid) == f"{message}: {ADVICE}"


def test_a_name_can_be_used_again(mongodb_uri: str, settings: Settings, command: Command) -> None:
    command.monkeypatch.setenv("MONGODB_URI", mongodb_uri)
    command.monkeypatch.setenv("REGISTRY_DATABASE", settings.database)
    command.create("ci")
    command.create("other", "--scope", "persons:write", "--expires", "90d")
    taken = "registry: there is a token ci already: revoke it or choose another name"
    assert command.fail("create", "--name", "ci", "--scope", "read") == taken
    command.run("revoke", "ci")
    command.create("ci")
    heading, *rows = command.run("list")[0].splitlines()
    assert heading.split() == ["NAME", "SCOPES", "CREATED", "EXPIRES", "LAST", "USED", "STATE"]
    minute = r"\d{4}-\d\d-\d\dT\d\d:\d\dZ"
    patterns = [
        rf"ci +read +{minute} +never +never +revoked",
        rf"other +persons:write,read +{minute} +{minute} +never +valid",
        rf"ci +read +{minute} +never +never +valid",
    ]
    for row, pattern in zip(rows, patterns, strict=True):
        assert re.fullmatch(pattern, row)
    assert command.fail("revoke", "unknown") == "registry: there is no token unknown to revoke"


async def test_a_name_is_revoked_at_once(
    mongodb_uri: str, database: Database, command: Command
) -> None:
    tokens = [{"_id": digest, "name": "ci", "scopes": ["read"]} for digest in (b"1", b"2")]
    await database["tokens"].insert_many(tokens)
    arguments = ("--mongodb-uri", mongodb_uri, "--database", database.name, "ci")
    await asyncio.to_thread(command.run, "revoke", *arguments)
    assert await database["tokens"].count_documents({"revoked": None}) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("create --name ci", "the following arguments are required: --scope"),
        (f"create --name {'x' * 999} --scope read", f"--name: '{'x' * 80}' is not a valid name"),
        ("create --name ci --scope reed", "--scope: 'reed' is not a scope; available: read, write"),
        ("create --name ci --scope read --expires 99999d", "--expires: '99999d' is not a time"),
        ("revoke a/b", "NAME: 'a/b' is not a valid name"),
        ("list --database admin", "--database: the database name 'admin' is reserved"),
        ("list --port 1", "unrecognized arguments: --port 1"),
    ],
)
def test_a_wrong_argument_is_one_line(arguments: str, message: str, command: Command) -> None:
    output, error = command.run(*arguments.split(), status=2)
    assert output == ""
    assert error.startswith(f"registry: {message}")
    assert error.count("\n") == 1
