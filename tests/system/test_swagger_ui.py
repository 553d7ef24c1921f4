"""scripts/swagger-ui installs the files of Swagger UI, or reports in one line why it cannot."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.programs import run

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/swagger-ui"
TOOLS = ("bash", "dirname", "mkdir", "mktemp", "mv", "rm", "tar", "gzip", "sha512sum")
INSTALLED = "registry/openapi/swagger-ui"

FILES = (
    *("swagger-ui-bundle.js", "swagger-ui-standalone-preset.js", "swagger-ui.css"),
    *("favicon-16x16.png", "favicon-32x32.png"),
)
"""To which the page of aiohttp-swagger3 refers."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with its own PATH, which has no npm."""
    for directory in ("scripts", "bin"):
        (tmp_path / directory).mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    for tool in TOOLS:
        program = shutil.which(tool)
        assert program
        (tmp_path / "bin" / tool).symlink_to(program)
    return tmp_path


@pytest.fixture
def install(checkout: Path) -> Run:
    path = {"PATH": str(checkout / "bin")}
    return lambda: run([checkout / "scripts/swagger-ui"], cwd=checkout, env=path)


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
def test_a_failure_leaves_no_files(
    checkout: Path, install: Run, npm: str | None, reason: str
) -> None:
    if npm is not None:
        install_npm(checkout, npm)
    done = install()
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line == f"swagger-ui: cannot install Swagger UI 3.45.0: {reason}"
    assert list((checkout / INSTALLED).parent.glob("*")) == []


def test_installed_files_are_not_downloaded_again(checkout: Path, install: Run) -> None:
    (checkout / INSTALLED).mkdir(parents=True)
    (checkout / INSTALLED / "VERSION").write_text("3.45.0\n")
    assert install().returncode == 1  # other files are missing
    for name in FILES:
        (checkout / INSTALLED / name).touch()
    done = install()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_wheel_contains_the_installed_files(checkout: Path) -> None:
    shutil.copy(ROOT / "setup.py", checkout)
    shutil.copytree(ROOT / "registry", checkout / "registry", dirs_exist_ok=True)
    (checkout / INSTALLED).mkdir(exist_ok=True)
    (checkout / INSTALLED / "VERSION").write_text("3.45.0\n")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-input"]
    run([*pip, "--wheel-dir", "wheels", "."], cwd=checkout, check=True)
    (wheel,) = (checkout / "wheels").iterdir()
    with ZipFile(wheel) as archive:
        assert archive.read(f"{INSTALLED}/VERSION") == b"3.45.0\n"
