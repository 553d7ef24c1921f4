"""Chromium, as the tests of pages start it."""

from __future__ import annotations

from typing import Any

from tests.programs import required_program

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

PATIENCE = 60_000
"""Milliseconds within which a page shows something; by default too few for a busy machine."""


def launch_options() -> dict[str, Any]:
    """Return the options by which Playwright starts Chromium. Skips the test without it."""
    program = required_program("chromium", "chromium-browser", "google-chrome", "chrome")
    return {"executable_path": program, "args": ARGUMENTS}
