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
from tests.system.conftest import Start
from tests.system.service import ROOT

pytestmark = pytest.mark.slow

ENVIRONMENT = os.environ | {
    "SCHEMATHESIS_HOOKS": "tests.system.schemathesis_hooks",
    "PYTHONPATH": str(ROOT),
}
MAX_SECONDS = 300
"""A minute is usual; the limit allows for a busy machine."""

WRITES = ("create_person", "create_computer", "update_person", "update_computer")


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


async def test_all_responses_conform_to_the_description(start: Start, tmp_path: Path) -> None:
    service = await asyncio.to_thread(start)
    await check(service.url, tmp_path)
    _, log = await asyncio.to_thread(service.stop)
    assert "Traceback" not in log


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


async def test_attributes_of_all_types_conform_to_the_description(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api = await serve(resources=WITH_DEVICES)
    await check(api.origin, tmp_path, "--include-tag=Device", tested=8)
    assert "Traceback" not in caplog.text


async def test_conflicts_of_unique_attributes_conform_to_the_description(
    serve: Serve, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    api = await serve(settings=replace(settings, unique=("computer.serial", "person.email")))
    await api.person(email="grace.hopper@example.com")  # as in the examples of the description
    await api.computer("SN-0001")
    await api.person()
    await api.computer("SN-0002")
    selected = (f"--include-operation-id={name}" for name in (*WRITES, "perform_operations"))
    await check(api.origin, tmp_path, "--phases=examples", *selected, tested=5)
    for name in ("Another `person` has this `email`.", "Another `computer` has this `serial`."):
        assert name in caplog.text
