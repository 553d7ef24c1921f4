"""scripts/swagger-ui puts the files of Swagger UI in place, or says in one line why it does not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/swagger-ui"
TOOLS = ("bash", "dirname", "mkdir", "mktemp", "mv", "rm", "tar", "gzip")

Run = Callable[[], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a virtual environment, and a PATH of its own without npm."""
    for directory in ("scripts", ".venv/bin", "bin"):
        (tmp_path / directory).mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "scripts")
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found
        (tmp_path / "bin" / tool).symlink_to(found)
    return tmp_path


@pytest.fixture
def run(checkout: Path) -> Run:
    return lambda: subprocess.run(  # noqa: S603 - the script of this checkout
        [checkout / "scripts/swagger-ui"],
        env={"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def install_npm(checkout: Path, behaviour: str) -> None:
    npm = checkout / "bin/npm"
    npm.write_text(f"#!{checkout}/bin/bash\n{behaviour}\n")
    npm.chmod(0o755)


@pytest.mark.parametrize(
    ("npm", "reason"),
    [
        (None, "there is no npm"),
        ("echo 'npm ERR! network' >&2; exit 1", "npm could not fetch swagger-ui-dist"),
        ("echo x > swagger-ui-dist-3.45.0.tgz", "what npm fetched is not what it should be"),
    ],
)
def test_what_is_in_the_way_is_one_line_and_leaves_nothing_behind(
    checkout: Path, run: Run, npm: str | None, reason: str
) -> None:
    if npm is not None:
        install_npm(checkout, npm)
    done = run()
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"swagger-ui: {reason}")
    assert list(checkout.glob(".venv/share/*")) == []


def test_files_that_are_there_are_not_fetched_again(checkout: Path, run: Run) -> None:
    installed = checkout / ".venv/share/swagger-ui"
    installed.mkdir(parents=True)
    (installed / "VERSION").write_text("3.45.0\n")
    done = run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_a_virtual_environment_there_is_no_place_for_the_files(
    checkout: Path, run: Run
) -> None:
    shutil.rmtree(checkout / ".venv")
    done = run()
    assert done.returncode == 1
    assert done.stderr.startswith("swagger-ui: there is no virtual environment")
    assert not (checkout / ".venv").exists()
