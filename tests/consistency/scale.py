"""How long the tests of this package run."""

from __future__ import annotations

import os

SCALE = int(os.environ.get("CONSISTENCY_SCALE", "1"))
"""The factor of the number of steps and requests."""
