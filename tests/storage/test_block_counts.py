"""Order statistics of integers, compared with a sorted list."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest

from registry.model.record import MAX_ID
from registry.storage.reads.id_index import BlockCounts


def check(counts: BlockCounts, numbers: list[int]) -> None:
    assert counts.total == len(numbers)
    for position, number in enumerate(numbers):
        first, last, before, after = counts.place(position)
        assert first <= number <= last
        start, end = bisect_left(numbers, first), bisect_left(numbers, last + 1)
        assert (before, after) == (position - start, end - position - 1)


@pytest.mark.parametrize(
    "numbers",
    [range(1, 100), range(-70, 70), range(0, 5_000, 37), range(MAX_ID - 90, MAX_ID + 1)],
    ids=["dense", "negative", "sparse", "largest"],
)
@pytest.mark.parametrize("size", [1, 8, 64])
def test_each_position_is_found_while_integers_come_and_go(numbers: range, size: int) -> None:
    choose, counts, present = random.Random(7), BlockCounts(size, {}), set[int]()  # noqa: S311 - the same ones
    check(counts, [])
    for _ in range(12):
        for number in choose.sample(numbers, 30):
            counts.change(number, -1 if number in present else 1)
            present ^= {number}
        check(counts, sorted(present))
    for number in present:
        counts.change(number, -1)
    assert len(counts) == counts.total == 0


def test_a_place_in_a_block_without_gaps_is_exact() -> None:
    counts = BlockCounts(8, {-8: 8, 0: 7, 8: 8})
    assert counts.place(5) == (-3, -3, 0, 0)
    assert counts.place(8) == (0, 7, 0, 6)
    assert counts.place(14) == (0, 7, 6, 0)
    assert counts.place(22) == (15, 15, 0, 0)
