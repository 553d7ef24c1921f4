"""Sets of records that have recently turned out to be large."""

import time
from collections.abc import Hashable

_SECONDS = 10.0
"""How long a set is taken to be large: to find out again takes as long as a page."""

_MAX_SETS = 1_000
"""Sets that are remembered, as clients choose the values that name them."""


class LargeSets:
    """Remembers which sets of records are large, so that their queries begin with another plan.

    key: what names the set. No result depends on it: a plan finds the records of sets of any size.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def has(self, key: Hashable) -> bool:
        """Whether the set was added in the last _SECONDS."""
        return time.monotonic() < self._until.get(hash(key), 0.0)

    def add(self, key: Hashable) -> None:
        """Add a set."""
        name = hash(key)  # the keys themselves may be long
        self._until.pop(name, None)
        self._until[name] = time.monotonic() + _SECONDS
        if len(self._until) > _MAX_SETS:
            del self._until[next(iter(self._until))]
