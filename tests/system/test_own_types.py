"""A fleet with its own attributes and types, from a file to a backup, by the commands."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.system.conftest import Start
from tests.system.service import COMMAND, ROOT, environment, run_command

pytestmark = pytest.mark.slow

FLEET = ROOT / "docs/fleet.toml"

ROWS = 300


def spreadsheet(path: Path) -> Path:
    rows = "".join(
        f"SN-{n},ThinkPad T14,IT-{n:05},{'repair' if n % 3 else ''},p{n % 40}@example.com,A,B\n"
        for n in range(ROWS)
    )
    owner = "owner.email,owner.first_name,owner.last_name"
    path.write_text(f"serial,model,asset_tag,status,{owner}\n{rows}")
    return path


def test_a_fleet_with_own_types_is_imported_exported_and_checked(
    start: Start, tmp_path: Path
) -> None:
    service = start("--types", FLEET, "--workers", "2")
    variables = environment(REGISTRY_URL=service.url, REGISTRY_DATA_DIR=str(service.data_dir))
    variables["REGISTRY_TYPES"] = str(FLEET)

    def run(*arguments: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = run_command([*COMMAND, *arguments], variables)
        assert done.returncode == status, done.stderr
        return done

    file = spreadsheet(tmp_path / "computers.csv")
    keys = ("--type", "computer", "--key", "asset_tag", "--key", "owner.email")
    assert "created 40 persons and 300 computers" in run("import", *keys, file).stdout
    again = run("import", *keys, file).stdout
    assert "300 computers" in again
    assert "created" not in again
    wrong = tmp_path / "phones.csv"
    wrong.write_text("number,owner.email\n030,p1@example.com\n,p2@example.com\n")
    done = run("import", "--type", "phone", "--key", "owner.email", wrong, status=1)
    assert done.stdout.startswith("created 1 phone")
    assert "line 3, column number: Missing data" in done.stderr
    exported = tmp_path / "exported.csv"
    run("export", "--type", "computer", "--filter", "status=ready", exported)
    header, *rows = exported.read_text("utf-8-sig").splitlines()
    assert header == "id,serial,model,asset_tag,status,bought,price,owner.id"
    assert len(rows) == ROWS / 3
    (path,) = re.findall(r"`GET (/phones\?[^`]+)`", (ROOT / "docs/types.md").read_text())
    assert service.request(path)["data"] == []
    run("export", "--type", "phone_owner_period", tmp_path / "periods.csv")
    assert "consistent" in run("check").stderr
    run("token", "create", "--name", "phones", "--scope", "phones:read")
    run("forget", "phone", "9")
    variables["REGISTRY_TYPES"] = ""
    assert (
        "phones:read"
        in run("token", "create", "--name", "x", "--scope", "phones:read", status=2).stderr
    )
