"""The systemd units in docs: they are valid, restrict the service, and do what they promise."""

import os
import re
import shlex
import socket
import subprocess
import sys
from io import FileIO
from pathlib import Path

import pytest

from registry.operations.backups import Backup
from registry.settings import Settings
from tests.programs import required_program, run
from tests.system.conftest import Start
from tests.system.service import COMMAND, ROOT, TIMEOUT, environment, person

UNIT = ROOT / "docs" / "registry.service"

WATCH = ROOT / "docs" / "registry-watch.service"

BACKUP = ROOT / "docs" / "registry-backup.service"

MAX_EXPOSURE = 2.5

FILTERED = """
import ctypes, errno, os, sys

allowed, command = sys.argv[1].split(), sys.argv[2:]
seccomp = ctypes.CDLL("libseccomp.so.2")
seccomp.seccomp_init.restype = ctypes.c_void_p
ALLOW, DENY = 0x7FFF0000, 0x00050000 | errno.EPERM
rules = ctypes.c_void_p(seccomp.seccomp_init(DENY))
for name in allowed:
    number = seccomp.seccomp_syscall_resolve_name(name.encode())
    if number >= 0:  # of this architecture
        assert seccomp.seccomp_rule_add(rules, ALLOW, number, 0) == 0, name
assert seccomp.seccomp_load(rules) == 0
os.execv(command[0], command)
"""
"""Runs a command that may only make some system calls, as systemd does: others fail."""


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = required_program("systemd-analyze")
    return run([program, *arguments])


@pytest.mark.parametrize("path", [UNIT, WATCH], ids=lambda path: path.stem)
def test_the_unit_is_valid(tmp_path: Path, path: Path) -> None:
    # The checkout is elsewhere here, and systemd warns if the program does not exist.
    program = rf"\g<1>{sys.executable}"
    unit, count = re.subn(r"(?m)^(ExecStart(?:Pre=\+|=))\S+", program, path.read_text())
    assert count == path.read_text().count("ExecStart")
    copy = tmp_path / path.name
    copy.write_text(unit)
    done = analyze("verify", copy)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_timer_of_backups_is_valid() -> None:
    done = analyze("verify", BACKUP, BACKUP.with_suffix(".timer"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_of_backups_keeps_dated_files(
    tmp_path: Path, mongodb_uri: str, settings: Settings
) -> None:
    unit = BACKUP.read_text()
    old, recent = tmp_path / "2026-01-01-0300.backup", tmp_path / "2026-01-02-0300.backup"
    for file in (old, recent):
        file.touch()
    os.utime(old, (0, 0))
    variables = {
        **environment(),
        "BACKUP_DIRECTORY": str(tmp_path),
        "MONGODB_URI": mongodb_uri,
        "REGISTRY_DATABASE": settings.database,
    }
    for command in re.findall(r"(?m)^ExecStart(?:Post)?=(.+)", unit):
        expanded = command.replace("%%", "%").replace("${BACKUP_DIRECTORY}", str(tmp_path))
        words = [word.replace(".venv/bin/python", sys.executable) for word in shlex.split(expanded)]
        run(words, cwd=ROOT, env=variables, check=True)
    assert not old.exists()
    assert recent.exists()
    (dated,) = set(tmp_path.iterdir()) - {recent}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\d{4}\.backup", dated.name)
    with FileIO(dated) as written:
        assert Backup(written).manifest.time


@pytest.mark.parametrize("path", [UNIT, BACKUP], ids=lambda path: path.stem)
def test_the_unit_exposes_little(path: Path) -> None:
    printed = analyze("security", "--offline=true", path).stdout
    (exposure,) = re.findall(rf"Overall exposure level for {path.name}: (\S+)", printed)
    assert float(exposure) < MAX_EXPOSURE


def sandbox(path: Path) -> list[str]:
    """Return the lines of a unit that restrict what it may do."""
    names = "Protect|Private|NoNew|Restrict[A-Z]|Lock|Capability|SystemCall"
    return re.findall(rf"(?m)^(?:{names})\w+=.*", path.read_text())


def test_backups_run_in_the_sandbox_of_the_service() -> None:
    assert len(sandbox(UNIT)) > 15
    assert sandbox(BACKUP) == sandbox(UNIT)


def test_a_setting_that_is_not_valid_does_not_start_the_service_again() -> None:
    assert "RestartPreventExitStatus=2\n" in UNIT.read_text()
    done = run([*COMMAND, "serve", "--port", "x"], cwd=ROOT, env=environment())
    assert done.returncode == 2


def test_the_service_tells_systemd_when_it_is_ready(
    start: Start, tmp_path: Path, mongodb_uri: str
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(TIMEOUT)
        service = start(mongodb_uri=mongodb_uri, NOTIFY_SOCKET=str(tmp_path / "notify"))
        assert notified.recv(100) == b"READY=1"
        assert service.names() == []


def allowed_calls() -> set[str]:
    """Return the system calls that the filters of the unit allow."""
    members: dict[str, list[str]] = {}
    for name, listed in re.findall(
        r"^(@\S+)\n((?:    .*\n)+)", analyze("syscall-filter").stdout, re.MULTILINE
    ):
        members[name] = re.findall(r"^ +([@\w-]+)$", listed, re.MULTILINE)

    def expanded(name: str) -> set[str]:
        return set().union(*map(expanded, members[name])) if name in members else {name}

    allowed: set[str] = set()
    for sign, names in re.findall(r"(?m)^SystemCallFilter=(~?)(.+)", UNIT.read_text()):
        calls = set().union(*map(expanded, names.split()))
        allowed = allowed - calls if sign else allowed | calls
    return allowed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux filters system calls")
def test_the_service_runs_with_the_allowed_system_calls(start: Start, tmp_path: Path) -> None:
    allowed = allowed_calls()
    assert "mount" not in allowed
    filtered = (sys.executable, "-c", FILTERED, " ".join(sorted(allowed)))
    service = start("--workers", "2", command=(*filtered, *COMMAND))
    service.request("/persons", person("Grace"))
    assert service.names() == ["Grace"]
    backup = ("backup", "--data-dir", service.data_dir, tmp_path / "backup")
    run([*filtered, *COMMAND, *backup], cwd=ROOT, check=True)
    assert service.stop() == (0, "")
