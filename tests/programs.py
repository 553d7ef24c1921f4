"""Programs that some tests need."""

from __future__ import annotations

import os
import shutil

import pytest


def required_program(name: str, consequence: str) -> str:
    """Return the path of a program; skip the test without it, or fail where all are installed."""
    path = shutil.which(name)
    if path is None:
        reason = f"{name} IS NOT INSTALLED: {consequence}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path
