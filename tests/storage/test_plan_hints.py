"""Which hints are remembered."""

import pytest

from registry.storage.reads import plan_hints
from registry.storage.reads.plan_hints import PlanHints


def test_a_hint_is_known_once_it_was_added() -> None:
    hints = PlanHints()
    assert not hints.has("a")
    hints.add("a")
    assert hints.has("a")
    assert not hints.has("b")


def test_a_hint_is_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    hints = PlanHints()
    monkeypatch.setattr(plan_hints, "_SECONDS", 0.0)
    hints.add("a")
    assert not hints.has("a")


def test_of_too_many_hints_the_one_added_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan_hints, "_MAX_HINTS", 2)
    hints = PlanHints()
    for key in ("a", "b", "a", "c"):
        hints.add(key)
    assert [key for key in ("a", "b", "c") if hints.has(key)] == ["a", "c"]
