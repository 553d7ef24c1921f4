"""Compact sets of ids."""

from hypothesis import given
from hypothesis import strategies as st

from registry.compound import IdBitset
from tests.support import traced_memory

IDS = st.one_of(st.integers(-3_000, 3_000), st.integers(-(2**63), 2**63 - 1))


@given(st.lists(IDS), st.lists(IDS))
def test_a_bitset_contains_the_added_ids_and_yields_them_in_ascending_order(
    added: list[int], others: list[int]
) -> None:
    ids = IdBitset()
    ids.update(added)
    assert list(ids) == sorted(set(added))
    assert all(number in ids for number in added)
    assert [number in ids for number in others] == [number in set(added) for number in others]


def test_consecutive_ids_take_about_a_bit_each() -> None:
    with traced_memory() as size:
        ids = IdBitset()
        ids.update(range(100_000))
        assert size() < 100_000  # the bits are 12 KiB; a set of integers takes over 6 MiB
