"""Ids of resources, very many of them in little memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_BITS = 10
"""An id is a bit in a number that stands for 1024 of them; counters give ids that lie so close."""

_MASK = (1 << _BITS) - 1


class IdBitset:
    """A set of ids, which takes about a bit for each where none are left out."""

    def __init__(self) -> None:
        self._pages: dict[int, int] = {}

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and bool(
            self._pages.get(number >> _BITS, 0) >> (number & _MASK) & 1
        )

    def __iter__(self) -> Iterator[int]:
        """Yield the ids, rising."""
        for place in sorted(self._pages):
            page = self._pages[place]
            while page:
                lowest = page & -page
                yield (place << _BITS) + lowest.bit_length() - 1
                page ^= lowest

    def update(self, numbers: Iterable[int]) -> None:
        """Add ids; what other tools have stored in their place may be none, and is left out."""
        for number in numbers:
            if isinstance(number, int):
                place = number >> _BITS
                self._pages[place] = self._pages.get(place, 0) | 1 << (number & _MASK)
