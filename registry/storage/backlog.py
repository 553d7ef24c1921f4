"""The backlog: what maintenance has yet to do in the background."""

import asyncio
from collections import Counter

MANY_OUTSIDE = 1_024
"""Records outside text blocks that a search finds before maintenance adds them. A search compares
this many in 2 ms."""

MANY_WRITTEN = 8_192
"""Records outside text blocks before maintenance adds them even if nobody searches. A lower number
would add a record that is written often again and again."""

TOO_MANY_WRITTEN = 16_384
"""Records outside text blocks before it is urgent to add them. A search compares this many in 35
ms; it does not compare more than 20,000."""


class Backlog:
    """The indexes and text blocks that are not complete, as far as this process knows.

    unindexed: the types without all of their indexes.
    """

    def __init__(self) -> None:
        self.unindexed: set[str] = set()
        self._outside = Counter[str]()
        self._requested: set[str] = set()
        self._searched: set[str] = set()
        self._has_many = asyncio.Event()

    def written(self, type_name: str) -> None:
        """Report a record that may have left its text block."""
        self._outside[type_name] += 1
        if self._outside[type_name] >= MANY_WRITTEN:
            self._request(type_name)

    def found_outside(self, type_name: str, count: int) -> None:
        """Report how many records outside text blocks a search has found."""
        self._outside[type_name] = count
        if count >= MANY_OUTSIDE:
            self._searched.add(type_name)
            self._request(type_name)

    def is_urgent(self) -> bool:
        """Whether to add records faster, at the expense of requests.

        A search has found many records outside, or many more were written than added.
        """
        return bool(self._searched) or max(self._outside.values(), default=0) >= TOO_MANY_WRITTEN

    def added(self, type_name: str, count: int) -> None:
        """Report records that were added to text blocks."""
        self._outside[type_name] = max(0, self._outside[type_name] - count)

    def caught_up(self, type_name: str) -> None:
        """Report that all records of a type that searches have found outside have been added."""
        self._searched.discard(type_name)

    async def next_types(self) -> list[str]:
        """Wait until many records of some types are outside; return and forget these types."""
        await self._has_many.wait()
        self._has_many.clear()
        types, self._requested = self._requested, set()
        for name in types:
            del self._outside[name]
        return sorted(types)

    def _request(self, type_name: str) -> None:
        self._requested.add(type_name)
        self._has_many.set()
