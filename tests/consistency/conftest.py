"""The fixture that runs the service in a process."""

from __future__ import annotations

from tests.system.conftest import start

__all__ = ["start"]
