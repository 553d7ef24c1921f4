"""What queries have recently found about sets of records."""

import time
from collections.abc import Hashable

_SECONDS = 10.0
"""How long a hint is remembered: to find out again takes as long as a page."""

_MAX_HINTS = 1_000
"""Hints that are remembered, as clients choose the values in them."""


class PlanHints:
    """Remembers what recent queries found about sets of records.

    So the next ones begin with the better plan. key: what names the set, and what was found, such
    as that it is large. No result depends on it: each plan finds the records of all sets.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def has(self, key: Hashable) -> bool:
        """Whether the hint was added in the last _SECONDS."""
        return time.monotonic() < self._until.get(hash(key), 0.0)

    def add(self, key: Hashable) -> None:
        """Add a hint."""
        name = hash(key)  # the keys themselves may be long
        self._until.pop(name, None)
        self._until[name] = time.monotonic() + _SECONDS
        if len(self._until) > _MAX_HINTS:
            del self._until[next(iter(self._until))]
