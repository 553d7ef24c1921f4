"""Schemathesis: responses to generated requests conform to the service's own description."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import Start
from tests.system.service import ROOT

pytestmark = pytest.mark.slow

COMMAND = Path(sys.executable).with_name("schemathesis")
HOOKS = "tests.system.schemathesis_hooks"
EXAMPLES = 10
MAX_SECONDS = 300
"""A minute is usual; the limit allows for a busy machine."""


def command(url: str, examples: int = EXAMPLES) -> list[str | Path]:
    """Return the command that tests the service at a URL. examples: per operation."""
    return [
        COMMAND,
        "run",
        f"{url}/api/swagger/swagger.json",
        "--checks=all",
        f"--max-examples={examples}",
        "--seed=1",
        "--generation-database=none",
        "--warnings=off",
        "--no-color",
    ]


ENVIRONMENT = os.environ | {"SCHEMATHESIS_HOOKS": HOOKS, "PYTHONPATH": str(ROOT)}


def test_all_responses_conform_to_the_description(start: Start, tmp_path: Path) -> None:
    service = start()
    done = subprocess.run(  # noqa: S603 - the tool of this test
        command(service.url),
        cwd=tmp_path,  # it writes a cache to its directory
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )
    _, log = service.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Tested: 19" in done.stdout, done.stdout  # all operations of the description
    assert "Traceback" not in log
