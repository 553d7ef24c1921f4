"""An order of requests is found for consistent responses, and for no others."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.consistency.linearization import Call, Request, State, Write, explanation
from tests.consistency.model import Identity, Model

FIRST, SECOND = ("person", 1), ("person", 2)


def shown(identity: Identity, name: str) -> dict[str, Any]:
    return {"type": identity[0], "id": str(identity[1]), "attributes": {"last_name": name}}


def read(start: float, name: str, version: int) -> Call:
    """Return a read of the first person, which takes a second."""
    request = Request("GET", "/persons/1", target=FIRST, shown=lambda _: [FIRST])
    return Call(request, start, start + 1, 200, {"data": shown(FIRST, name)}, f'"{version}-0"')


def listed(start: float, *names: str) -> Call:
    """Return a read of both persons."""
    people = FIRST, SECOND
    data = [shown(identity, name) for identity, name in zip(people, names, strict=True)]
    request = Request("GET", "/persons", shown=lambda _: people)
    return Call(request, start, start + 1, 200, {"data": data}, "")


def rename(start: float, name: str, version: int, identity: Identity = FIRST, **more: str) -> Call:
    """Return a change of a name. version: the one after it. more: `condition`, a version."""
    headers = {"If-Match": f'"{more["condition"]}-0"'} if more else {}
    write = Write("update", identity, {"last_name": name})
    request = Request(
        "PATCH", "", target=identity, writes=[write], shown=lambda _: [identity], headers=headers
    )
    return Call(request, start, start + 1, 200, {"data": shown(identity, name)}, f'"{version}-0"')


def is_explained(calls: Sequence[Call]) -> bool:
    model = Model()
    for identity in (FIRST, SECOND):
        model.create(identity, {"first_name": "-", "last_name": "a"})
    return explanation(State(model), [[call] for call in calls]) is not None


@pytest.mark.parametrize(
    ("calls", "is_consistent"),
    [
        ([rename(0, "b", 2), read(0.5, "a", 1), read(2, "b", 2)], True),
        ([rename(0, "b", 2), read(2, "a", 1)], False),
        ([rename(0, "b", 2), read(0.5, "b", 2), read(2, "a", 1)], False),
        ([rename(0, "b", 2), rename(0, "c", 2)], False),
        ([rename(0, "b", 3), rename(0, "c", 2), read(2, "b", 3)], True),
        ([rename(0, "b", 3), rename(0, "c", 2), read(2, "c", 2)], False),
        ([read(0, "a", 1), rename(2, "b", 2, condition="1")], True),
        (
            [read(0, "a", 1), *(rename(2, name, 2, condition="1") for name in "bc")],
            False,
        ),
        ([rename(0, "b", 2), rename(2, "c", 2, SECOND), listed(1, "b", "a")], True),
        ([rename(0, "b", 2), rename(2, "c", 2, SECOND), listed(1, "a", "c")], False),
    ],
)
def test_only_consistent_responses_have_an_order(
    calls: Sequence[Call], is_consistent: bool
) -> None:
    assert is_explained(calls) is is_consistent
