"""Schemathesis: responses to generated requests conform to the service's own description."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from registry.settings import Settings
from tests.conftest import Grant, Serve
from tests.devices import WITH_DEVICES
from tests.system.service import ROOT

pytestmark = pytest.mark.slow

ENVIRONMENT = os.environ | {
    "SCHEMATHESIS_HOOKS": "tests.system.schemathesis_hooks",
    "PYTHONPATH": str(ROOT),
}
MAX_SECONDS = 300
"""A minute is usual; the limit allows for a busy machine."""


async def check(
    url: str, directory: Path, *options: str, tested: int = 30, examples: int = 10
) -> None:
    """Run the tool on the service at a URL; it must find nothing.

    directory: to which it writes a cache. tested: the number of operations, all by default.
    examples: per operation.
    """
    process = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("schemathesis"), "run"),
        f"{url}/api/swagger/swagger.json",
        *("--checks=all", "--seed=1", "--generation-database=none", "--warnings=off", "--no-color"),
        *(f"--max-examples={examples}", *options),
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
    printed = output.decode()
    assert process.returncode == 0, printed
    assert f"Tested: {tested}" in printed, printed


async def test_all_responses_conform_to_the_description(
    serve: Serve, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of attributes of all types, and of unique ones, whose examples are taken."""
    caplog.set_level(logging.INFO)
    unique = ("computer.serial", "person.email")
    api = await serve(WITH_DEVICES, replace(settings, unique=unique))
    await api.person(email="grace.hopper@example.com")
    await api.computer("SN-0001")
    await check(api.origin, tmp_path, tested=43)
    for name in ("Another `person` has this `email`.", "Another `computer` has this `serial`."):
        assert name in caplog.text
    assert "Traceback" not in caplog.text


async def test_responses_with_and_without_a_token_conform_to_the_description(
    serve: Serve, secured: Settings, grant: Grant, tmp_path: Path
) -> None:
    """Of each accepted request, `ignored_auth` checks that it is 401 without a valid token.

    Two examples suffice: the requests are generated as without access tokens.
    """
    api = await serve(settings=secured)
    for sent in (f"Bearer {await grant('write')}", "Basic Z3JhY2U6aG9wcGVy"):
        options = ("--phases=fuzzing", f"--header=Authorization:{sent}")
        await check(api.origin, tmp_path, *options, examples=2)
