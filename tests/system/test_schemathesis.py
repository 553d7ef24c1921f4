"""Schemathesis: responses to generated requests conform to the service's own description."""

import asyncio
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from registry.settings import Settings
from tests.conftest import Serve
from tests.devices import WITH_DEVICES
from tests.system.service import ROOT

pytestmark = pytest.mark.slow

ENVIRONMENT = os.environ | {
    "SCHEMATHESIS_HOOKS": "tests.system.schemathesis_hooks",
    "PYTHONPATH": str(ROOT),
}
MAX_SECONDS = 900
"""A minute is usual; the limit allows for a busy machine."""


async def check(url: str, directory: Path) -> str:
    """Run the tool on the service at a URL, where it must find nothing; return what it prints.

    directory: to which it writes a cache.
    """
    process = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("schemathesis"), "run"),
        f"{url}/api/swagger/swagger.json",
        *("--checks=all", "--seed=1", "--generation-database=none", "--warnings=off", "--no-color"),
        "--max-examples=10",
        cwd=directory,
        env=ENVIRONMENT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(MAX_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_all_responses_conform_to_the_description(
    serve: Serve, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of attributes of all types, and of unique ones, whose examples are taken."""
    caplog.set_level(logging.INFO)
    unique = ("computer.serial", "person.email")
    api = await serve(WITH_DEVICES, replace(settings, unique=unique))
    await api.person(email="grace.hopper@example.com")
    await api.computer("SN-0001")
    assert "Tested: 43" in await check(api.origin, tmp_path)
    for name in ("Another `person` has this `email`.", "Another `computer` has this `serial`."):
        assert name in caplog.text
    assert "Traceback" not in caplog.text
