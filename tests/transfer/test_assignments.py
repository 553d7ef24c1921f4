"""Assignments in files: they are exported, also those of deleted persons, and not imported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import Api
from tests.transfer.conftest import RunCommand


@pytest.fixture
async def fleet(api: Api) -> Api:
    """Ada had a computer and was deleted; Grace has another."""
    ada, grace = await api.person("Ada", "King"), await api.person(email="g@example.com")
    await api.computer("SN-1", owner=ada)
    await api.computer("SN-2", owner=grace)
    assert (await api.request("DELETE", f"/persons/{ada}")).status == 204
    return api


async def test_assignments_are_exported(fleet: Api, run: RunCommand) -> None:
    names = "serial,owner_name,owner.id,owner.email"
    options = ("--type=assignment", f"--fields={names}", "--format=csv")
    done = await run("export", *options, "--url", fleet.origin, "-")
    assert done.status == 0, done.errors
    assert done.output.removeprefix("\ufeff").split() == [
        names,
        *("SN-1,Ada", "King,1,"),
        *("SN-2,Grace", "Hopper,2,g@example.com"),
    ]


async def test_an_import_refuses_assignments(fleet: Api, run: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "all.ndjson"
    assert (await run("export", "--url", fleet.origin, path)).status == 0
    assert "assignment" not in {json.loads(line)["type"] for line in path.read_text().splitlines()}
    path = tmp_path / "assignments.ndjson"
    await run("export", "--type=assignment", "--url", fleet.origin, path)
    done = await run("import", "--url", fleet.origin, path)
    assert done.status == 1
    assert "line 1, column type: assignment is read-only" in done.errors[0]
