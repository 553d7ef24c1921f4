"""Schemathesis on a service that requires access tokens; a file of its own, to run in parallel."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from registry.settings import Settings
from tests.conftest import Grant, Serve
from tests.system.test_schemathesis import ENVIRONMENT, MAX_SECONDS, command

pytestmark = pytest.mark.slow

EXAMPLES = 2
"""The requests are generated as without access tokens, where there are more of them."""


def run(url: str, authorization: str, directory: Path) -> str:
    """Test the service with this value of `Authorization`, and return what is printed."""
    directory.mkdir()
    done = subprocess.run(  # noqa: S603 - the tool of this test
        [*command(url, EXAMPLES), "--phases=fuzzing", f"--header=Authorization:{authorization}"],
        cwd=directory,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def test_responses_with_and_without_a_token_conform_to_the_description(
    serve: Serve, secured: Settings, grant: Grant, tmp_path: Path
) -> None:
    """Of each accepted request, `ignored_auth` checks that it is 401 without a valid token."""
    api = await serve(settings=secured)
    outputs = await asyncio.gather(
        asyncio.to_thread(run, api.origin, f"Bearer {await grant('write')}", tmp_path / "with"),
        asyncio.to_thread(run, api.origin, "Basic Z3JhY2U6aG9wcGVy", tmp_path / "without"),
    )
    for output in outputs:
        assert "Tested: 19" in output, output  # all operations of the description
