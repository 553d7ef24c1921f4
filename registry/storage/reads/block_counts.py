"""Order statistics of integers: how many there are, and which one is at a position."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple


class Place(NamedTuple):
    """The range in which the integer at a position of the set is: from `first` to `last`.

    before, after: how many other integers of the set are in the range, below and above that one.
    """

    first: int
    last: int
    before: int
    after: int


class BlockCounts:
    """How many integers of a set are in each block of adjacent ones.

    size: integers per block. counts: by the first integer of each block; blocks that are not there
    are empty.
    """

    def __init__(self, size: int, counts: Mapping[int, int]) -> None:
        self._size = size
        self._counts = dict(counts)
        self._starts = sorted(counts)
        # The integers up to the end of each block; of the last ones, only where it is needed.
        self._cumulative: list[int] = []
        self.total = sum(counts.values())

    def __len__(self) -> int:
        """Return the number of blocks that are not empty."""
        return len(self._starts)

    def change(self, number: int, by: int) -> None:
        """Add an integer that is not in the set (1), or remove one that is (-1)."""
        start = number - number % self._size
        index = bisect_left(self._starts, start)
        count = self._counts.get(start, 0) + by
        if count == by:
            self._starts.insert(index, start)
        self._counts[start] = count
        if not count:
            del self._counts[start], self._starts[index]
        del self._cumulative[index:]
        self.total += by

    def place(self, position: int) -> Place:
        """Return where the integer at a position is. position: in ascending order, below `total`.

        In a block without gaps the place is exact.
        """
        self._accumulate()
        index = bisect_right(self._cumulative, position)
        start = self._starts[index]
        count, after = self._counts[start], self._cumulative[index] - position - 1
        before = count - after - 1
        if count == self._size:
            return Place(start + before, start + before, 0, 0)
        return Place(start, start + self._size - 1, before, after)

    def _accumulate(self) -> None:
        cumulative = self._cumulative
        known = len(cumulative)
        if known < len(self._starts):
            counts = map(self._counts.__getitem__, self._starts[known:])
            cumulative += list(accumulate(counts, initial=cumulative[-1] if known else 0))[1:]
