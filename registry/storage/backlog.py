"""The backlog: what maintenance in the background has still to do."""

import asyncio
from collections import Counter

MANY_OUTSIDE = 1_024
"""Records outside text blocks from which on maintenance adds them; a search compares so many in
2 ms."""


class Backlog:
    """The indexes and text blocks that are not complete, as far as this process knows.

    unindexed: the types without all of their indexes.
    """

    def __init__(self) -> None:
        self.unindexed: set[str] = set()
        self._outside = Counter[str]()
        self._has_many = asyncio.Event()

    def written(self, type_name: str, count: int = 1) -> None:
        """Report records that may have left their text blocks."""
        self._outside[type_name] += count
        if self._outside[type_name] >= MANY_OUTSIDE:
            self._has_many.set()

    def found_outside(self, type_name: str, count: int) -> None:
        """Report how many records outside text blocks there are."""
        self._outside[type_name] = 0
        self.written(type_name, count)

    async def types(self) -> list[str]:
        """Wait until there are types of which many records are outside; return and forget them."""
        await self._has_many.wait()
        self._has_many.clear()
        types = [name for name, count in self._outside.items() if count >= MANY_OUTSIDE]
        for name in types:
            del self._outside[name]
        return types
