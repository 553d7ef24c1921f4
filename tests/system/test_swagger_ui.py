"""scripts/swagger-ui installs the files of Swagger UI, or reports in one line why it cannot."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.service import TIMEOUT

SCRIPT = Path(__file__).parents[2] / "scripts/swagger-ui"
TOOLS = ("bash", "dirname", "mkdir", "mktemp", "mv", "rm", "tar", "gzip")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a virtual environment and its own PATH, which has no npm."""
    for directory in ("scripts", ".venv/bin", "bin"):
        (tmp_path / directory).mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "scripts")
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    for tool in TOOLS:
        program = shutil.which(tool)
        assert program
        (tmp_path / "bin" / tool).symlink_to(program)
    return tmp_path


@pytest.fixture
def run(checkout: Path) -> Run:
    return lambda *arguments: subprocess.run(  # noqa: S603 - the script of this checkout
        [checkout / "scripts/swagger-ui", *arguments],
        cwd=checkout,
        env={"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def install_npm(checkout: Path, script: str) -> None:
    npm = checkout / "bin/npm"
    npm.write_text(f"#!{checkout}/bin/bash\n{script}\n")
    npm.chmod(0o755)


@pytest.mark.parametrize(
    ("npm", "reason"),
    [
        (None, "npm is not installed"),
        ("echo 'npm ERR! network' >&2; exit 1", "npm cannot download swagger-ui-dist"),
        (
            "echo x > swagger-ui-dist-3.45.0.tgz",
            "the sha512 of the downloaded package does not match",
        ),
    ],
)
def test_a_failure_is_reported_in_one_line_and_leaves_no_files(
    checkout: Path, run: Run, npm: str | None, reason: str
) -> None:
    if npm is not None:
        install_npm(checkout, npm)
    done = run()
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line == f"swagger-ui: cannot install Swagger UI 3.45.0: {reason}"
    assert list(checkout.glob(".venv/share/*")) == []


def test_installed_files_are_not_downloaded_again(checkout: Path, run: Run) -> None:
    installed = checkout / ".venv/share/swagger-ui"
    installed.mkdir(parents=True)
    (installed / "VERSION").write_text("3.45.0\n")
    done = run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_another_environment_can_be_named(checkout: Path, run: Run) -> None:
    (checkout / ".venv").rename(checkout / "other")
    install_npm(checkout, "echo x > swagger-ui-dist-3.45.0.tgz")
    assert "the sha512 of the downloaded package does not match" in run("other").stderr
    assert (checkout / "other/share").is_dir()
    assert not (checkout / ".venv").exists()


def test_a_missing_virtual_environment_is_reported_and_not_created(
    checkout: Path, run: Run
) -> None:
    shutil.rmtree(checkout / ".venv")
    done = run()
    assert done.returncode == 1
    assert "there is no virtual environment" in done.stderr
    assert not (checkout / ".venv").exists()
