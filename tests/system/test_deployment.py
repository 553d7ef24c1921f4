"""The files for operators are valid."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.service import ROOT, TIMEOUT

UNIT = ROOT / "docs" / "registry.service"


def test_the_systemd_unit_is_valid(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        reason = "NO SYSTEMD: its unit is not verified"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    # The checkout is elsewhere here, and systemd warns if the program does not exist.
    unit, count = re.subn(r"(?m)^(ExecStart=)\S+", rf"\g<1>{sys.executable}", UNIT.read_text())
    assert count == 1
    copy = tmp_path / UNIT.name
    copy.write_text(unit)
    done = subprocess.run(  # noqa: S603 - verifies a file
        [analyze, "verify", copy], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
