"""What the scopes of a principal allow."""

from __future__ import annotations

import pytest

from registry.access.principal import Action, Principal, sufficient_scopes
from registry.resources.computer import computer
from registry.resources.person import person


@pytest.mark.parametrize(
    ("scope", "reads_persons", "writes_persons", "reads_computers"),
    [
        ("read", True, False, True),
        ("write", True, True, True),
        ("persons:read", True, False, False),
        ("persons:write", True, True, False),
        ("computers:write", False, False, True),
        ("person:read", False, False, False),
        ("persons", False, False, False),
        ("", False, False, False),
    ],
)
def test_a_scope_allows_an_action_on_a_type(
    scope: str, *, reads_persons: bool, writes_persons: bool, reads_computers: bool
) -> None:
    principal = Principal("ci", frozenset({scope}))

    assert principal.has_one_of(sufficient_scopes(Action.READ, person)) is reads_persons
    assert principal.has_one_of(sufficient_scopes(Action.WRITE, person)) is writes_persons
    assert principal.has_one_of(sufficient_scopes(Action.READ, computer)) is reads_computers


def test_an_action_on_all_types_requires_a_scope_for_all() -> None:
    assert sufficient_scopes(Action.READ, None) == ("read", "write")
    assert sufficient_scopes(Action.WRITE, None) == ("write",)
