"""The console command `registry`, as pip installs it, and its help screens."""

import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from registry import __version__
from tests import cli
from tests.programs import INSTALL_TIMEOUT, run
from tests.system.service import COMMAND, ROOT, environment, error_message, run_command


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which pip has installed the package, without its requirements."""
    source = tmp_path_factory.mktemp("source")
    for file in ("setup.py", "requirements.txt"):
        shutil.copy(ROOT / file, source)
    without_ui = shutil.ignore_patterns("swagger-ui")
    shutil.copytree(ROOT / "registry", source / "registry", ignore=without_ui)
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-input"]
    run([*pip, "--target", target, source], INSTALL_TIMEOUT, check=True)
    return target


@pytest.fixture
def variables(installed: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a user of the installed package, whose data are in `tmp_path`."""
    return environment(PYTHONPATH=str(installed), XDG_DATA_HOME=str(tmp_path))


def test_the_page_on_the_command_line_is_the_help_of_every_command() -> None:
    assert cli.PAGE.read_text() == cli.page(), "run: python -m tests.cli"


@pytest.mark.parametrize("command", ["serve", "import"])
def test_help_fits_the_width_of_a_terminal(command: str) -> None:
    assert max(map(len, cli.help_of(command, columns=80).splitlines())) <= 80


def test_an_unknown_command_is_reported_with_the_known_ones() -> None:
    message = error_message([*COMMAND, "chekc"], environment(), status=2)
    assert "invalid choice: 'chekc' (choose from 'serve', " in message


def test_the_version_is_printed_with_that_of_python() -> None:
    done = run_command([*COMMAND, "--version"], environment())
    assert done.stdout == f"registry {__version__}, Python {platform.python_version()}\n"


@pytest.mark.slow
def test_the_installed_command_says_where_data_are_and_what_is_missing(
    installed: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    done = run_command([installed / "bin/registry", "token", "--help"], variables, tmp_path)
    assert done.stdout.startswith("usage: registry token ")
    environment_, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    elsewhere.mkdir()
    create = [sys.executable, "-m", "venv", "--without-pip", str(environment_)]
    run(create, check=True)
    requirements = sysconfig.get_path("purelib")
    with subprocess.Popen(  # noqa: S603 - the service
        [environment_ / "bin/python", installed / "bin/registry", "--auth", "on"],
        cwd=elsewhere,
        env=variables | {"PYTHONPATH": f"{installed}:{requirements}"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        line = process.stdout.readline()
        process.terminate()
    assert process.returncode == 0
    assert "registry token create --name NAME --scope write` creates one. " in line
    assert "Swagger UI is not the required version: install npm, then " in line
    assert line.endswith(f". Data: {tmp_path / 'registry'}\n")
    assert (tmp_path / "registry/mongodb").is_dir()
    assert not any(elsewhere.iterdir())
