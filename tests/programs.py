"""Programs that some tests need."""

from __future__ import annotations

import os
import shutil

import pytest


def required_program(*names: str) -> str:
    """Return the path of a program; skip the test without it, or fail where all are installed.

    names: under which systems have it.
    """
    for name in names:
        if path := shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin"):
            return path
    reason = f"{names[0]} IS NOT INSTALLED"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
