"""scripts/environment and the scripts that use it: what they install, and their error messages."""

import shutil
from pathlib import Path

import pytest

from tests import programs

SCRIPTS = Path(__file__).parents[2] / "scripts"
TOOLS = ("bash", "dirname", "cmp", "cp", "mkdir", "rm", "flock")

PYTHON = """#!/bin/sh
# A fake python3, which is copied into the virtual environment too. Logs its calls.
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
    """A checkout with its own PATH."""
    root = tmp_path / "a checkout"
    shutil.copytree(SCRIPTS, root / "scripts", ignore=shutil.ignore_patterns("swagger-ui", "*.py"))
    (root / "bin").mkdir()
    for tool in TOOLS:
        if found := shutil.which(tool):
            (root / "bin" / tool).symlink_to(found)
    (root / "requirements.txt").write_text("aiohttp==3\n")
    install(root / "bin/python3", PYTHON.format(old=0, without_venv=0, offline=0))
    return root


def install(program: Path, script: str) -> None:
    program.write_text(script)
    program.chmod(0o755)


def run(root: Path, script: str, *arguments: str, **variables: str) -> str:
    """Run a script from outside the checkout; return its error message, empty on success."""
    path = {"PATH": str(root / "bin")}
    done = programs.run(
        [root / "scripts" / script, *arguments], cwd=root.parent, env=path | variables
    )
    lines = done.stderr.splitlines()
    assert done.returncode == (1 if lines and lines[-1].startswith("registry: ") else 0)
    return lines[-1] if done.returncode else ""


def calls(root: Path) -> list[str]:
    """Return and clear the logged calls of Python, without the constant options of pip."""
    logged = (root / "calls").read_text().splitlines()
    (root / "calls").write_text("")
    options = "install --quiet --disable-pip-version-check --no-input --require-hashes "
    return [line.removeprefix(f"{root} ").replace(options, "") for line in logged]


def test_a_requirement_file_is_installed_once_and_again_when_it_changes(checkout: Path) -> None:
    for _ in range(2):
        assert run(checkout, "environment", "requirements.txt") == ""
    assert calls(checkout) == ["-m pip --requirement=requirements.txt"]
    both = ("requirements.txt", "scripts/benchmark/requirements.txt")
    for _ in range(2):
        assert run(checkout, "environment", *both) == ""
    assert calls(checkout) == ["-m pip --requirement=scripts/benchmark/requirements.txt"]
    for file in both:
        (checkout / file).write_text("aiohttp==4\n")
    assert run(checkout, "environment", *both) == ""
    assert calls(checkout) == [
        "-m pip --requirement=requirements.txt --requirement=scripts/benchmark/requirements.txt"
    ]


def test_a_failed_installation_is_retried_on_the_next_run(checkout: Path) -> None:
    python = checkout / "bin/python3"
    install(python, PYTHON.format(old=0, without_venv=0, offline=1))
    for _ in range(2):
        message = run(checkout, "environment", "requirements.txt")
        assert message == "registry: cannot install requirements.txt; the messages of pip are above"
    assert len(calls(checkout)) == 2


@pytest.mark.parametrize(
    ("status", "then"), [(0, []), (1, ["-m pip --requirement=requirements.txt"])]
)
def test_uv_installs_if_it_can_otherwise_pip(status: int, then: list[str], checkout: Path) -> None:
    run(checkout, "environment", "requirements.txt")
    calls(checkout)
    install(checkout / ".venv/bin/uv", f'#!/bin/sh\necho "$*" >>calls\nexit {status}\n')
    (checkout / "requirements.txt").write_text("aiohttp==4\n")
    assert run(checkout, "environment", "requirements.txt") == ""
    options = "--quiet --python .venv/bin/python --require-hashes"
    by_uv = f"pip install {options} --requirement=requirements.txt"
    assert calls(checkout) == [by_uv, *then]


def test_an_incomplete_environment_is_created_again(checkout: Path) -> None:
    run(checkout, "environment", "requirements.txt")
    calls(checkout)
    for lost in ("bin", "installed"):  # after an upgrade of Python, after an interrupted run
        shutil.rmtree(checkout / ".venv" / lost)
        assert run(checkout, "environment", "requirements.txt") == ""
        assert calls(checkout) == ["-m pip --requirement=requirements.txt"]


def test_swagger_ui_is_downloaded_after_an_installation_but_is_optional(checkout: Path) -> None:
    install(checkout / "scripts/swagger-ui", "#!/bin/sh\necho downloaded >>calls\nexit 1\n")
    for _ in range(2):
        assert run(checkout, "environment", "requirements.txt") == ""
    assert calls(checkout) == ["-m pip --requirement=requirements.txt", "downloaded"]


def test_the_first_working_python_of_a_supported_version_is_used(checkout: Path) -> None:
    python = checkout / "bin/python3"
    python.rename(checkout / "bin/python3.11")
    install(checkout / "bin/python3.13", "#!/bin/sh\necho no such version >&2; exit 127\n")
    install(python, PYTHON.format(old=1, without_venv=0, offline=0))
    assert run(checkout, "environment", "requirements.txt") == ""
    assert calls(checkout) == ["-m pip --requirement=requirements.txt"]


@pytest.mark.parametrize(
    ("old", "without_venv", "message"),
    [(1, 0, "registry: cannot find Python 3.11 or later"), (0, 1, "install python3.99-venv")],
)
def test_an_unsupported_python_is_reported(
    old: int, without_venv: int, message: str, checkout: Path
) -> None:
    script = PYTHON.format(old=old, without_venv=without_venv, offline=0)
    install(checkout / "bin/python3", script)
    assert message in run(checkout, "environment", "requirements.txt")


@pytest.mark.parametrize("words", [("registry", "backup"), ("serve",), ("seed",)])
def test_a_script_runs_in_the_callers_directory(words: tuple[str, ...], checkout: Path) -> None:
    assert run(checkout, *words, "--data-dir", "my data", "a file") == ""
    assert calls(checkout) == ["-m pip --requirement=requirements.txt"]
    assert calls(checkout.parent) == [f"-P -m registry {words[-1]} --data-dir my data a file"]
