"""Files of all kinds, as the command imports them; tests/web imports some of them on the page."""

import re
from pathlib import Path

import pytest

from tests.commands.conftest import RunCommand
from tests.commands.same_files import FILES
from tests.support import Api


@pytest.mark.parametrize("name", FILES)
async def test_valid_rows_are_stored_and_invalid_lines_reported(
    name: str, api: Api, run: RunCommand, tmp_path: Path
) -> None:
    case, path = FILES[name], tmp_path / "fleet.csv"
    path.write_bytes(case.content)
    options = ("--type", "computer", "--key", case.key, "--encoding", case.charset)
    done = await run("import", "--url", api.origin, *options, path)
    if case.invalid is None:
        assert (done.status, len(done.errors)) == (2, 1)
    else:
        found = [re.match(r"line (\d+)[:,]", line) for line in done.errors]
        assert [int(line[1]) for line in found if line] == case.invalid
        assert done.status == (1 if case.invalid else 0)
    computers = (await api.get("/computers?sort=serial")).data
    assert [computer["attributes"]["serial"] for computer in computers] == case.serials
    persons = (await api.get("/persons")).data
    emails = [person["attributes"]["email"] for person in persons]
    assert len(emails) == len(set(emails))
