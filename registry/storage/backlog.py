"""The backlog: what maintenance has yet to do in the background."""

import asyncio

from registry.storage.text_blocks import BLOCK_SIZE


class Backlog:
    """The indexes and text blocks that are not complete, as far as this process knows.

    unindexed: the types without all of their indexes.
    """

    def __init__(self) -> None:
        self.unindexed: set[str] = set()
        self._written = 0
        self._fills_block = asyncio.Event()

    def written(self) -> None:
        """Report a record that may have left its text block."""
        self._written += 1
        self.found_outside(self._written)

    def found_outside(self, count: int) -> None:
        """Report how many records outside text blocks a search has found."""
        if count >= BLOCK_SIZE:
            self._fills_block.set()

    async def fills_block(self) -> None:
        """Wait until as many records are outside as fill a text block; forget their number."""
        await self._fills_block.wait()
        self._fills_block.clear()
        self._written = 0
