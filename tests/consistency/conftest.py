"""The fixture that runs the service in a process."""

from tests.system.conftest import start

__all__ = ["start"]
