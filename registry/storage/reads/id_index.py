"""The index of ids in memory: how many there are, and where the one at a position is.

To count a million records takes 270 ms of mongod, and to skip them as well.
"""

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from bson.timestamp import Timestamp
from pymongo.errors import (
    ConnectionFailure,
    CursorNotFound,
    NetworkTimeout,
    OperationFailure,
    ServerSelectionTimeoutError,
)

from registry.capacity import POSITIONS
from registry.model.record import ID
from registry.storage.mongo.batching import Batcher
from registry.storage.mongo.change_feed import ChangeStream, ChangesUnavailable
from registry.storage.mongo.read_commands import (
    ReadCommands,
    aggregate_command,
    find_command,
)
from registry.storage.records import Stage, projection

_MIN_BLOCK_BITS = 8
"""A block has 256 ids or more. If it has gaps, a page skips half of it on average."""

_MAX_BLOCKS = 65_536
"""How many blocks positive ids take after loading: the greater the last id, the larger each is."""

_LOAD_MILLISECONDS = 300_000
"""The time limit of loading: MongoDB keeps the snapshots of five minutes by default."""

_MIN_EVENTS, _RECORDS_PER_EVENT = 10_000, 10
"""It is loaded again after more changes: one takes as long to read as ten records."""

_MAX_SECONDS = 2.0
"""How long to wait for the index, or for its changes: a million ids are loaded in 0.8 s."""

_RETRY_SECONDS = 60.0
"""How long the index is not used after its changes could not be read."""

_ATTEMPTS = 3
"""To read the changes, to open the cursor again, and to load the index again."""

_CHANGES = {"insert": 1, "delete": -1}
"""By how much an event changes the number of records with its id."""

_REPLACEMENTS = ["drop", "rename", "dropDatabase", "invalidate"]
"""The events after which the name stands for another collection, or none."""

_STAGES: list[Stage] = [
    {"$match": {"operationType": {"$in": [*_CHANGES, *_REPLACEMENTS]}}},
    {"$project": {"operationType": True, "documentKey._id": True}},
]

_BATCH_SIZE = 2_000
"""Events per reply, which the event loop handles within some milliseconds."""

_AWAIT_MILLISECONDS = 1
"""How long MongoDB waits for further events: the minimum that it supports."""


class Place(NamedTuple):
    """Where an id is: `skipped` others are between it and the integer `start`, which may be it."""

    start: int
    skipped: int


class IdSnapshot(NamedTuple):
    """The ids in a snapshot. total: their number. time: of the snapshot.

    place: of the id at a position; None beyond the last one.
    """

    total: int
    time: Timestamp
    place: Place | None


class BlockCounts:
    """How many integers of a set are in each block of adjacent ones.

    size: integers per block. counts: by the first integer of each block; missing blocks are empty.
    """

    def __init__(self, size: int, counts: Mapping[int, int]) -> None:
        self._size = size
        self._counts = dict(counts)
        self._starts = sorted(counts)
        # The integers up to the end of each block; of the last ones, only where it is needed.
        self._cumulative: list[int] = []
        self.total = sum(counts.values())

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

    def place(self, offset: int, *, descending: bool) -> Place | None:
        """Return where the integer after `offset` others is; None beyond the last one.

        descending: whether to count from the greatest. In a block without gaps, the start is the
        integer itself.
        """
        if offset >= self.total:
            return None
        cumulative, counts = self._cumulative, self._counts
        for start in self._starts[len(cumulative) :]:
            cumulative.append(counts[start] + (cumulative[-1] if cumulative else 0))
        position = self.total - 1 - offset if descending else offset
        index = bisect_right(cumulative, position)
        first, count = self._starts[index], counts[self._starts[index]]
        after = cumulative[index] - position - 1
        skipped = after if descending else count - after - 1
        start, step = (first + self._size - 1, -1) if descending else (first, 1)
        if count == self._size:
            return Place(start + step * skipped, 0)
        return Place(start, skipped)


class IdIndex:
    """The ids of one collection, counted per block of adjacent ones.

    It is loaded by one scan of the ids in a snapshot, then kept up to date by a change stream, so
    it is exact whichever process writes. A cluster of shards has none: a change stream there waits
    until each shard has had a write or ten seconds have passed.
    """

    def __init__(self, commands: ReadCommands, collection: str) -> None:
        self._commands = commands
        self._collection = collection
        self._counts: BlockCounts | None = None
        self._time = Timestamp(0, 0)  # of the counts
        self._stream = ChangeStream(commands.database, collection, _STAGES, _BATCH_SIZE)
        self._lock = asyncio.Lock()
        self._is_quiet = False  # there were no writes between the last two requests
        self._retry_at = 0.0
        # A batch is not cancelled with its callers: a later one would have to load it all again.
        self._batcher = Batcher(self._read_batch, name="positions", limits=POSITIONS)

    async def close(self) -> None:
        """Close the change stream, unless it is being read."""
        if not self._lock.locked():
            await self._stream.close()

    def expected(self, offset: int, *, descending: bool) -> IdSnapshot | None:
        """Return the ids as they were for the last caller; None if they have probably changed.

        Valid only if the page is then read at this same time, which takes a round trip less.
        """
        return self._snapshot(offset, descending=descending) if self._is_quiet else None

    async def read(self, offset: int, *, descending: bool) -> IdSnapshot | None:
        """Return the ids in a snapshot that is not older than the call.

        offset: from 0, of the id to locate. None if loading takes long, MongoDB does not report the
        changes, or an id is not a number. Raises PyMongoError.
        """
        if time.monotonic() < self._retry_at or self._commands.is_sharded:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(_MAX_SECONDS):
                if await self._batcher.load(None):
                    return self._snapshot(offset, descending=descending)
        return None

    def _snapshot(self, offset: int, *, descending: bool) -> IdSnapshot | None:
        counts = self._counts
        if counts is None:
            return None
        return IdSnapshot(counts.total, self._time, counts.place(offset, descending=descending))

    async def _read_batch(self, callers: Sequence[None]) -> Sequence[bool]:
        """Bring the counts up to date; return whether they are, for each caller."""
        async with self._lock:
            for _ in range(_ATTEMPTS):
                try:
                    await self._update()
                except (NetworkTimeout, ServerSelectionTimeoutError):
                    raise  # the time to wait is over
                except (ConnectionFailure, CursorNotFound):
                    continue  # MongoDB has restarted, elected another primary, or closed the cursor
                except (ChangesUnavailable, OperationFailure, TimeoutError):
                    self._counts = None
                else:
                    return [True] * len(callers)
            self._counts, self._retry_at = None, time.monotonic() + _RETRY_SECONDS
            return [False] * len(callers)

    async def _update(self) -> None:
        """Load the counts, or apply the changes since the last call.

        Raises ChangesUnavailable, TimeoutError or PyMongoError.
        """
        counts, now = self._counts, await self._commands.now()
        # After loading, always read: MongoDB may refuse it, and each request would load again.
        self._is_quiet = counts is not None and now <= self._time
        if self._is_quiet:
            return
        if counts is None:
            await self._stream.close()
            self._time = now
            counts = await self._load()
        async with asyncio.timeout(_MAX_SECONDS):
            changes, read_until = await self._changes(counts.total, now)
        for id_, change in changes.items():
            if change:
                counts.change(id_, change)
        self._counts, self._time = counts, read_until

    async def _changes(self, total: int, until: Timestamp) -> tuple[Mapping[int, int], Timestamp]:
        """Return by how much the number of records has changed, by id, up to a time or later."""
        changes, count = Counter[int](), 0
        while True:
            events, time_ = await self._stream.read(self._time, _AWAIT_MILLISECONDS)
            for event in events:
                id_ = event["documentKey"]["_id"] if event["operationType"] in _CHANGES else None
                if not isinstance(id_, int):
                    raise ChangesUnavailable
                changes[id_] += _CHANGES[event["operationType"]]
            # A batch of so many events may end within a transaction.
            if time_ >= until and len(events) < _BATCH_SIZE:
                return changes, time_
            count += len(events)
            if count > _MIN_EVENTS + total // _RECORDS_PER_EVENT:
                raise ChangesUnavailable

    async def _load(self) -> BlockCounts:
        """Return the counts at the time of the index. Raises as `_update` does."""
        integers, sort = {ID: {"$type": ["int", "long"]}}, {ID: -1}
        command = find_command(self._collection, integers, projection(()), sort=sort, limit=1)
        last = (await self._commands.run(command, self._time)).records
        bits = (last[0][ID] // _MAX_BLOCKS).bit_length() if last else 0
        size = 1 << max(_MIN_BLOCK_BITS, bits)
        remainder = {"$mod": [f"${ID}", size]}  # has the sign of the id
        start = {"$subtract": [f"${ID}", {"$mod": [{"$add": [remainder, size]}, size]}]}
        stages: list[Stage] = [{"$sort": {ID: 1}}, {"$group": {ID: start, "records": {"$sum": 1}}}]
        command = aggregate_command(
            self._collection, stages, 2 * _MAX_BLOCKS, maxTimeMS=_LOAD_MILLISECONDS
        )
        found = await self._commands.run(command, self._time)
        counts = {group[ID]: group["records"] for group in found.records}
        if not all(isinstance(start, int) for start in counts):
            raise ChangesUnavailable
        return BlockCounts(size, counts)
