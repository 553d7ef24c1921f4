"""The backlog: when maintenance adds records to text blocks."""

from __future__ import annotations

import asyncio

import pytest

from registry.storage.backlog import MANY_OUTSIDE, MANY_WRITTEN, TOO_MANY_WRITTEN, Backlog


def write(backlog: Backlog, count: int) -> None:
    for _ in range(count):
        backlog.written("person")


async def types_of(backlog: Backlog) -> list[str]:
    async with asyncio.timeout(0.01):
        return await backlog.next_types()


async def test_maintenance_begins_after_many_writes() -> None:
    backlog = Backlog()
    write(backlog, MANY_WRITTEN - 1)
    with pytest.raises(TimeoutError):
        await types_of(backlog)
    backlog.written("person")
    backlog.written("computer")
    assert await types_of(backlog) == ["person"]
    with pytest.raises(TimeoutError):
        await types_of(backlog)


async def test_maintenance_begins_after_fewer_writes_if_a_search_has_found_them() -> None:
    backlog = Backlog()
    write(backlog, MANY_OUTSIDE)
    backlog.found_outside("person", MANY_OUTSIDE - 1)
    with pytest.raises(TimeoutError):
        await types_of(backlog)
    backlog.found_outside("person", MANY_OUTSIDE)
    backlog.found_outside("computer", MANY_OUTSIDE)
    assert await types_of(backlog) == ["computer", "person"]


async def test_maintenance_is_urgent_until_it_has_added_what_a_search_has_found() -> None:
    backlog = Backlog()
    write(backlog, MANY_WRITTEN)
    assert await types_of(backlog) == ["person"]
    assert not backlog.is_urgent()
    backlog.found_outside("person", MANY_OUTSIDE)
    assert backlog.is_urgent()
    assert await types_of(backlog) == ["person"]
    backlog.caught_up("computer")
    assert backlog.is_urgent()
    backlog.caught_up("person")
    assert not backlog.is_urgent()


async def test_maintenance_is_urgent_while_it_is_far_behind() -> None:
    backlog = Backlog()
    write(backlog, TOO_MANY_WRITTEN + 99)
    backlog.added("person", 100)
    assert not backlog.is_urgent()
    backlog.written("person")
    assert backlog.is_urgent()
    backlog.added("person", 2 * TOO_MANY_WRITTEN)  # also those that were not written here
    assert not backlog.is_urgent()
    write(backlog, TOO_MANY_WRITTEN - 1)
    assert not backlog.is_urgent()
