"""Schemathesis on attributes of all types, and on unique ones; apart, to run in parallel."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from registry.settings import Settings
from tests.conftest import Serve
from tests.devices import device
from tests.system.test_schemathesis import ENVIRONMENT, MAX_SECONDS, command

pytestmark = pytest.mark.slow

WRITES = ("create_person", "create_computer", "update_person", "update_computer")


async def check(url: str, directory: Path, *options: str) -> str:
    """Run the command with more options, which must find nothing; return its output."""
    process = await asyncio.create_subprocess_exec(
        *command(url),
        *options,
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


async def test_attributes_of_all_types_conform_to_the_description(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api = await serve(resources=(device,))
    output = await check(api.origin, tmp_path)
    assert "Tested: 6" in output, output  # all operations of the description
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
    output = await check(api.origin, tmp_path, "--phases=examples", *selected)
    assert "Tested: 5" in output, output
    for name in ("Another `person` has this `email`.", "Another `computer` has this `serial`."):
        assert name in caplog.text
