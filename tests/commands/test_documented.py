"""The commands of the page on import and export, and of the README, print what is shown."""

import asyncio
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from registry.resources.types_file import read_types
from registry.settings import Settings
from tests.commands.conftest import RunCommand
from tests.conftest import Serve

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "import-export.md").read_text()
README = (ROOT / "README.md").read_text()

FILE = re.compile(r"`([\w.]+)`:\n\n```(?:csv|json|toml)\n(.*?)```", re.DOTALL)
UPLOAD = re.compile(r"`(?:``sh\n)?(curl [^`]*--data-binary [^`]*)`")
COMMAND = re.compile(r"```sh\n\./scripts/registry (.*)\n```(?:\n\n```text\n(.*)\n```)?")


def shown(line: str, url: str) -> str:
    """Return a summary without what differs in each run."""
    return re.sub(r"in [\d.]+ s, [\d,]+ rows per second", "", line.strip()).replace(url, "URL")


@pytest.mark.parametrize("page", [PAGE, README], ids=["page", "readme"])
async def test_the_commands_print_what_is_shown(
    page: str,
    serve: Serve,
    settings: Settings,
    run: RunCommand,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILE.findall(page):
        (tmp_path / name).write_text(text)
    types = read_types("fleet.toml") if page is README else None
    api = await serve(settings=replace(settings, types=types))
    monkeypatch.setenv("REGISTRY_URL", api.origin)
    commands = COMMAND.findall(page)
    assert len(commands) == (7 if page is PAGE else 1)
    for command, expected in commands:
        words = shlex.split(command.replace("http://127.0.0.1:8080", api.origin))
        done = await run(*words)
        assert done.status == 0, done.errors
        if expected:
            assert shown(done.output, api.origin) == shown(expected, "http://127.0.0.1:8080")
    (upload,) = UPLOAD.findall(page)
    process = await asyncio.create_subprocess_exec(
        *["bash", "-c", upload.replace("http://127.0.0.1:8080", api.origin)],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    report, _ = await process.communicate()
    totals = json.loads(report.splitlines()[-1])["meta"]
    assert (totals["complete"], totals["rows"]) == (True, 3 if page is PAGE else 2)
