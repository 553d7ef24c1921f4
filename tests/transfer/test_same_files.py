"""The same files through every client: the command, and a plain POST as curl sends it."""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from registry.protocol import CSV_TYPE
from tests.support import Api
from tests.transfer.conftest import RunCommand

HEADER = "serial,owner.email,owner.first_name,owner.last_name\n"
ADA = "ada@x.org,Ada,King"


@dataclass(frozen=True)
class Case:
    """A file of computers. serials: stored then. invalid: lines; None if the file is refused."""

    file: str | bytes
    serials: list[str] = field(default_factory=list)
    invalid: list[int] | None = field(default_factory=list)
    charset: str = "utf-8"
    key: str = "serial"


FILES = {
    "semicolons": Case(f"{HEADER}A,{ADA}\n".replace(",", ";"), ["A"]),
    "byte order mark": Case(f"\ufeff{HEADER}A,{ADA}\n", ["A"]),
    "quoted line breaks": Case('serial\n"A\nB"\nC\n,x\n', ["A\nB", "C"], [5]),
    "mixed case": Case(f"{HEADER}A,{ADA}\nB,Ada@X.org,Ada,King\n", ["A", "B"]),
    "duplicate keys": Case("serial\nA\nB\nA\n", ["A", "B"], [4]),
    "two owners of one name": Case(f"{HEADER}A,a@x.org,Ada,King\nB,b@x.org,Ada,King\n", ["A", "B"]),
    "windows-1252": Case(f"{HEADER}Ä,{ADA}\n".encode("cp1252"), ["Ä"], charset="windows-1252"),
    "utf-16": Case(f"{HEADER}Ä,{ADA}\n".encode("utf-16"), ["Ä"], charset="utf-16"),
    "not utf-8": Case(f"{HEADER}Ä,{ADA}\n".encode("cp1252"), invalid=None),
    "empty rows": Case(f"{HEADER}\n,,,\nA,{ADA}\n  \n,,,\n", ["A"]),
    "100 kB in a cell": Case(f"serial\n{'x' * 100_000}\nB\n", ["B"], [2]),
    "no newline at the end": Case("serial\nA\nB", ["A", "B"]),
    "header only": Case("serial\n", invalid=None),
    "empty": Case("", invalid=None),
    "unknown column": Case("serial,colour\nA,red\n", invalid=None),
    "column twice": Case("serial,serial\nA,B\n", invalid=None),
    "10,000 columns": Case(f"serial{',x' * 10_000}\nA{',' * 10_000}\n", invalid=None),
    "formulas": Case("serial\n'=1+1\n'-5\n", ["-5", "=1+1"]),
    "tabs": Case(f"sep=\t\n{HEADER}A,{ADA}\n".replace(",", "\t"), ["A"]),
    "lone surrogate": Case(b"serial\nA\n" + b"\xed\xa0\x80\n", ["A"], [3]),
    "cells": Case(f"{HEADER}A,{ADA}\nB,{ADA},x\nC\n", ["A"], [3, 4]),
    "unterminated quote": Case('serial\nA\n"B\nC\n', ["A"], [3]),
}
"""The test of the page can import them too."""


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
