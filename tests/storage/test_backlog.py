"""The backlog: when maintenance adds records to text blocks."""

from __future__ import annotations

import asyncio

import pytest

from registry.storage.text_blocks import BLOCK_SIZE, Backlog


async def fills_block(backlog: Backlog) -> bool:
    try:
        async with asyncio.timeout(0):
            await backlog.fills_block()
    except TimeoutError:
        return False
    return True


def write(backlog: Backlog, count: int) -> None:
    for _ in range(count):
        backlog.written()


async def test_maintenance_waits_until_the_written_records_fill_a_block() -> None:
    backlog = Backlog()
    write(backlog, BLOCK_SIZE - 1)
    assert not await fills_block(backlog)
    write(backlog, 1)
    assert await fills_block(backlog)
    write(backlog, BLOCK_SIZE - 1)
    assert not await fills_block(backlog)


@pytest.mark.parametrize(("count", "expected"), [(BLOCK_SIZE - 1, False), (BLOCK_SIZE, True)])
async def test_maintenance_waits_until_a_search_finds_a_block_of_records(
    count: int, expected: bool
) -> None:
    backlog = Backlog()
    backlog.found_outside(count)
    assert await fills_block(backlog) is expected


async def test_what_is_written_while_maintenance_works_is_not_forgotten() -> None:
    backlog = Backlog()
    write(backlog, BLOCK_SIZE)
    await backlog.fills_block()
    write(backlog, BLOCK_SIZE)
    assert await fills_block(backlog)
