"""Which sets of records are remembered as large."""

import pytest

from registry.storage.reads import large_sets
from registry.storage.reads.large_sets import LargeSets


def test_a_set_is_large_once_it_was_added() -> None:
    sets = LargeSets()
    assert not sets.has("a")
    sets.add("a")
    assert sets.has("a")
    assert not sets.has("b")


def test_a_set_is_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = LargeSets()
    monkeypatch.setattr(large_sets, "_SECONDS", 0.0)
    sets.add("a")
    assert not sets.has("a")


def test_of_too_many_sets_the_one_added_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_sets, "_MAX_SETS", 2)
    sets = LargeSets()
    for key in ("a", "b", "a", "c"):
        sets.add(key)
    assert [key for key in ("a", "b", "c") if sets.has(key)] == ["a", "c"]
