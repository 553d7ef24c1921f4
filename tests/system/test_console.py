"""The console command `registry`, as pip installs it, and its help screens."""

import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from registry import __version__
from registry.__main__ import main
from tests.programs import INSTALL_TIMEOUT, run
from tests.system.service import COMMAND, ROOT, environment, error_message, run_command

ROWS, COLUMNS = 40, 80
"""The size of a small terminal window."""

HELP = [
    "--help",
    "serve --help",
    "seed --help",
    "import --help",
    "export --help",
    "watch --help",
    "backup --help",
    "restore --help",
    "check --help",
    "forget --help",
    "upgrade --help",
    "token --help",
    "token create --help",
]


Capture = pytest.CaptureFixture[str]


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


def help_of(arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> str:
    """Return what `python -m registry` prints for these arguments."""
    monkeypatch.setattr(sys, "argv", ["registry/__main__.py", *arguments.split()])
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    printed: str = capsys.readouterr().out
    return printed


@pytest.mark.parametrize("arguments", HELP)
def test_help_fits_a_screen(
    arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    lines = help_of(arguments, monkeypatch, capsys).splitlines()
    assert lines[0].startswith("usage: python -m registry ")
    assert len(lines) <= ROWS
    assert max(map(len, lines)) <= COLUMNS


def test_help_lists_all_commands(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    listed = help_of("--help", monkeypatch, capsys)
    commands = {one.split()[0] for one in HELP} - {"--help"}
    assert set(re.findall(r"^    (\w+)  ", listed, re.MULTILINE)) == commands


def test_an_unknown_command_is_reported_with_the_known_ones() -> None:
    message = error_message([*COMMAND, "chekc"], environment(), status=2)
    assert "invalid choice: 'chekc' (choose from 'serve', 'seed'," in message


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
