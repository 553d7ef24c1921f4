"""Schemathesis finds no request that the service answers otherwise than it describes."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.system.conftest import Start
from tests.system.service import ROOT

COMMAND = Path(sys.executable).with_name("schemathesis")
HOOKS = "tests.system.schemathesis_hooks"
EXAMPLES = 10
LONGEST = 300
"""Seconds; a minute is usual."""


def test_no_request_is_answered_otherwise_than_described(start: Start, tmp_path: Path) -> None:
    service = start()
    assert service.process.stderr
    with ThreadPoolExecutor() as pool:
        log = pool.submit(service.process.stderr.read)  # a full pipe would stop the service
        try:
            done = subprocess.run(  # noqa: S603 - the tool of this test
                [
                    COMMAND,
                    "run",
                    f"{service.url}/api/swagger/swagger.json",
                    "--checks=all",
                    f"--max-examples={EXAMPLES}",
                    "--seed=1",
                    "--generation-database=none",
                    "--warnings=off",
                    "--no-color",
                ],
                cwd=tmp_path,  # where it leaves what it remembers
                env=os.environ | {"SCHEMATHESIS_HOOKS": HOOKS, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                timeout=LONGEST,
                check=False,
            )
        finally:
            service.process.terminate()
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Tested: 19" in done.stdout, done.stdout
        assert "Traceback" not in log.result()
