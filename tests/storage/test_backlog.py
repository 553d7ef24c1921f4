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


@pytest.mark.parametrize(("count", "expected"), [(BLOCK_SIZE - 1, False), (BLOCK_SIZE, True)])
async def test_maintenance_waits_until_a_search_finds_a_block_of_records(
    count: int, expected: bool
) -> None:
    backlog = Backlog()
    backlog.found_outside(count)
    assert await fills_block(backlog) is expected
