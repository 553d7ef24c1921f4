"""The commands `import` and `seed` as processes, and beside a service that fails."""

import asyncio
import os
import signal
import termios
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from tests.certificates import Authority
from tests.commands.conftest import Run, RunCommand, fleet, run
from tests.support import Api, Database
from tests.system.conftest import Start
from tests.system.service import COMMAND, ROOT, environment

__all__ = ["run"]

SHEET = "serial,owner.email,owner.first_name,owner.last_name\nA-1,ada@x.org,Ada,King\n"
COMPUTERS = ("--type", "computer", "--key", "serial")

Handler = Callable[[web.Request], Awaitable[web.Response]]
FakeService = Callable[[Handler], Awaitable[str]]


async def spawn(
    *arguments: str | Path, stdin: int = DEVNULL, errors: int = PIPE, **variables: str
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        cwd=ROOT,
        env=environment(**variables),
        stdin=stdin,
        stdout=PIPE,
        stderr=errors,
    )


async def wait_for(process: asyncio.subprocess.Process, stdin: bytes | None = None) -> Run:
    try:
        output, errors = await asyncio.wait_for(process.communicate(stdin), timeout=60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Run(process.returncode, output.decode(), (errors or b"").decode().splitlines())


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.csv"
    path.write_text(SHEET)
    return path


@pytest.fixture
def fake_service(aiohttp_server: AiohttpServer) -> FakeService:
    """Start a server that handles every request with one handler; returns its URL."""

    async def serve(handler: Handler) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        return str((await aiohttp_server(app)).make_url("/"))

    return serve


async def test_standard_input_is_imported(api: Api) -> None:
    command = ("import", "--url", api.origin, *COMPUTERS, "-")
    done = await wait_for(await spawn(*command, stdin=PIPE), SHEET.encode())
    assert (done.status, done.errors) == (0, [])
    assert done.output.startswith(f"created 1 person and 1 computer at {api.origin}, in ")
    assert await fleet(api) == {"A-1": "Ada King"}


async def test_an_import_that_is_killed_continues_when_it_is_repeated(
    api: Api, tmp_path: Path
) -> None:
    path, rows = tmp_path / "fleet.csv", 20_000
    path.write_text("serial\n" + "".join(f"A-{n}\n" for n in range(rows)))
    process = await spawn("import", *COMPUTERS, "--url", api.origin, path)
    while not (await api.get("/computers?page[size]=1")).data:  # noqa: ASYNC110 - of a process
        await asyncio.sleep(0.01)
    process.kill()
    assert (await wait_for(process)).status == -signal.SIGKILL
    process = await spawn("import", *COMPUTERS, "--url", api.origin, path)
    assert (await wait_for(process)).status == 0
    last = await api.get(f"/computers?page[number]={rows}&page[size]=1")
    assert len(last.data) == 1
    assert not (await api.get(f"/computers?page[number]={rows + 1}&page[size]=1")).data
    assert os.listdir(tmp_path) == ["fleet.csv"]  # noqa: PTH208 - the names


@pytest.mark.parametrize("workers", [1, 2])
async def test_processes_that_import_a_file_at_once_create_nothing_twice(
    workers: int, start: Start, mongodb_uri: str, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "fleet.csv"
    rows = (f"A-{n},p{n % 400}@x.org,First{n % 400},Last\n" for n in range(2_000))
    path.write_text(SHEET.splitlines(keepends=True)[0] + "".join(rows))
    options = ("--unique", "computer.serial", "--unique", "person.email", "--workers", str(workers))
    settings = {"MONGODB_URI": mongodb_uri, "REGISTRY_DATABASE": database.name}
    # The kernel chooses the worker of each connection: three usually reach both workers.
    urls = [start(*options, **settings).url for _ in range(3 - workers)] * (2 * workers - 1)
    imports = [await spawn("import", "--type", "computer", "--url", url, path) for url in urls]
    done = await asyncio.gather(*map(wait_for, imports))
    assert [(each.status, each.errors) for each in done] == [(0, [])] * len(urls)
    for collection, number in ((database.computers, 2_000), (database.persons, 400)):
        assert await collection.count_documents({}) == number


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (
            None,
            "cannot reach the service (is it running, is the URL correct?): Server disconnected",
        ),
        (
            b'{"errors": [{"detail": "\\u001b]0;t\\u0007\\u202e"}]}',
            r"/computers failed with status 500: \x1b]0;t\x07\u202e",
        ),
    ],
)
async def test_a_failure_of_the_service_is_reported_in_one_line(
    response: bytes | None,
    message: str,
    sheet: Path,
    fake_service: FakeService,
    run: RunCommand,
) -> None:
    async def handle(_: web.Request) -> web.Response:
        if response is None:
            raise asyncio.CancelledError  # aiohttp then closes the connection
        return web.Response(status=500, body=response)

    done = await run("import", "--url", await fake_service(handle), *COMPUTERS, sheet)
    assert (done.status, done.output, len(done.errors)) == (1, "", 1)
    assert done.errors[0].startswith(f"registry: {message}")


async def test_names_cannot_control_the_terminal(api: Api, tmp_path: Path, run: RunCommand) -> None:
    title, shown = "\x1b]0;title\x07\u202e", r"\x1b]0;title\x07\u202e"
    path = tmp_path / f"{title}.ndjson"
    path.write_bytes(orjson.dumps({"type": "person", "attributes": {title: 1}}))
    done = await run("import", "--url", api.origin, path)
    assert done.errors[0].startswith(f"line 1, column {shown}: ")
    path.unlink()
    done = await run("import", "--url", api.origin, path)
    assert done.errors == [f"registry: {tmp_path}/{shown}.ndjson: No such file or directory"]


@pytest.mark.parametrize(
    ("options", "next_run"),
    [
        (COMPUTERS, "continues"),
        (COMPUTERS[:2], "continues, or asks for a --key"),
        ((*COMPUTERS[:2], "--create"), "stores everything again"),
        (
            ("--format", "ndjson"),
            "continues, but stores lines without an id or a unique value again",
        ),
    ],
)
async def test_ctrl_c_ends_an_import(
    options: tuple[str, ...], next_run: str, fake_service: FakeService, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    line = '{"type": "computer", "attributes": {"serial": "A-1"}}'
    path.write_text(line if "ndjson" in options else SHEET)
    arrived = asyncio.Event()

    async def handle(_: web.Request) -> web.Response:
        arrived.set()
        await asyncio.sleep(30)
        return web.Response()

    url = await fake_service(handle)
    process = await spawn("import", "--url", url, *options, path)
    await asyncio.wait_for(arrived.wait(), timeout=30)
    process.send_signal(signal.SIGINT)
    done = await wait_for(process)
    assert (done.status, done.output) == (130, "")
    assert done.errors == [f"registry: interrupted: the same command {next_run}"]


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
    assert b"0 rows" in shown


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
    trusting = await wait_for(await spawn(*few, SSL_CERT_FILE=str(authority.certificate)))
    assert (trusting.status, trusting.errors) == (0, [])
