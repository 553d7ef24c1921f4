"""The index of ids in memory: how many there are, and which one is at a position.

To count a million records takes 270 ms of mongod, and to skip them as well.
"""

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

from bson.timestamp import Timestamp
from pymongo.errors import PyMongoError

from registry.capacity import POSITIONS
from registry.storage.mongo.batching import Batcher
from registry.storage.mongo.change_streams import ChangesUnavailable, IdChanges
from registry.storage.mongo.read_commands import (
    Command,
    ReadCommands,
    aggregate_command,
    find_command,
)
from registry.storage.records import Stage, projection

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


class Place(NamedTuple):
    """A range of integers, `first` to `last`, that has the one at a position of a set.

    before, after: how many others of the set are in the range, below and above that one.
    """

    first: int
    last: int
    before: int
    after: int


class PositionResult(NamedTuple):
    """The record at a position. total: of all records. time: of the snapshot with this state.

    place: where its id is; None beyond the last record.
    """

    total: int
    time: Timestamp
    place: Place | None


class BlockCounts:
    """How many integers of a set are in each block of adjacent ones.

    size: integers per block. counts: by the first integer of each block; blocks that are not there
    are empty.
    """

    def __init__(self, size: int, counts: Mapping[int, int]) -> None:
        self._size = size
        self._counts = dict(counts)
        self._starts = sorted(counts)
        # The integers up to the end of each block; of the last ones, only where it is needed.
        self._cumulative: list[int] = []
        self.total = sum(counts.values())

    def __len__(self) -> int:
        """Return the number of blocks that are not empty."""
        return len(self._starts)

    def change(self, number: int, by: int) -> None:
        """Add an integer that is not in the set (1), or remove one that is (-1)."""
        start = number - number % self._size
        index = bisect_left(self._starts, start)
        count = self._counts.get(start, 0) + by
        if count == by:
            self._starts.insert(index, start)
        self._counts[start] = count
        if not count:
            del self._counts[start], self._starts[index]
        del self._cumulative[index:]
        self.total += by

    def place(self, position: int) -> Place:
        """Return where the integer at a position is. position: in ascending order, below `total`.

        In a block without gaps the place is exact.
        """
        self._accumulate()
        index = bisect_right(self._cumulative, position)
        start = self._starts[index]
        count, after = self._counts[start], self._cumulative[index] - position - 1
        before = count - after - 1
        if count == self._size:
            return Place(start + before, start + before, 0, 0)
        return Place(start, start + self._size - 1, before, after)

    def _accumulate(self) -> None:
        cumulative = self._cumulative
        known = len(cumulative)
        if known < len(self._starts):
            counts = map(self._counts.__getitem__, self._starts[known:])
            cumulative += list(accumulate(counts, initial=cumulative[-1] if known else 0))[1:]


class _Loaded(NamedTuple):
    """The ids at the time of the stream. seconds: how long they took to load."""

    counts: BlockCounts
    stream: IdChanges
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
        self._batcher = Batcher(self._read_batch, name="positions", limits=POSITIONS)

    def expected(self, position: IdPosition) -> PositionResult | None:
        """Return what was at a position; None if writes since then are likely.

        Valid only if the page is then read at this same time, which takes a round trip less.
        """
        if not self._loaded or not self._is_quiet:
            return None
        self._called_at = time.monotonic()
        return _result_at(self._loaded, position)

    async def read(self, position: IdPosition) -> PositionResult | None:
        """Return what is at a position, in a snapshot that is not older than the call.

        None if loading takes long, MongoDB does not report the changes, or an id is not an integer.
        Raises PyMongoError.
        """
        self._called_at = time.monotonic()
        if self._called_at < self._retry_at or self._commands.is_sharded:
            return None
        result = None
        with suppress(TimeoutError):
            async with asyncio.timeout(None if self._loaded else _MAX_WAIT_SECONDS):
                result = await self._batcher.load(position)
        if result and (self._polling is None or self._polling.done()):
            self._polling = asyncio.create_task(self._poll())
        return result

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

    async def _read_batch(self, positions: Sequence[IdPosition]) -> Sequence[PositionResult | None]:
        async with self._lock:
            for _ in range(2):
                try:
                    loaded = await self._update()
                except ChangesUnavailable:
                    await self._forget()
                else:
                    return [_result_at(loaded, position) for position in positions]
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            return [None] * len(positions)

    async def _update(self) -> _Loaded:
        """Load the ids, or apply the changes since the last call; return them as of now or later.

        Raises ChangesUnavailable or PyMongoError.
        """
        loaded = self._loaded or await self._load()
        now = await self._commands.now()
        # After loading, always read: MongoDB may refuse it, and each request would load again.
        self._is_quiet = self._loaded is not None and now <= loaded.stream.time
        if self._is_quiet:
            return loaded
        counts = loaded.counts
        max_events = _MIN_EVENTS + counts.total // _RECORDS_PER_EVENT
        seconds = max(loaded.seconds, _MIN_OPEN_SECONDS)
        self._loaded = loaded
        changes = await loaded.stream.read(now, max_events, seconds)
        for id_, change in changes.items():
            if change:
                counts.change(id_, change)
        if len(counts) > _MAX_GROWTH * _MAX_BLOCKS:
            raise ChangesUnavailable
        return loaded

    async def _load(self) -> _Loaded:
        started, now = time.monotonic(), await self._commands.now()
        size = await self._block_size(now)
        found = await self._commands.run(_count_blocks(self._collection, size), now)
        counts = {group["_id"]: group["records"] for group in found.records}
        if None in counts:
            raise ChangesUnavailable
        stream = IdChanges(self._commands.database, self._collection, now)
        return _Loaded(BlockCounts(size, counts), stream, time.monotonic() - started)

    async def _block_size(self, now: Timestamp) -> int:
        integers, ends = {"_id": {"$type": ["int", "long"]}}, list[int]()
        for direction in (1, -1):
            sort = {"_id": direction}
            command = find_command(self._collection, integers, projection(()), sort=sort, limit=1)
            found = await self._commands.run(command, now)
            ends += [record["_id"] for record in found.records]
        if not ends:
            return 1 << _MIN_BLOCK_BITS
        least, greatest = ends
        bits = ((greatest - least) // _MAX_BLOCKS).bit_length()
        return 1 << max(_MIN_BLOCK_BITS, bits)

    async def _forget(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded:
            await loaded.stream.close()


def _count_blocks(collection: str, size: int) -> Command:
    """Return the command that counts the records of each block by its first id.

    Those whose ids are not integers are counted by None.
    """
    remainder = {"$mod": ["$_id", size]}  # has the sign of the id
    start = {"$subtract": ["$_id", {"$mod": [{"$add": [remainder, size]}, size]}]}
    is_integer = {"$in": [{"$type": "$_id"}, ["int", "long"]]}
    group = {"_id": {"$cond": [is_integer, start, None]}, "records": {"$sum": 1}}
    stages: list[Stage] = [{"$sort": {"_id": 1}}, {"$group": group}]
    return aggregate_command(collection, stages, 2 * _MAX_BLOCKS, maxTimeMS=_LOAD_MILLISECONDS)


def _result_at(loaded: _Loaded, position: IdPosition) -> PositionResult:
    total, place = loaded.counts.total, None
    if position.offset < total:
        is_reversed = position.descending
        place = loaded.counts.place(total - 1 - position.offset if is_reversed else position.offset)
    return PositionResult(total, loaded.stream.time, place)
