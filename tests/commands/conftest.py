"""Fixtures that run commands on files, beside a service."""

import asyncio
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from registry.client import Client
from registry.commands import export, import_, seed, watch
from tests.support import Api


@dataclass(frozen=True)
class Run:
    """The exit status and output of a command. errors: the lines of stderr except progress."""

    status: int
    output: str
    errors: list[str]


PROGRESS = re.compile(r"[\d,]+ rows, [\d,]+ per second$")

RunCommand = Callable[..., Awaitable[Run]]
COMMANDS = {
    "import": import_.main,
    "seed": seed.main,
    "export": export.main,
    "watch": watch.main,
}


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Run a command in a thread, as starting a process takes longer than most commands."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # which threads cannot call
    monkeypatch.setattr(Client, "delays", (0.01, 0.01))  # in place of 15 s

    def run_command(command: str, *arguments: str | Path) -> int:
        try:
            COMMANDS[command](list(map(str, arguments)))
        except SystemExit as exit_:
            if isinstance(exit_.code, str):
                sys.stderr.write(f"{exit_.code}\n")  # as the interpreter does
                return 1
            return exit_.code or 0
        return 0

    async def run(command: str, *arguments: str | Path, **variables: str) -> Run:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        capfd.readouterr()
        status = await asyncio.to_thread(run_command, command, *arguments)
        printed = capfd.readouterr()
        lines = [line for line in printed.err.splitlines() if not PROGRESS.match(line)]
        return Run(status, printed.out, lines)

    return run


@pytest.fixture
def import_text(run: RunCommand, api: Api, tmp_path: Path) -> RunCommand:
    """Import a text as a CSV file of computers, or in the format of other options."""

    async def import_text(text: str | bytes, *options: str, name: str = "fleet.csv") -> Run:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        typed = ("--type", "computer") if name.endswith("csv") and "--type" not in options else ()
        return await run("import", "--url", api.origin, *typed, *options, path)

    return import_text


async def fleet(api: Api) -> dict[str, str | None]:
    """Return the full name of the owner of each computer by serial; each serial must be unique."""
    document = (await api.get("/computers?include=owner")).document
    names = {
        resource["id"]: resource["attributes"]["full_name"] for resource in document["included"]
    }
    owners = {each["id"]: each["relationships"]["owner"]["data"] for each in document["data"]}
    serials = {each["attributes"]["serial"]: owners[each["id"]] for each in document["data"]}
    assert len(serials) == len(document["data"])
    return {serial: owner and names[owner["id"]] for serial, owner in serials.items()}


async def emails(api: Api) -> list[Any]:
    """Return the e-mail addresses of all persons."""
    return sorted(each["attributes"]["email"] for each in (await api.get("/persons")).data)
