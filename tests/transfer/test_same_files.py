"""The same files through every client: the command, and a plain POST as curl sends it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from registry.protocol import CSV_TYPE
from tests.support import Api
from tests.transfer.conftest import RunCommand
from tests.transfer.same_files import FILES, Case


async def by_command(api: Api, case: Case, run: RunCommand, path: Path) -> list[int] | None:
    """Import by the command; return the invalid lines, None if the file is refused."""
    options = ("--type", "computer", "--key", case.key, "--encoding", case.charset)
    done = await run("import", "--url", api.origin, *options, path)
    if done.status == 2:
        return None
    lines = [int(line.split(",")[0].split(":")[0].removeprefix("line ")) for line in done.errors]
    assert done.status == (1 if lines else 0)
    return lines


async def by_post(api: Api, case: Case, _: RunCommand, path: Path) -> list[int] | None:
    """Import as `by_command`, by a POST."""
    headers = {"Content-Type": f"{CSV_TYPE}; charset={case.charset}"}
    url = f"/computers?rows[key]={case.key}"
    async with api.client.post(
        url, data=await asyncio.to_thread(path.read_bytes), headers=headers
    ) as response:
        text = await response.read()
        if response.status != 200:
            assert response.status in {400, 422}
            return None
    report: list[Any] = [json.loads(line) for line in text.splitlines()]
    assert report[-1]["meta"]["complete"] is True
    errors = [error for line in report for error in line.get("errors", ())]
    return [error["source"]["line"] for error in errors]


CLIENTS = [by_command, by_post]
"""Clients, each a function such as `by_command`."""


@pytest.mark.parametrize("client", CLIENTS, ids=["command", "post"])
@pytest.mark.parametrize("name", FILES)
async def test_every_client_stores_and_reports_the_same(
    name: str, client: Any, api: Api, run: RunCommand, tmp_path: Path
) -> None:
    case, path = FILES[name], tmp_path / "fleet.csv"
    path.write_bytes(case.file.encode() if isinstance(case.file, str) else case.file)
    assert await client(api, case, run, path) == case.invalid
    computers = (await api.get("/computers?sort=serial")).data
    assert [computer["attributes"]["serial"] for computer in computers] == case.serials
    persons = (await api.get("/persons")).data
    emails = [person["attributes"]["email"] for person in persons]
    assert len(emails) == len(set(emails))
