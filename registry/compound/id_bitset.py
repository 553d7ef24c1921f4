"""A compact set of ids, for the resources of large compound documents."""

from collections.abc import Iterable, Iterator

_PAGE_BITS = 10
"""A page holds 2 ** 10 ids as bits of one integer. Assigned ids are dense, so few pages exist."""

_OFFSET_MASK = (1 << _PAGE_BITS) - 1


class IdBitset:
    """A set of ids that takes about one bit per id where they are consecutive."""

    def __init__(self) -> None:
        self._pages: dict[int, int] = {}

    def __contains__(self, id_: int) -> bool:
        return bool(self._pages.get(id_ >> _PAGE_BITS, 0) >> (id_ & _OFFSET_MASK) & 1)

    def __iter__(self) -> Iterator[int]:
        """Yield the ids in ascending order."""
        for index in sorted(self._pages):
            page = self._pages[index]
            while page:
                lowest = page & -page
                yield (index << _PAGE_BITS) + lowest.bit_length() - 1
                page ^= lowest

    def update(self, ids: Iterable[int]) -> None:
        """Add ids."""
        for id_ in ids:
            index = id_ >> _PAGE_BITS
            self._pages[index] = self._pages.get(index, 0) | 1 << (id_ & _OFFSET_MASK)
