"""scripts/environment and what starts with it: what is installed, when, and what is said if not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
TOOLS = ("bash", "dirname", "cmp", "cp", "mkdir", "rm", "flock")

PYTHON = """#!/bin/sh
# Stands for python3 and, copied, for the one in the virtual environment. It notes what it runs.
case "$*" in
    *"version_info <"*) exit {old} ;;
    *version_info*) echo 3.99 ;;
    *ensurepip*) exit {without_venv} ;;
    "-m venv --clear .venv") rm -rf .venv; mkdir -p .venv/bin; cp bin/python3 .venv/bin/python ;;
    "-c import pip") ;;
    *) echo "$PWD $*" >>calls; exit {offline} ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a PATH of its own."""
    root = tmp_path / "a checkout"
    shutil.copytree(SCRIPTS, root / "scripts", ignore=shutil.ignore_patterns("swagger-ui", "*.py"))
    (root / "bin").mkdir()
    for tool in TOOLS:
        if found := shutil.which(tool):
            (root / "bin" / tool).symlink_to(found)
    (root / "requirements.txt").write_text("aiohttp==3\n")
    provide(root / "bin/python3", PYTHON.format(old=0, without_venv=0, offline=0))
    return root


def provide(program: Path, script: str) -> None:
    program.write_text(script)
    program.chmod(0o755)


def run(root: Path, script: str, *arguments: str) -> str:
    """Run a script of the checkout from elsewhere; return the line that it fails with, or none."""
    done = subprocess.run(  # noqa: S603 - the script of this checkout
        [root / "scripts" / script, *arguments],
        cwd=root.parent,
        env={"PATH": str(root / "bin")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    lines = done.stderr.splitlines()
    assert done.returncode == (1 if lines and lines[-1].startswith("registry: ") else 0)
    return lines[-1] if done.returncode else ""


def calls(root: Path) -> list[str]:
    """Return what Python was called for, without the options of pip that are always the same."""
    noted = (root / "calls").read_text().splitlines()
    (root / "calls").write_text("")
    options = "install --quiet --disable-pip-version-check --no-input "
    return [line.removeprefix(f"{root} ").replace(options, "") for line in noted]


def test_a_file_is_installed_once_and_again_when_it_has_changed(checkout: Path) -> None:
    for _ in range(2):
        assert run(checkout, "environment", "requirements.txt") == ""
    assert calls(checkout) == ["-m pip --requirement=requirements.txt"]
    both = ("requirements.txt", "scripts/requirements.txt")
    for _ in range(2):
        assert run(checkout, "environment", *both) == ""
    assert calls(checkout) == ["-m pip --requirement=scripts/requirements.txt"]
    for file in both:
        (checkout / file).write_text("aiohttp==4\n")
    assert run(checkout, "environment", *both) == ""
    assert calls(checkout) == [
        "-m pip --requirement=requirements.txt --requirement=scripts/requirements.txt"
    ]


def test_what_could_not_be_installed_is_tried_again(checkout: Path) -> None:
    python = checkout / "bin/python3"
    provide(python, PYTHON.format(old=0, without_venv=0, offline=1))
    for _ in range(2):
        said = run(checkout, "environment", "requirements.txt")
        assert said == "registry: requirements.txt could not be installed: pip says why above"
    assert len(calls(checkout)) == 2


def test_an_environment_that_is_not_whole_is_made_anew(checkout: Path) -> None:
    for lost in ("", "bin", "installed"):  # by nobody, by an upgrade of Python, by an interruption
        if lost:
            shutil.rmtree(checkout / ".venv" / lost)
        assert run(checkout, "environment", "requirements.txt") == ""
        assert calls(checkout) == ["-m pip --requirement=requirements.txt"]


def test_swagger_ui_is_fetched_after_an_installation_but_not_needed(checkout: Path) -> None:
    provide(checkout / "scripts/swagger-ui", "#!/bin/sh\necho fetched >>calls\nexit 1\n")
    for _ in range(2):
        assert run(checkout, "environment", "requirements.txt") == ""
    assert calls(checkout) == ["-m pip --requirement=requirements.txt", "fetched"]


def test_the_first_python_that_runs_and_is_recent_is_taken(checkout: Path) -> None:
    python = checkout / "bin/python3"
    python.rename(checkout / "bin/python3.11")
    provide(checkout / "bin/python3.13", "#!/bin/sh\necho no such version >&2; exit 127\n")
    provide(python, PYTHON.format(old=1, without_venv=0, offline=0))
    assert run(checkout, "environment", "requirements.txt") == ""
    assert calls(checkout) == ["-m pip --requirement=requirements.txt"]


def test_without_a_recent_python_that_is_said(checkout: Path) -> None:
    provide(checkout / "bin/python3", PYTHON.format(old=1, without_venv=0, offline=0))
    said = run(checkout, "environment", "requirements.txt")
    assert said.startswith("registry: no Python 3.11 or newer was found")


def test_without_the_modules_for_environments_their_package_is_named(checkout: Path) -> None:
    provide(checkout / "bin/python3", PYTHON.format(old=0, without_venv=1, offline=0))
    assert "install python3.99-venv" in run(checkout, "environment", "requirements.txt")


def test_the_service_is_started_in_the_checkout_with_its_arguments(checkout: Path) -> None:
    assert run(checkout, "serve", "--data-dir", "my data", "--port=1") == ""
    assert calls(checkout) == [
        "-m pip --requirement=requirements.txt",
        "-m registry --data-dir my data --port=1",
    ]


def test_the_benchmark_is_run_with_its_arguments(checkout: Path) -> None:
    provide(checkout / "bin/wrk", "#!/bin/sh\n")
    assert run(checkout, "bench", "--output", "my figures") == ""
    assert calls(checkout) == [
        "-m pip --requirement=requirements.txt --requirement=scripts/benchmark/requirements.txt"
    ]
    # Where it was called, as the path of the output is relative to that.
    assert calls(checkout.parent) == ["-m benchmark --output my figures"]


def test_the_benchmark_says_that_it_needs_wrk(checkout: Path) -> None:
    said = run(checkout, "bench")
    assert said.startswith("registry: the benchmark needs the load generator wrk: install it")
