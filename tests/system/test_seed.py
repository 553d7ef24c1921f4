"""scripts/seed: generated data, CSV files, and failures of the input or the service."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import termios
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from registry.settings import Settings
from tests.conftest import Grant, Serve
from tests.support import Api

SCRIPTS = Path(__file__).parents[2] / "scripts"
HEADER = b"first_name,last_name,email,serials\n"

Handler = Callable[[], Awaitable[web.Response]]
FakeService = Callable[[Handler], Awaitable[str]]


@dataclass(frozen=True)
class Run:
    """The exit status and output of a run of the script. errors: the lines of stderr."""

    status: int
    output: str
    errors: list[str]


async def start(
    url: str, *arguments: str | Path, errors: int = asyncio.subprocess.PIPE
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "seeding", "--url", url, *arguments),
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
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


async def seed(url: str, *arguments: str | Path) -> Run:
    return await wait_for(await start(url, *arguments))


@pytest.fixture
def url(api: Api) -> str:
    return str(api.client.make_url("/"))


@pytest.fixture
def csv_file(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / "the staff.csv"
        path.write_bytes(content)
        return path

    return write


@pytest.fixture
async def fake_service() -> AsyncIterator[FakeService]:
    """Start a server that handles every request with one handler; returns its URL."""
    servers: list[TestServer] = []

    async def serve(handler: Handler) -> str:
        async def handle(_: web.Request) -> web.Response:
            return await handler()

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        return str(servers[-1].make_url("/"))

    yield serve
    for server in servers:
        await server.close()


async def persons(api: Api) -> Counter[tuple[str, str | None]]:
    """Return the full names and e-mail addresses that are stored."""
    stored = (await api.get("/persons")).data
    return Counter((one["attributes"]["full_name"], one["attributes"]["email"]) for one in stored)


async def computers(api: Api) -> Counter[tuple[str, str | None]]:
    """Return the serials that are stored, each with the full name of its owner."""
    response = await api.get("/computers?include=owner")
    names = {one["id"]: one["attributes"]["full_name"] for one in response.document["included"]}
    owned = ((one, one["relationships"]["owner"]["data"]) for one in response.data)
    return Counter(
        (one["attributes"]["serial"], names[owner["id"]] if owner else None) for one, owner in owned
    )


async def test_generated_data_matches_the_counts_in_the_options_and_the_output(
    api: Api, url: str
) -> None:
    run = await seed(url, "--persons", "30", "--computers", "50")

    stored = await computers(api)
    owned = sum(1 for _, owner in stored if owner)
    assert (run.status, run.errors) == (0, [])
    assert run.output.startswith(
        f"created 30 persons and 50 computers, {owned} of them with an owner, in "
    )
    assert (await persons(api)).total() == 30
    assert stored.total() == 50


async def test_the_access_token_is_a_variable(
    serve: Serve, secured: Settings, grant: Grant, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str((await serve(settings=secured)).client.make_url("/"))
    few = ("--persons", "1", "--computers", "1")
    monkeypatch.delenv("REGISTRY_TOKEN", raising=False)
    refused = await seed(url, *few)
    assert refused.status == 1
    assert "401" in refused.errors[-1]
    monkeypatch.setenv("REGISTRY_TOKEN", await grant("write"))
    assert (await seed(url, *few)).status == 0


async def test_the_default_is_100_persons_and_300_computers(api: Api, url: str) -> None:
    run = await seed(url)

    assert run.output.startswith("created 100 persons and 300 computers, ")
    people = (await api.get("/persons?include=computers")).data
    counts = [len(one["relationships"]["computers"]["data"]) for one in people]
    emails = [one["attributes"]["email"] for one in people]
    # Expected on average: 7 persons without computers, 10 without e-mail, 270 owned computers.
    assert 0 < counts.count(0) < 50
    assert 0 < emails.count(None) < 50
    assert 200 < sum(counts) < 300
    assert len(set(emails) - {None}) == len(emails) - emails.count(None)


async def test_the_same_seed_produces_the_same_data(api: Api, url: str) -> None:
    arguments = ("--persons", "20", "--computers", "30", "--seed", "7")
    await seed(url, *arguments)
    people, machines = await persons(api), await computers(api)
    await seed(url, *arguments)

    assert await persons(api) == people + people
    assert await computers(api) == machines + machines


async def test_another_seed_produces_different_data(api: Api, url: str) -> None:
    await seed(url, "--persons", "20", "--computers", "30", "--seed", "7")
    people, machines = await persons(api), await computers(api)
    await seed(url, "--persons", "20", "--computers", "30", "--seed", "8")

    assert await persons(api) != people + people
    assert await computers(api) != machines + machines


async def test_computers_without_persons_have_no_owner(api: Api, url: str) -> None:
    run = await seed(url, "--persons", "0", "--computers", "3")

    assert run.output.startswith("created 0 persons and 3 computers, 0 of them with an owner, in ")
    assert {owner for _, owner in await computers(api)} == {None}


async def test_a_csv_file_creates_persons_and_their_computers(
    api: Api, url: str, csv_file: Callable[[bytes], Path]
) -> None:
    run = await seed(
        url,
        "--csv",
        csv_file(
            HEADER
            + b"Ada,Lovelace,ada@example.org,A-1;A-2\r\n"
            + b"\r\n"
            + b"Alan,Turing,,\r\n"
            + 'Zoë,"O\'Neil, ""Z""",zoe@example.org, B-1 ;\r\n'.encode()
            + b'"Grace\nBrewster",Hopper,,C-1'
        ),
    )

    assert (run.status, run.errors) == (0, [])
    assert run.output.startswith("created 4 persons and 4 computers, 4 of them with an owner, in ")
    assert set(await persons(api)) == {
        ("Ada Lovelace", "ada@example.org"),
        ("Alan Turing", None),
        ('Zoë O\'Neil, "Z"', "zoe@example.org"),
        ("Grace\nBrewster Hopper", None),
    }
    assert set(await computers(api)) == {
        ("A-1", "Ada Lovelace"),
        ("A-2", "Ada Lovelace"),
        ("B-1", 'Zoë O\'Neil, "Z"'),
        ("C-1", "Grace\nBrewster Hopper"),
    }


async def test_the_columns_may_be_in_any_order_and_follow_a_byte_order_mark(
    api: Api, url: str, csv_file: Callable[[bytes], Path]
) -> None:
    content = "\ufeffserials,email,last_name,first_name\nA-1,,Lovelace,Ada\n"
    run = await seed(url, "--csv", csv_file(content.encode()))

    assert run.status == 0
    assert set(await computers(api)) == {("A-1", "Ada Lovelace")}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        pytest.param(b"Ada,Lovelace", "2 columns instead of 4", id="too short"),
        pytest.param(b"Ada,Lovelace,,A-1,more", "5 columns instead of 4", id="too long"),
        pytest.param(b"Ad\xe4,Lovelace,,A-1", "not UTF-8", id="Latin-1"),
        pytest.param(b'"Ada,Lovelace,,A-1', "not CSV: ", id="an unclosed quote"),
        pytest.param(b'Ada,"Love"lace,,A-1', "not CSV: ", id="text after a quote"),
        pytest.param(b"Ada," + b"x" * 200_000 + b",,A-1", "not CSV: ", id="a huge field"),
        pytest.param(b",Lovelace,,A-1", "first_name: ", id="an empty name"),
        pytest.param(b"Ada,Lovelace,nonsense,A-1", "email: ", id="an invalid e-mail address"),
        pytest.param(b"Ada,Lovelace,,A-1;" + b"x" * 256, "serial: ", id="a serial too long"),
    ],
)
async def test_an_invalid_row_is_reported_with_its_line_and_the_others_are_loaded(
    row: bytes, message: str, api: Api, url: str, csv_file: Callable[[bytes], Path]
) -> None:
    good = b'"Grace\nBrewster",Hopper,,G-1\n', b'Alan,"Turing",,T-1\n', b'"Zoe",Last,,Z-1\n'
    run = await seed(url, "--csv", csv_file(HEADER + good[0] + row + b"\n" + good[1] + good[2]))

    assert run.status == 1
    [error] = run.errors
    assert error.startswith(f"line 4: {message}")
    assert run.output.startswith("created 3 persons and 3 computers, 3 of them with an owner, in ")
    assert run.output.endswith("; skipped 1 invalid row\n")
    assert (await persons(api)).total() == 3
    assert {serial for serial, _ in await computers(api)} == {"G-1", "T-1", "Z-1"}


async def test_the_shell_script_resolves_paths_against_the_current_directory(
    api: Api, url: str, csv_file: Callable[[bytes], Path]
) -> None:
    path = csv_file(HEADER + b"Ada,Lovelace,,A-1\n")
    process = await asyncio.create_subprocess_exec(
        SCRIPTS / "seed",
        "--url",
        url,
        "--csv",
        path.name,
        cwd=path.parent,
        stdout=asyncio.subprocess.PIPE,
    )
    run = await wait_for(process)

    assert run.status == 0
    assert set(await computers(api)) == {("A-1", "Ada Lovelace")}


async def test_the_report_of_a_row_lists_all_of_its_errors(
    url: str, csv_file: Callable[[bytes], Path]
) -> None:
    run = await seed(url, "--csv", csv_file(HEADER + b",Lovelace,nonsense,\n"))

    assert "first_name: " in run.errors[0]
    assert "email: " in run.errors[0]


async def test_a_csv_file_with_only_a_header_creates_nothing(
    url: str, csv_file: Callable[[bytes], Path]
) -> None:
    run = await seed(url, "--csv", csv_file(HEADER))

    assert (run.status, run.errors) == (0, [])
    assert run.output.startswith("created 0 persons and 0 computers, 0 of them with an owner, in ")


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"", id="an empty file"),
        pytest.param(b"first_name,last_name,email\n", id="a missing column"),
        pytest.param(HEADER.strip() + b",phone\n", id="an extra column"),
        pytest.param(HEADER.strip() + b",email\n", id="a duplicate column"),
        pytest.param(b"\x7fELF\x00\xff\n", id="a binary file"),
        pytest.param(b'"first_name,last_name\n', id="an unclosed quote"),
    ],
)
async def test_an_invalid_header_is_reported_in_one_line_and_nothing_is_created(
    header: bytes, api: Api, url: str, csv_file: Callable[[bytes], Path]
) -> None:
    run = await seed(url, "--csv", csv_file(header + b"Ada,Lovelace,,A-1\n" * bool(header)))

    assert (run.status, run.output, len(run.errors)) == (2, "", 1)
    assert "the staff.csv: the header must be first_name,last_name,email,serials" in run.errors[0]
    assert not await persons(api)


async def test_a_missing_csv_file_is_reported_in_one_line(url: str, tmp_path: Path) -> None:
    run = await seed(url, "--csv", tmp_path / "missing.csv")

    assert (run.status, run.output, len(run.errors)) == (2, "", 1)
    assert "missing.csv: No such file or directory" in run.errors[0]


async def test_a_service_that_is_not_running_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    run = await seed(f"http://127.0.0.1:{port}")

    assert (run.status, run.output, len(run.errors)) == (1, "", 1)
    assert "cannot reach the service" in run.errors[0]
    assert "; created 0 persons and 0 computers" in run.errors[0]


async def test_a_url_with_a_wrong_path_is_reported_in_one_line(api: Api, url: str) -> None:
    run = await seed(f"{url}elsewhere")

    assert (run.status, run.output, len(run.errors)) == (1, "", 1)
    assert "/elsewhere/persons failed with 404 Not Found" in run.errors[0]
    assert not await persons(api)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        pytest.param(None, "Server disconnected", id="connection lost"),
        pytest.param(
            web.Response(status=503, text='{"errors": [{"detail": "No database."}]}'),
            "503 Service Unavailable: No database.",
            id="no database",
        ),
        pytest.param(web.Response(text="<html>"), "not a registry", id="not a registry"),
    ],
)
async def test_a_failure_of_the_service_is_reported_in_one_line_with_the_counts_so_far(
    failure: web.Response | None, message: str, fake_service: FakeService
) -> None:
    numbers = count(1)

    async def handle() -> web.Response:
        if (number := next(numbers)) <= 20:
            return web.Response(status=201, text=f'{{"data": {{"id": "{number}"}}}}')
        if failure is None:
            raise asyncio.CancelledError  # aiohttp then closes the connection
        return web.Response(status=failure.status, body=failure.body)

    run = await seed(await fake_service(handle))

    assert (run.status, run.output, len(run.errors)) == (1, "", 1)
    assert message in run.errors[0]
    assert "; created 20 persons and 0 computers, 0 of them with an owner, in " in run.errors[0]


async def test_a_single_failure_ends_the_run(fake_service: FakeService) -> None:
    numbers = count(1)

    async def handle() -> web.Response:
        number = next(numbers)
        return web.Response(
            status=503 if number == 20 else 201, text=f'{{"data": {{"id": "{number}"}}}}'
        )

    run = await seed(await fake_service(handle), "--persons", "1000")

    assert (run.status, run.output, len(run.errors)) == (1, "", 1)
    created = next(numbers) - 2  # without the request that failed and the number drawn here
    assert f"; created {created} persons and 0 computers" in run.errors[0]
    assert created < 100  # 16 requests in flight when the 20th failed, not all 1,000


async def test_ctrl_c_is_reported_in_one_line(fake_service: FakeService) -> None:
    arrived = asyncio.Event()

    async def handle() -> web.Response:
        arrived.set()
        await asyncio.sleep(30)
        return web.Response()

    process = await start(await fake_service(handle))
    await asyncio.wait_for(arrived.wait(), timeout=30)
    process.send_signal(signal.SIGINT)
    run = await wait_for(process)

    assert (run.status, run.output, len(run.errors)) == (130, "", 1)
    assert run.errors[0].startswith("interrupted; created 0 persons and 0 computers")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--persons", "-1"),
        ("--computers", "many"),
        ("--url", "127.0.0.1"),
        ("--url", "http://127.0.0.1:99999"),
        ("--csv", "staff.csv", "--persons", "3"),
    ],
)
async def test_invalid_options_exit_with_status_2(arguments: tuple[str, ...]) -> None:
    run = await seed("http://127.0.0.1:1", *arguments)

    assert (run.status, run.output) == (2, "")
    assert run.errors[-1].startswith("scripts/seed: error: ")


async def test_a_progress_bar_is_shown_on_a_terminal(url: str) -> None:
    screen, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    os.set_blocking(screen, False)
    try:
        run = await wait_for(
            await start(url, "--persons", "5", "--computers", "5", errors=terminal)
        )
        shown = os.read(screen, 10_000)
    finally:
        os.close(terminal)
        os.close(screen)

    assert run.status == 0
    assert b"0/10" in shown
