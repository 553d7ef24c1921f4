"""The index of ids in memory: how many there are, and which one is at a position.

To count a million records takes 270 ms of mongod, and to skip them as well.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from bson.timestamp import Timestamp
from pymongo.errors import PyMongoError

from registry.capacity import POSITIONS
from registry.storage.mongo.batching import Batcher
from registry.storage.mongo.change_streams import ChangeStream, ChangesUnavailable
from registry.storage.mongo.read_commands import Command, ReadCommands
from registry.storage.reads.block_counts import BlockCounts, Place

_MIN_BLOCK_BITS = 8
"""A block has 256 ids or more. If it has gaps, a page skips half of it on average."""

_MAX_BLOCKS = 65_536
"""The number of blocks after loading: with many ids, or ids far apart, blocks are larger."""

_MAX_GROWTH = 4
"""The growth of the number of blocks after which the index is loaded again."""

_LOAD_MILLISECONDS = 300_000
"""The time limit of loading: MongoDB keeps the snapshots of five minutes by default."""

_MIN_EVENTS, _RECORDS_PER_EVENT = 10_000, 10
"""More changes than this take longer to read than the collection: one takes as long as ten
records."""

_MIN_OPEN_SECONDS = 0.1
"""The time limit to read the changes since the last request; that of loading if it is longer."""

_POLL_SECONDS, _IDLE_SECONDS = 1.0, 10.0
"""How often changes are read between requests, and for how long after the last one."""

_MAX_WAIT_SECONDS = 2.0
"""How long to wait for loading, which takes 0.8 s per million ids, before records are counted."""

_CLOSE_SECONDS = 1.0
"""How long the service, when it ends, waits for loading in order to close the change stream."""

_RETRY_SECONDS = 60.0
"""How long the index is not used after its changes could not be read."""


class IdPosition(NamedTuple):
    """A position in the order of the ids, counted from 0."""

    offset: int
    descending: bool


class Located(NamedTuple):
    """The record at a position. total: of all records. time: of the snapshot with this state.

    place: where its id is; None beyond the last record, and if some ids are not integers.
    """

    total: int
    time: Timestamp
    place: Place | None


class _Loaded(NamedTuple):
    """The ids at the time of the stream: counts of integers, and the number of other ids.

    seconds: how long they took to load.
    """

    counts: BlockCounts
    non_integers: int
    stream: ChangeStream
    seconds: float


class IdIndex:
    """The ids of one collection, counted per block of adjacent ones.

    It is loaded by one scan of the ids in a snapshot, then kept up to date by a change stream: so
    it is exact whichever process writes, even if one crashes. Nothing is persisted that could
    become wrong.

    A cluster of shards has none: a change stream there waits until each shard has had a write or,
    by default, ten seconds have passed.
    """

    def __init__(self, commands: ReadCommands, collection: str) -> None:
        self._commands = commands
        self._collection = collection
        self._loaded: _Loaded | None = None
        self._lock = asyncio.Lock()
        self._is_quiet = False  # there were no writes between the last two requests
        self._called_at = self._retry_at = 0.0
        self._polling: asyncio.Task[None] | None = None
        # A batch is not cancelled with its callers: a later one would have to load it all again.
        self._batcher = Batcher(self._locate_batch, name="positions", limits=POSITIONS)

    def expect(self, position: IdPosition) -> Located | None:
        """Return what was at a position; None if writes since then are likely.

        It is right if a snapshot that is not older than the request has the same time. A page that
        is read on this assumption takes a round trip less.
        """
        if not self._loaded or not self._is_quiet:
            return None
        self._called_at = time.monotonic()
        return _locate(self._loaded, position)

    async def locate(self, position: IdPosition) -> Located | None:
        """Return what is at a position, in a snapshot that is not older than the call.

        None if loading takes long, or MongoDB does not report the changes. Raises PyMongoError.
        """
        self._called_at = time.monotonic()
        if self._called_at < self._retry_at or self._commands.is_sharded:
            return None
        located = None
        with suppress(TimeoutError):
            async with asyncio.timeout(None if self._loaded else _MAX_WAIT_SECONDS):
                located = await self._batcher.load(position)
        if located and (self._polling is None or self._polling.done()):
            self._polling = asyncio.create_task(self._poll())
        return located

    async def close(self) -> None:
        """Stop reading changes."""
        if self._polling:
            self._polling.cancel()
            await asyncio.wait([self._polling], timeout=_CLOSE_SECONDS)

    async def _poll(self) -> None:
        """Read changes between requests too, so that the next one has to read few."""
        try:
            with suppress(PyMongoError):  # raised to the next caller, if it persists
                while time.monotonic() < self._called_at + _IDLE_SECONDS:
                    await asyncio.sleep(_POLL_SECONDS)
                    await self._batcher.load(IdPosition(0, descending=False))
        finally:
            async with self._lock:
                if self._loaded:
                    await self._loaded.stream.close()

    async def _locate_batch(self, positions: Sequence[IdPosition]) -> Sequence[Located | None]:
        async with self._lock:
            for _ in range(2):
                try:
                    loaded = await self._at_present()
                except ChangesUnavailable:
                    await self._forget()
                else:
                    return [_locate(loaded, position) for position in positions]
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            return [None] * len(positions)

    async def _at_present(self) -> _Loaded:
        """Return the ids in the latest snapshot, or in a later one."""
        loaded = self._loaded or await self._load()
        now = await self._commands.now()
        # After loading, always read: MongoDB may refuse it, and each request would load again.
        self._is_quiet = self._loaded is not None and now <= loaded.stream.time
        if self._is_quiet:
            return loaded
        counts, non_integers = loaded.counts, loaded.non_integers
        max_events = _MIN_EVENTS + counts.total // _RECORDS_PER_EVENT
        seconds = max(loaded.seconds, _MIN_OPEN_SECONDS)
        self._loaded = loaded
        changes = await loaded.stream.read(now, max_events, seconds)
        for id_, change in changes.items():
            if id_ is None:
                non_integers += change
            elif change:
                counts.change(id_, change)
        if len(counts) > _MAX_GROWTH * _MAX_BLOCKS:
            raise ChangesUnavailable
        self._loaded = loaded._replace(non_integers=non_integers)
        return self._loaded

    async def _load(self) -> _Loaded:
        started, now = time.monotonic(), await self._commands.now()
        size = await self._block_size(now)
        found = await self._commands.run(_count_blocks(self._collection, size), now)
        counts = {group["_id"]: group["records"] for group in found.records}
        non_integers = counts.pop(None, 0)
        stream = self._commands.changes(self._collection, now)
        return _Loaded(BlockCounts(size, counts), non_integers, stream, time.monotonic() - started)

    async def _block_size(self, now: Timestamp) -> int:
        integers, ends = {"_id": {"$type": ["int", "long"]}}, []
        for direction in (1, -1):
            options = {"sort": {"_id": direction}, "limit": 1}
            found = await self._commands.find(
                self._collection, integers, {"_id": True}, now, **options
            )
            ends += [record["_id"] for record in found.records]
        if not ends:
            return 1 << _MIN_BLOCK_BITS
        least, greatest = map(int, ends)
        bits = ((greatest - least) // _MAX_BLOCKS).bit_length()
        return 1 << max(_MIN_BLOCK_BITS, bits)

    async def _forget(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded:
            await loaded.stream.close()


def _count_blocks(collection: str, size: int) -> Command:
    """Return the command that counts the records of each block by its first id, others by None."""
    remainder = {"$mod": ["$_id", size]}  # has the sign of the id
    start = {"$subtract": ["$_id", {"$mod": [{"$add": [remainder, size]}, size]}]}
    is_integer = {"$in": [{"$type": "$_id"}, ["int", "long"]]}
    group = {"_id": {"$cond": [is_integer, start, None]}, "records": {"$sum": 1}}
    return {
        "aggregate": collection,
        "pipeline": [{"$sort": {"_id": 1}}, {"$group": group}],
        "cursor": {"batchSize": 2 * _MAX_BLOCKS},
        "maxTimeMS": _LOAD_MILLISECONDS,
    }


def _locate(loaded: _Loaded, position: IdPosition) -> Located:
    counts, total = loaded.counts, loaded.counts.total + loaded.non_integers
    place = None
    if position.offset < total and not loaded.non_integers:
        is_reversed = position.descending
        place = counts.place(total - 1 - position.offset if is_reversed else position.offset)
    return Located(total, loaded.stream.time, place)
