"""The commands `import`, `export` and `seed`: files, rows, matches, and failures of the service."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket
import sys
import termios
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from registry.capacity import Capacity
from registry.commands import export, import_, seed
from registry.jsonapi.query import Query
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongo.mongo_client import connect
from registry.storage.repository import Repository
from registry.transfer import exporter
from registry.transfer.client import Client, TransferError, open_client
from registry.transfer.csv_rows import read_csv
from registry.transfer.exporter import Exporter
from registry.transfer.importer import Importer, ImportOptions
from registry.transfer.operations import Operation
from registry.transfer.rows import COMPUTER, PERSON, InvalidRow
from registry.transfer.tally import Effect, Tally
from tests.certificates import Authority
from tests.conftest import Grant, Serve
from tests.support import Api, Database
from tests.system.conftest import Start
from tests.system.service import COMMAND, ROOT, environment

HEADER = "first_name,last_name,email,serials\n"
STAFF = (
    "Ada,Lovelace,ada@example.org,A-1;A-2\n"
    "Alan,Turing,,\n"
    'Zoë,"O\'Neil, ""Z""",zoe@example.org,"""B;1"";"" B\n2 """\n'
    ",,,C-1\n"
)
MATCH, DRY = ImportOptions(is_matching=True), ImportOptions(is_dry=True)


@dataclass(frozen=True)
class Run:
    """The exit status and output of a command. errors: the lines of stderr."""

    status: int
    output: str
    errors: list[str]


RunCommand = Callable[..., Awaitable[Run]]


async def spawn(
    *arguments: str | Path,
    stdin: int = DEVNULL,
    errors: int = PIPE,
    certificates: Path | None = None,
) -> asyncio.subprocess.Process:
    variables = {} if certificates is None else {"SSL_CERT_FILE": str(certificates)}
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        cwd=ROOT,
        env=environment(**variables),
        stdin=stdin,
        stdout=PIPE,
        stderr=errors,
    )


async def wait_for(process: asyncio.subprocess.Process) -> Run:
    try:
        output, errors = await asyncio.wait_for(process.communicate(), timeout=60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Run(process.returncode, output.decode(), (errors or b"").decode().splitlines())


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Run a command in a thread, as starting a process takes longer than most commands."""

    def run_command(command: ModuleType, *arguments: str | Path) -> int:
        try:
            command.main(list(map(str, arguments)))
        except SystemExit as exit_:
            return int(exit_.code or 0) if not isinstance(exit_.code, str) else fail(exit_.code)
        return 0

    def fail(message: str) -> int:
        sys.stderr.write(f"{message}\n")  # as the interpreter does
        return 1

    monkeypatch.setattr(signal, "signal", lambda *_: None)  # which threads cannot call

    async def run(command: ModuleType, *arguments: str | Path, **variables: str) -> Run:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        status = await asyncio.to_thread(run_command, command, *arguments)
        printed = capfd.readouterr()
        return Run(status, printed.out, printed.err.splitlines())

    return run


@pytest.fixture
def staff(tmp_path: Path) -> Path:
    path = tmp_path / "the staff.csv"
    path.write_text(HEADER + STAFF, newline="")
    return path


@pytest.fixture
async def client(api: Api) -> AsyncIterator[Client]:
    async with open_client(api.origin, None) as client:
        yield client


async def import_rows(
    client: Client,
    rows: str,
    options: ImportOptions = ImportOptions(),  # noqa: B008 - immutable
) -> tuple[Tally, list[InvalidRow]]:
    """Import CSV rows; return the tally, and the invalid rows as they are reported."""
    tally = Tally()
    importer = Importer(client, tally, options)
    source = read_csv(io.StringIO(HEADER + rows, newline=""))
    return tally, [row async for result in importer.run(source) for row in result.invalid]


async def stored(api: Api) -> tuple[list[Any], list[Any]]:
    """Return the persons, and the serial of each computer with the full name of its owner."""
    persons = [list(each["attributes"].values()) for each in (await api.get("/persons")).data]
    document = (await api.get("/computers?include=owner")).document
    names = {one["id"]: one["attributes"]["full_name"] for one in document["included"]}
    computers = []
    for each in document["data"]:
        owner = each["relationships"]["owner"]["data"]
        computers.append((each["attributes"]["serial"], owner and names[owner["id"]]))
    return persons, computers


def effects(tally: Tally) -> dict[str, tuple[int, int]]:
    """Return the numbers of persons and computers by effect."""
    counts = {one.name: (tally.counts[one, PERSON], tally.counts[one, COMPUTER]) for one in Effect}
    return {name: pair for name, pair in counts.items() if any(pair)}


async def test_a_file_creates_persons_with_their_computers(api: Api, staff: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(ROOT / "scripts" / "registry", "import", "--url", api.origin, staff.name),
        cwd=staff.parent,
        stdout=PIPE,
        stderr=PIPE,
    )
    done = await wait_for(process)
    assert done.status == 0, done.errors
    assert done.output.startswith("created 3 persons and 5 computers, in ")
    persons, computers = await stored(api)
    assert sorted(persons) == [
        ["Ada", "Lovelace", "Ada Lovelace", "ada@example.org"],
        ["Alan", "Turing", "Alan Turing", None],
        ["Zoë", 'O\'Neil, "Z"', 'Zoë O\'Neil, "Z"', "zoe@example.org"],
    ]
    assert set(computers) == {
        ("A-1", "Ada Lovelace"),
        ("A-2", "Ada Lovelace"),
        ("B;1", 'Zoë O\'Neil, "Z"'),
        (" B\n2 ", 'Zoë O\'Neil, "Z"'),
        ("C-1", None),
    }


async def test_a_second_import_with_match_changes_nothing(api: Api, client: Client) -> None:
    first, _ = await import_rows(client, STAFF, MATCH)
    before = await stored(api)
    second, _ = await import_rows(client, STAFF, MATCH)
    assert effects(first) == {"CREATED": (3, 5)}
    assert effects(second) == {"UNCHANGED": (3, 5)}
    assert await stored(api) == before


async def test_an_import_with_match_changes_what_differs(api: Api, client: Client) -> None:
    await import_rows(client, STAFF)
    rows = "Ada,King,ada@example.org,A-1;C-1;D-1\nAlan,Turing,,A-2\n"
    tally, _ = await import_rows(client, rows, MATCH)
    assert effects(tally) == {"CREATED": (0, 1), "CHANGED": (1, 2), "UNCHANGED": (1, 1)}
    persons, computers = await stored(api)
    assert ["Ada", "King", "Ada King", "ada@example.org"] in persons
    assert len(persons) == 3
    owners = dict(computers)
    assert [owners[serial] for serial in ("A-1", "C-1", "D-1")] == ["Ada King"] * 3
    assert owners["A-2"] == "Alan Turing"


async def test_rows_of_one_person_match_each_other_wherever_they_are(
    api: Api, client: Client
) -> None:
    others = "".join(f"Other,{n},,O-{n}\n" for n in range(1_500))
    ada = "Ada,Lovelace,ada@example.org,A-{}\n"
    tally, _ = await import_rows(client, ada.format(1) * 2 + others + ada.format(2), MATCH)
    assert effects(tally) == {"CREATED": (1_501, 1_502), "UNCHANGED": (2, 1)}
    _, computers = await stored(api)
    assert {("A-1", "Ada Lovelace"), ("A-2", "Ada Lovelace")} < set(computers)


async def test_of_several_matches_the_one_that_fits_is_chosen(client: Client) -> None:
    await import_rows(client, "Ada,Lovelace,,A-1\nAlan,Turing,,A-1\nAda,Lovelace,ada@x.org,\n")
    tally, _ = await import_rows(client, "Ada,Lovelace,,\nAlan,Turing,,A-1\n", MATCH)
    assert effects(tally) == {"UNCHANGED": (2, 1)}


async def test_an_interrupted_import_is_resumed_by_match(api: Api, client: Client) -> None:
    await import_rows(client, "".join(STAFF.splitlines(keepends=True)[:1]))
    tally, _ = await import_rows(client, STAFF, MATCH)
    assert effects(tally) == {"CREATED": (2, 3), "UNCHANGED": (1, 2)}
    assert len((await stored(api))[0]) == 3


@pytest.mark.parametrize("options", [DRY, replace(DRY, is_matching=True)])
async def test_a_dry_run_reports_what_an_import_would_and_stores_nothing(
    options: ImportOptions, api: Api, client: Client
) -> None:
    await import_rows(client, "Ada,Lovelace,ada@example.org,A-1;A-2\n")
    before = await stored(api)
    tally, invalid = await import_rows(client, f"{STAFF},Bad,,X-1\n", options)
    matched = {"CREATED": (2, 3), "UNCHANGED": (1, 2)}
    assert effects(tally) == (matched if options.is_matching else {"CREATED": (3, 5)})
    assert [row.line for row in invalid] == [7]
    assert await stored(api) == before


async def test_invalid_rows_are_reported_in_order_and_all_others_are_stored(
    api: Api, client: Client
) -> None:
    lines = [f"Person,{number},,S-{number}\n" for number in range(2_000)]
    bad = {
        0: ",Lovelace,nonsense,A-1\n",
        700: "too,short\n",
        701: f"Ada,Lovelace,,A-1;{'x' * 256}\n",
        1_999: '"Ada,Lovelace,,\n',
    }
    rows = "".join(bad.get(number, line) for number, line in enumerate(lines))
    tally, invalid = await import_rows(client, rows)
    assert [row.line - 2 for row in invalid] == list(bad)
    reasons = [row.reason for row in invalid]
    assert "first_name: Length" in reasons[0]
    assert "email: Not a valid" in reasons[0]
    assert reasons[1] == "2 columns instead of 4"
    assert reasons[2].startswith("serial: Length")
    assert tally.invalid_rows == 4
    assert effects(tally) == {"CREATED": (1_996, 1_996)}
    persons, computers = await stored(api)
    assert (len(persons), len(computers)) == (1_996, 1_996)


async def test_rows_with_a_unique_value_that_is_taken_are_reported(
    serve: Serve, settings: Settings
) -> None:
    api = await serve(settings=replace(settings, unique=("computer.serial",)))
    await api.computer("S-1")
    rows = "Ada,Lovelace,,S-1\nAlan,Turing,,S-2;S-2\nGrace,Hopper,,S-3\n"
    async with open_client(api.origin, None) as client:
        tally, invalid = await import_rows(client, rows)
    taken = "serial: Another `computer` has this `serial`."
    assert [(row.line, row.reason) for row in invalid] == [(2, taken), (3, taken)]
    assert effects(tally) == {"CREATED": (1, 1)}
    assert len((await api.get("/persons")).data) == 1


async def test_all_of_several_hundred_invalid_rows_are_reported(client: Client) -> None:
    rows = "".join(f"{'Ada' * (n % 5 == 0)},Lovelace,,\n" for n in range(500))
    tally, invalid = await import_rows(client, rows)
    assert [row.line for row in invalid] == [n + 2 for n in range(500) if n % 5]
    assert effects(tally) == {"CREATED": (100, 0)}


async def test_a_row_may_have_thousands_of_serials(api: Api, client: Client) -> None:
    row = f"Ada,Lovelace,ada@example.org,{';'.join(f'A-{n}' for n in range(3_000))}\n"
    tally, _ = await import_rows(client, f"Alan,Turing,,T-1\n{row}Grace,Hopper,,\n")
    assert effects(tally) == {"CREATED": (3, 3_001)}
    _, computers = await stored(api)
    assert sum(owner == "Ada Lovelace" for _, owner in computers) == 3_000
    again, _ = await import_rows(client, row.replace("Ada", "Augusta"), MATCH)
    assert effects(again) == {"CHANGED": (1, 0), "UNCHANGED": (0, 3_000)}


class Unchecked(Client):
    """A client whose dry runs succeed, as if resources changed after them."""

    async def execute(
        self, operations: Sequence[Operation], *, is_dry: bool = False
    ) -> list[Mapping[str, Any]]:
        return [] if is_dry else await super().execute(operations)


@pytest.mark.parametrize("client_class", [Client, Unchecked])
@pytest.mark.parametrize(
    "row",
    [
        f"Ada,Lovelace,nonsense,{';'.join(f'A-{n}' for n in range(1_100))}\n",
        f"Ada,Lovelace,,{';'.join(f'A-{n}' for n in range(1_100))};{'x' * 256}\n",
    ],
)
async def test_of_an_invalid_row_with_many_serials_nothing_is_stored(
    client_class: type[Client], row: str, api: Api
) -> None:
    async with ClientSession(f"{api.origin}/") as session:
        tally, invalid = await import_rows(client_class(session), f"Alan,Turing,,\n{row}")
    assert [each.line for each in invalid] == [3]
    assert effects(tally) == {"CREATED": (1, 0)}
    assert await stored(api) == ([["Alan", "Turing", "Alan Turing", None]], [])


class Contended(Unchecked):
    """A client beside another one, which removes a resource that this one is about to remove."""

    async def execute(
        self, operations: Sequence[Operation], *, is_dry: bool = False
    ) -> list[Mapping[str, Any]]:
        if operations[0]["op"] == "remove":
            await super().execute(operations[:1])
        return await super().execute(operations, is_dry=is_dry)


async def test_a_row_that_cannot_be_removed_again_ends_the_import(api: Api) -> None:
    row = f"Ada,Lovelace,,{';'.join(f'A-{n}' for n in range(1_100))};{'x' * 256}\n"
    async with ClientSession(f"{api.origin}/") as session:
        with pytest.raises(TransferError, match="line 2 is stored in part, and cannot be undone"):
            await import_rows(Contended(session), row)


async def test_a_row_moves_thousands_of_computers_to_another_person_or_none(
    api: Api, client: Client
) -> None:
    serials = ";".join(f"A-{n}" for n in range(1_100))
    await import_rows(client, f"Ada,Lovelace,,{serials}\n,,,B-1\n")
    alan = f"Alan,Turing,,{serials};B-1{';B-{}' * 2}\n"
    tally, invalid = await import_rows(client, alan.format(2, "x" * 256), MATCH)
    assert (effects(tally), len(invalid)) == ({}, 1)
    tally, invalid = await import_rows(client, alan.format(2, 3), MATCH)
    assert effects(tally) == {"CREATED": (1, 2), "CHANGED": (0, 1_101)}
    persons, computers = await stored(api)
    assert len(persons) == 2
    assert {owner for _, owner in computers} == {"Alan Turing"}


@pytest.mark.parametrize(
    ("options", "effects_", "computers"),
    [
        (ImportOptions(), {"CREATED": (3, 7)}, [1, 5, 1]),
        (MATCH, {"CREATED": (2, 7), "UNCHANGED": (1, 0)}, [6, 1]),
    ],
)
async def test_a_row_continues_the_person_of_the_row_before(
    options: ImportOptions,
    effects_: dict[str, tuple[int, int]],
    computers: list[int],
    api: Api,
    client: Client,
) -> None:
    rows = "Ada,Lovelace,,A-1\nAda,Lovelace,,A-2;A-3\nAda,Lovelace,,;A-4\nAda,Lovelace,,;A-5;A-6\n"
    tally, invalid = await import_rows(client, f"{rows}Alan,Turing,,A-7\n", options)
    assert (effects(tally), invalid) == (effects_, [])
    document = (await api.get("/persons?include=computers")).document
    linkages = [one["relationships"]["computers"]["data"] for one in document["data"]]
    assert list(map(len, linkages)) == computers


@pytest.mark.parametrize("options", [DRY, MATCH, ImportOptions()])
async def test_a_row_that_continues_another_person_or_an_invalid_row_is_reported(
    options: ImportOptions, client: Client
) -> None:
    rows = (
        "Ada,Lovelace,,;A-1\n"  # nothing to continue
        "Ada,Lovelace,,A-2\n"
        "Ada,Byron,,;A-3\n"  # another person
        "Ada,Byron,,;A-4\n"  # an invalid row
        "Ada,Lovelace,nonsense,A-5\n"
        "Ada,Lovelace,nonsense,;A-6\n"  # a row that the service rejects
        f"Ada,Lovelace,,A-7\nAda,Lovelace,,;{'x' * 256}\nAda,Lovelace,,;A-8\n"
    )
    tally, invalid = await import_rows(client, rows, options)
    assert [row.line for row in invalid] == [2, 4, 5, 6, 7, 9, 10]
    reason = "continues the row before, which is not valid or has another person"
    assert [row.line for row in invalid if row.reason == reason] == [2, 4, 5, 7, 10]
    assert sum(map(sum, effects(tally).values())) == 4


async def test_a_service_that_accepts_fewer_operations_gets_fewer(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.jsonapi.operation_documents.MAX_OPERATIONS", 100)
    async with open_client(api.origin, None) as client:
        tally, invalid = await import_rows(client, "".join(f"Ada,{n},,S-{n}\n" for n in range(300)))
    assert (effects(tally), invalid) == ({"CREATED": (300, 300)}, [])


Handler = Callable[[web.Request], Awaitable[web.Response]]
FakeService = Callable[[Handler], Awaitable[str]]


@pytest.fixture
async def fake_service() -> AsyncIterator[FakeService]:
    """Start a server that handles every request with one handler; returns its URL."""
    servers: list[TestServer] = []

    async def serve(handler: Handler) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        return str(servers[-1].make_url("/"))

    yield serve
    for server in servers:
        await server.close()


async def forwarded(request: web.Request, api: Api) -> web.Response:
    """Return the response of the service to a request."""
    names = {"Content-Type", "Idempotency-Key", "If-Match"} & request.headers.keys()
    headers = {name: request.headers[name] for name in names}
    async with api.client.request(
        request.method, request.raw_path, data=await request.read(), headers=headers
    ) as response:
        return web.Response(status=response.status, body=await response.read())


async def test_a_request_whose_response_is_lost_is_repeated_and_executed_once(
    api: Api, fake_service: FakeService
) -> None:
    numbers = count()

    async def lose_every_second(request: web.Request) -> web.Response:
        response = await forwarded(request, api)
        if next(numbers) % 2:
            raise asyncio.CancelledError  # aiohttp then closes the connection
        return response

    async with ClientSession(await fake_service(lose_every_second)) as session:
        client = Client(session, delays=(0,))
        for name in ("Ada", "Alan", "Grace"):
            tally, _ = await import_rows(client, f"{name},Lovelace,,{name}-1\n")
            assert effects(tally) == {"CREATED": (1, 1)}
    assert next(numbers) == 5
    persons, computers = await stored(api)
    assert (len(persons), len(computers)) == (3, 3)


async def test_an_import_that_is_killed_within_a_row_is_resumed_by_match(
    api: Api, fake_service: FakeService, tmp_path: Path
) -> None:
    serials = [f"A-{n}" for n in range(1_600)]
    path = tmp_path / "staff.csv"
    path.write_text(f"{HEADER}Ada,Lovelace,,{';'.join(serials)}\n")
    process: asyncio.subprocess.Process | None = None
    executed = 0

    async def kill_after_every_second(request: web.Request) -> web.Response:
        nonlocal executed
        response = await forwarded(request, api)
        if request.method == "POST" and response.status == 200:
            executed += 1
            if executed % 2 == 0 and process:
                process.kill()
        return response

    url = await fake_service(kill_after_every_second)
    statuses, owned = list[int](), list[int]()
    while not statuses or statuses[-1]:
        process = await spawn("import", "--match", "--url", url, path)
        statuses.append((await wait_for(process)).status)
        computers = (await stored(api))[1]
        assert {owner for _, owner in computers} == {"Ada Lovelace"}
        owned.append(len(computers))
    assert statuses == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert owned == [500, 1_500, 1_600]
    persons, computers = await stored(api)
    assert [name for _, _, name, _ in persons] == ["Ada Lovelace"]
    assert sorted(serial for serial, _ in computers) == sorted(serials)


async def test_a_request_is_repeated_while_the_service_is_overloaded(
    fake_service: FakeService,
) -> None:
    statuses = iter((200, 503, 503, 200))

    async def handle(_: web.Request) -> web.Response:
        return web.json_response({"data": []}, status=next(statuses))

    async with ClientSession(await fake_service(handle)) as session:
        client = Client(session, delays=(0, 0))
        assert await client.find("persons", {}) == await client.find("persons", {}) == []


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (None, "cannot reach the service (is it running, is --url correct?): Server disconnected"),
        (
            web.Response(status=503, text='{"errors": [{"detail": "No database."}]}'),
            "/operations failed with status 503: No database.",
        ),
        (
            web.Response(status=404, text='{"errors": [{"detail": "No such path."}]}'),
            "/operations failed with status 404: No such path.",
        ),
        (web.Response(text="<html>"), "not a registry"),
        (web.Response(text="{}"), "not a registry"),
    ],
)
async def test_a_failure_of_the_service_is_reported_in_one_line(
    response: web.Response | None,
    message: str,
    staff: Path,
    fake_service: FakeService,
    run: RunCommand,
) -> None:
    async def handle(_: web.Request) -> web.Response:
        if response is None:
            raise asyncio.CancelledError  # aiohttp then closes the connection
        return web.Response(status=response.status, body=response.body)

    done = await run(import_, "--url", await fake_service(handle), staff)
    assert (done.status, done.output, len(done.errors)) == (1, "", 1)
    assert done.errors[0].startswith(f"registry: {message}")
    assert "; created 0 persons and 0 computers, in " in done.errors[0]
    assert done.errors[0].endswith("; rows from line 2 on may be missing")


TITLE = "\x1b]0;title\x07\u202e"
"""What sets the title of a terminal, and reverses the text after it."""

SHOWN_TITLE = r"\x1b]0;title\x07\u202e"


async def test_a_message_of_the_service_cannot_control_the_terminal(
    staff: Path, fake_service: FakeService, run: RunCommand
) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.json_response({"errors": [{"detail": TITLE}]}, status=500)

    done = await run(import_, "--url", await fake_service(handle), staff)
    assert done.errors[0].startswith(f"registry: /operations failed with status 500: {SHOWN_TITLE}")


async def test_a_name_in_a_file_cannot_control_the_terminal(
    api: Api, tmp_path: Path, run: RunCommand
) -> None:
    path = tmp_path / f"{TITLE}.ndjson"
    path.write_bytes(orjson.dumps({"data": {"type": "person", "attributes": {TITLE: 1}}}))
    done = await run(import_, "--url", api.origin, path)
    assert done.errors[0].startswith(f"line 1: {SHOWN_TITLE}: ")
    path.unlink()
    done = await run(import_, "--url", api.origin, path)
    assert done.errors == [
        f"registry: {tmp_path}/{SHOWN_TITLE}.ndjson: No such file or directory",
    ]


async def test_a_service_that_is_not_running_is_reported_in_one_line(run: RunCommand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    done = await run(seed, "--url", f"http://127.0.0.1:{port}")
    assert (done.status, done.output, len(done.errors)) == (1, "", 1)
    assert done.errors[0].startswith("registry: cannot reach the service")


async def test_the_service_of_a_command_is_that_of_the_option_or_else_of_the_variable(
    api: Api, run: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_URL", f"{api.origin}/")
    assert (await run(seed, "--persons", "1", "--computers", "0")).status == 0
    assert len((await stored(api))[0]) == 1
    monkeypatch.setenv("REGISTRY_URL", "ftp://h")
    assert (await run(seed)).errors[0].startswith("registry: REGISTRY_URL: 'ftp://h' is not a base")
    assert (await run(seed, "--url", api.origin, "--persons", "0")).status == 0


@pytest.mark.parametrize("arguments", [("seed",), ("import", "-")])
async def test_ctrl_c_ends_a_command_at_once_with_one_line(
    arguments: tuple[str, ...], fake_service: FakeService
) -> None:
    arrived = asyncio.Event()

    async def handle(_: web.Request) -> web.Response:
        arrived.set()
        await asyncio.sleep(30)
        return web.Response()

    # The pipe stays open: an import waits for more rows.
    process = await spawn(*arguments, "--url", await fake_service(handle), stdin=PIPE)
    assert process.stdin
    process.stdin.write((HEADER + "Ada,Lovelace,,A-1\n" * 1_001).encode())
    await asyncio.wait_for(arrived.wait(), timeout=30)
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.wait(), timeout=30)
    done = await wait_for(process)
    assert (done.status, done.output, len(done.errors)) == (130, "", 1)
    assert done.errors[0].startswith("registry: interrupted; created 0 persons and 0 computers")


async def test_a_progress_bar_is_shown_on_a_terminal(api: Api) -> None:
    screen, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    os.set_blocking(screen, False)
    arguments = ("seed", "--url", api.origin, "--persons", "5", "--computers", "5")
    try:
        done = await wait_for(await spawn(*arguments, errors=terminal))
        shown = os.read(screen, 10_000)
    finally:
        os.close(terminal)
        os.close(screen)
    assert done.status == 0
    assert b"0/10" in shown


async def test_seed_creates_the_generated_persons_and_computers(api: Api, run: RunCommand) -> None:
    done = await run(seed, "--url", api.origin)
    persons, computers = await stored(api)
    owned = sum(1 for _, owner in computers if owner)
    assert (done.status, done.errors) == (0, [])
    start = f"created 100 persons and 300 computers, {owned} of them with an owner, in "
    assert done.output.startswith(start)
    assert persons[0] == ["Dennis", "Boone", "Dennis Boone", "dennis.boone@example.com"]
    assert (len(persons), len(computers)) == (100, 300)


async def test_seed_ends_with_one_line_if_the_service_rejects_the_data(
    serve: Serve, settings: Settings, run: RunCommand
) -> None:
    api = await serve(settings=replace(settings, unique=("computer.serial",)))
    few = ("--url", api.origin, "--persons", "1", "--computers", "1")
    assert (await run(seed, *few)).status == 0
    done = await run(seed, *few)
    assert (done.status, done.output, len(done.errors)) == (1, "", 1)
    reason = "serial: Another `computer` has this `serial`."
    assert done.errors[0].startswith(f"registry: the service rejects the data: {reason}; created 1")


async def test_the_access_token_is_a_variable(
    serve: Serve, secured: Settings, grant: Grant, run: RunCommand
) -> None:
    url = (await serve(settings=secured)).origin
    few = ("--url", url, "--persons", "1", "--computers", "1")
    refused = await run(seed, *few)
    assert refused.status == 1
    assert "/operations failed with status 401" in refused.errors[-1]
    assert (await run(seed, *few, REGISTRY_TOKEN=await grant("write"))).status == 0


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (seed, ("--persons", "-1"), "--persons: '-1' is not a valid count"),
        (seed, ("--computers", "many"), "--computers: 'many' is not a valid count"),
        (seed, ("--url", "127.0.0.1"), "--url: '127.0.0.1' is not a base URL"),
        (seed, ("--url", "http://127.0.0.1:99999"), "--url: "),
        (import_, (), "FILE"),
        (import_, ("--url", "ftp://h", "f"), "--url: 'ftp://h' is not a base URL"),
        (export, ("--filter", "nam=Ada", "f"), "--filter: Unknown filter field `nam`"),
        (export, ("--filter", "[1", "f"), "--filter: "),
        (export, ("--sort", "-nam", "f"), "--sort: "),
        (export, ("--fields", "nam", "f"), "--fields: Unknown fields of `person`: `nam`"),
        (export, ("--fields", "id,updated_at", "f"), "--fields: exports have no id, updated_at"),
    ],
)
def test_invalid_options_are_reported_in_one_line(
    command: Any, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)
    printed = capsys.readouterr()
    assert (exit_.value.code, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert message in printed.err


@pytest.mark.parametrize("content", [None, "first_name;last_name\n"])
async def test_a_file_that_cannot_be_read_is_reported_in_one_line(
    content: str | None, tmp_path: Path, run: RunCommand
) -> None:
    path = tmp_path / "staff.csv"
    if content is not None:
        path.write_text(content)
    done = await run(import_, path)
    reason = "the columns are separated by semicolons: separate them by commas"
    expected = reason if content else "No such file or directory"
    assert (done.status, done.output) == (2, "")
    assert done.errors == [f"registry: {path}: {expected}"]


async def test_a_file_that_fails_while_it_is_read_is_reported_in_one_line(run: RunCommand) -> None:
    done = await run(import_, "/proc/self/mem")
    assert (done.status, done.output) == (2, "")
    assert done.errors == ["registry: /proc/self/mem: Input/output error"]


@pytest.fixture
def database_variables(settings: Settings) -> dict[str, str]:
    assert settings.mongodb_uri is not None
    return {"MONGODB_URI": settings.mongodb_uri, "REGISTRY_DATABASE": settings.database}


@pytest.fixture(params=["all.csv", "all.ndjson"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


async def test_what_is_exported_can_be_imported_without_a_loss(
    api: Api, client: Client, file: Path, database_variables: dict[str, str], run: RunCommand
) -> None:
    await api.computer("=1;-1", owner=await api.person("=1+1", "\t'@A1"))
    await import_rows(client, STAFF)
    await api.computer("'=1")
    before = await stored(api)
    done = await run(export, file, **database_variables)
    assert (done.status, done.output) == (0, "")
    assert done.errors == [f"Wrote 4 persons and 7 computers to {file}"]
    await delete_all(api)
    done = await run(import_, "--url", api.origin, file)
    assert (done.status, done.errors) == (0, [])
    assert await stored(api) == before

    exists = await run(export, file, **database_variables)
    assert exists.status == 1
    assert "exists: choose another name or remove it" in exists.errors[0]


@pytest.fixture
def few_computers_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MAX_COMPUTERS", 3)


async def delete_all(api: Api) -> None:
    for kind in ("computers", "persons"):
        for id_ in (await api.get(f"/{kind}")).ids:
            await api.request("DELETE", f"/{kind}/{id_}")


@pytest.mark.usefixtures("few_computers_per_row")
@pytest.mark.parametrize("options", [(), ("--sort=-last_name",)])
async def test_persons_with_more_computers_than_a_row_has_are_exported_without_a_loss(
    options: tuple[str, ...],
    api: Api,
    client: Client,
    file: Path,
    database_variables: dict[str, str],
    run: RunCommand,
) -> None:
    owned = {"Ada": 8, "Alan": 2, "Zoë": 3, "Eve": 0, "Bob": 4}
    await import_rows(
        client,
        "".join(
            f"{name},{name[::-1]},,{';'.join(f'{name}-{n}' for n in range(count))}\n"
            for name, count in owned.items()
        ),
    )
    before = await stored(api)
    done = await run(export, file, *options, **database_variables)
    assert done.errors == [f"Wrote 5 persons and 17 computers to {file}"]
    lines = (await asyncio.to_thread(file.read_text)).splitlines()
    assert len(lines) == 5 + 3 + (file.suffix == ".csv")
    await delete_all(api)
    done = await run(import_, "--url", api.origin, file)
    assert (done.status, done.errors) == (0, [])
    after = await stored(api)
    assert [sorted(each, key=str) for each in after] == [sorted(each, key=str) for each in before]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("--filter", "last_name[ne]=Turing", "--sort=-last_name", "--fields=last_name,email"),
            'last_name,email\r\n"O\'Neil, ""Z""",zoe@example.org\r\nLovelace,ada@example.org\r\n',
        ),
        (
            ("--filter", '[{"name": "full_name", "op": "prefix", "val": "Ada"}]'),
            "first_name,last_name,email,serials\r\nAda,Lovelace,ada@example.org,A-1;A-2\r\n",
        ),
        (
            ("--fields", "full_name", "--sort", "full_name"),
            'full_name\r\nAda Lovelace\r\nAlan Turing\r\n"Zoë O\'Neil, ""Z"""\r\n',
        ),
        (
            ("--type", "computer", "--filter", "serial=A-2,C-1", "--sort=-serial"),
            "first_name,last_name,email,serials\r\n,,,C-1\r\nAda,Lovelace,ada@example.org,A-2\r\n",
        ),
        (("--type", "computer", "--filter", "serial=C-1", "--fields=serial"), "serials\r\nC-1\r\n"),
    ],
)
async def test_an_export_is_filtered_sorted_and_limited_to_fields(
    arguments: tuple[str, ...],
    expected: str,
    client: Client,
    database_variables: dict[str, str],
    run: RunCommand,
) -> None:
    await import_rows(client, STAFF)
    done = await run(export, "-", *arguments, **database_variables)
    assert (done.status, done.output) == (0, expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--type", "computer"), [",,,X-1", ",,,X-2", "Ada,Lovelace,,A-1"]),
        ((), ["Ada,Lovelace,,A-1", "Eve,Moneypenny,,"]),
        (("--filter", "first_name=Eve"), ["Eve,Moneypenny,,"]),
    ],
)
async def test_records_whose_ids_are_not_integers_are_exported_with_what_is_valid(
    arguments: tuple[str, ...],
    expected: list[str],
    client: Client,
    database: Database,
    database_variables: dict[str, str],
    run: RunCommand,
) -> None:
    await import_rows(client, "Ada,Lovelace,,A-1\n")
    names = {"first_name": "Eve", "last_name": "Moneypenny", "email": None}
    await database.persons.insert_one({"_id": {"a": 1}, **names})
    await database.computers.insert_many(
        [
            {"_id": 7, "serial": "X-1", "person": {"a": 1}},
            {"_id": {"a": 1}, "serial": "X-2", "person": [1]},
        ]
    )
    done = await run(export, "-", *arguments, **database_variables)
    assert (done.status, sorted(done.output.splitlines()[1:])) == (0, expected)


async def test_an_export_shows_one_point_in_time(
    client: Client, database: Database, settings: Settings
) -> None:
    others = "".join(f"Ada,{n},,S-{n}\n" for n in range(1_200))
    await import_rows(client, f"{others},,,U-1\n")
    graph = Graph(RESOURCES)
    async with connect(settings, graph) as connected:
        repository = Repository(connected, graph, Capacity.of(settings))
        chunks = Exporter(repository.snapshot(), graph[PERSON], Query(), graph).rows()
        rows = await anext(chunks)
        await database.persons.delete_many({})
        await database.computers.delete_many({})
        async for chunk in chunks:
            rows += chunk
        await repository.close()
    assert len(rows) == 1_201
    assert all(len(row.computers) == 1 for row in rows)
    assert [row.computers for row in rows if row.person is None] == [[{"serial": "U-1"}]]


async def test_a_service_with_a_certificate_of_a_private_authority_is_used_over_tls(
    start: Start, mongodb_uri: str, database: Database, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    certificate, key, _ = authority.issue("service")
    options = ("--tls-certificate", certificate, "--tls-key", key)
    service = start(*options, MONGODB_URI=mongodb_uri, REGISTRY_DATABASE=database.name)
    few = ("seed", "--url", service.url, "--persons", "1", "--computers", "1")
    refused = await wait_for(await spawn(*few))
    assert "certificate verify failed" in refused.errors[0]
    trusting = await wait_for(await spawn(*few, certificates=authority.certificate))
    assert (trusting.status, trusting.errors) == (0, [])
