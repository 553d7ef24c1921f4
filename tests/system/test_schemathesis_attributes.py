"""Schemathesis on a type with attributes of all types; a file of its own, to run in parallel."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.conftest import Serve
from tests.devices import device
from tests.system.test_schemathesis import ENVIRONMENT, MAX_SECONDS, command


async def test_attributes_of_all_types_conform_to_the_description(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api = await serve(resources=(device,))
    process = await asyncio.create_subprocess_exec(
        *command(api.origin),
        cwd=tmp_path,
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
    assert "Tested: 6" in output.decode(), output.decode()  # all operations of the description
    assert "Traceback" not in caplog.text
