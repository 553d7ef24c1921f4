"""The followers of the change feed: those of one process share a change stream and its events.

Events are encoded once for all followers that get the same. A library such as aiohttp-sse encodes
and awaits each event for each follower, which for 1,000 of them would occupy the event loop.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import cast

from aiohttp import hdrs, web

from registry.access.principal import InvalidToken, KeysUnavailable
from registry.jsonapi.change_events import (
    BEGINNING,
    COMMENT,
    Audience,
    encode_commit,
    encode_position,
)
from registry.jsonapi.error_types import ServiceStopping
from registry.offloading import offload
from registry.storage import (
    ChangeFeed,
    ClusterTime,
    Commit,
    PositionExpired,
    Repository,
    StorageError,
)

_PAUSE_SECONDS = 0.1
"""Pause after a batch, in which the next changes collect."""

_RETRY_SECONDS = 0.5
"""How long to wait for a database that is unavailable."""

_TICK_SECONDS = 0.75
"""Interval at which access tokens are verified and idle connections found."""

_COMMENT_SECONDS, _POSITION_SECONDS = 15.0, 60.0
"""Time without an event after which a comment is sent, or the position."""

_MAX_CHANGES = 10_000
"""Changes in memory, for followers that connect again or are slow."""

_MAX_FOLLOWERS_PER_ITERATION = 50
"""Followers that get their events before the event loop serves others: less than 1 ms."""

_log = logging.getLogger("registry")


@dataclass(eq=False, slots=True)
class _Follower:
    """A client that follows the feed.

    after: it knows the changes up to this time. token: None if it needs none. next: the number of
    the batch to send next, -1 while earlier changes are sent. is_waiting: whether it has all
    batches, so that the next one is sent to it at once.
    """

    request: web.Request
    transport: asyncio.WriteTransport
    after: ClusterTime
    token: str | None
    next: int = -1
    is_waiting: bool = False
    is_ended: bool = False
    wake_event: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def has_read(self) -> bool:
        """Whether nothing waits to be sent, beside what the kernel buffers."""
        return not self.transport.get_write_buffer_size()

    def send(self, data: bytes) -> None:
        """Send framed events; `web.StreamResponse` would frame them for each follower."""
        if data and not self.transport.is_closing():
            self.request.writer.output_size += len(data)
            self.transport.write(data)

    def wake(self) -> None:
        """Let it read on by itself."""
        self.is_waiting = False
        self.wake_event.set()

    def end(self) -> None:
        """End its response; reset its connection if that would take time."""
        self.is_ended = True
        self.wake()
        if self.next < 0 or not self.has_read:
            self.transport.abort()


@dataclass(eq=False, slots=True)
class _Group:
    """Followers that get the same bytes.

    is_chunked: whether their connections have chunks (RFC 9112, 7.1). event_at, comment_at: when
    they got the last event, and the last comment.
    """

    audience: Audience
    is_chunked: bool
    event_at: float = field(default_factory=monotonic)
    comment_at: float = field(default_factory=monotonic)
    members: set[_Follower] = field(default_factory=set)

    def framed(self, data: bytes) -> bytes:
        """Return events as they are sent."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self.is_chunked else data


@dataclass(eq=False, slots=True)
class _Batch:
    """Commits that are sent together.

    encoded: their events, by audience and whether they are chunked. Followers that connect again
    are in new groups, which get the same bytes.
    """

    commits: Sequence[Commit]
    encoded: dict[tuple[Audience, bool], bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of changes."""
        return sum(len(commit.changes) for commit in self.commits)

    def after(self, time: ClusterTime) -> "_Batch":
        """Return the commits after a time: this batch, unless some are not."""
        if not self.commits or self.commits[0].time > time:
            return self
        return _Batch([one for one in self.commits if one.time > time])


class Followers:
    """All followers of one process.

    check_token: raises InvalidToken if an access token is no longer valid.
    """

    def __init__(
        self, repository: Repository, check_token: Callable[[str], Awaitable[object]]
    ) -> None:
        self._repository = repository
        self._check_token = check_token
        self._groups: dict[tuple[Audience, bool], _Group] = {}
        self._count = 0
        self._feed: ChangeFeed | None = None
        self._starting = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._batches = deque[_Batch]()  # all changes after `_start` and up to `_time`
        self._size = 0  # the number of changes in them
        self._end = 0  # the number of the next batch
        self._opened_at: ClusterTime
        self._start: ClusterTime
        self._time: ClusterTime

    @asynccontextmanager
    async def subscription(
        self, after: ClusterTime | None, client: str
    ) -> AsyncIterator[AsyncExitStack | None]:
        """Keep the change stream open for a follower, which `follow` may serve.

        after: where it starts, None for the present. client: its network. Yields the slot of a
        follower that has to catch up, for `follow` to release; None for others. Raises
        PositionExpired, InvalidPosition, BulkheadFull or Unavailable; or ServiceStopping while
        the service stops.
        """
        self._count += 1
        try:
            async with self._starting:
                if self._is_stopping:
                    raise ServiceStopping
                if self._feed is None:
                    await self._start_feed()
            if after is not None and after > self._time:
                await self._repository.require_not_future(after)
            if after is None or after >= self._start:
                yield None
                return
            async with AsyncExitStack() as slot:
                catch_ups = self._repository.bulkheads.catch_ups
                await slot.enter_async_context(catch_ups.slot(client))
                await self._repository.require_retained(after)
                yield slot
        finally:
            self._count -= 1

    async def follow(
        self,
        request: web.Request,
        response: web.StreamResponse,
        audience: Audience,
        after: ClusterTime | None,
        slot: AsyncExitStack | None,
        token: str | None,
    ) -> None:
        """Send events until the client disconnects, loses access or reads too slowly.

        response: prepared, to be ended by the caller. after, slot: of its `subscription`. token:
        None if followers need none.
        """
        if request.transport is None:  # the client has disconnected
            return
        # A cast, as the transports of uvloop are not instances of those of asyncio.
        transport = cast(asyncio.WriteTransport, request.transport)
        beginning = BEGINNING
        if after is None:
            after = max(self._time, self._opened_at)
            beginning += self._position_event(after)
        is_behind = slot is None and after < self._start  # only since it has subscribed
        if self._feed is None or self._is_stopping or is_behind:
            return  # it may connect again
        follower = _Follower(request, transport, after, token)
        key = audience, hdrs.TRANSFER_ENCODING in response.headers
        group = self._groups.setdefault(key, _Group(*key))
        follower.send(group.framed(beginning))
        group.members.add(follower)
        try:
            await self._serve(follower, group, slot)
        finally:
            group.members.discard(follower)
            if not group.members:
                self._groups.pop(key, None)

    async def close(self) -> None:
        """End all followers, and wait until the change stream is closed."""
        self._is_stopping = True
        self._end_all()
        async with self._starting:  # so that it does not start after this
            await self._ended()

    async def _start_feed(self) -> None:
        await self._ended()
        self._opened_at = await self._repository.now()
        feed = await self._repository.recent_changes(self._opened_at)
        if self._is_stopping:
            raise ServiceStopping
        self._feed = feed
        self._start = self._time = feed.time
        self._batches.clear()
        self._size = 0
        self._running = asyncio.create_task(self._run(feed))

    async def _ended(self) -> None:
        """Wait until the last change stream is closed."""
        if self._running:
            await asyncio.wait([self._running])

    async def _run(self, feed: ChangeFeed) -> None:
        """Send changes as long as there are followers."""
        maintaining = asyncio.create_task(self._maintain_connections())
        try:
            while self._count and not self._is_stopping:
                try:
                    await self._send_next(feed)
                except PositionExpired:
                    break
                except StorageError:
                    await asyncio.sleep(_RETRY_SECONDS)
        except Exception:  # noqa: BLE001 - a defect: followers connect again
            _log.exception("The change feed has failed")
        finally:
            self._feed = None
            self._end_all()  # if it has failed
            maintaining.cancel()
            await feed.close()

    async def _send_next(self, feed: ChangeFeed) -> None:
        """Read what follows, and send it to those who wait for it."""
        commits = await feed.read()
        self._time = feed.time
        if not commits:
            return
        batch = _Batch(commits)
        self._batches.append(batch)
        self._size += batch.size
        self._end += 1
        for group in list(self._groups.values()):
            data = await self._encoded(batch, group)
            if data:
                group.event_at = group.comment_at = monotonic()
            async for follower in _in_turns(group.members):
                if follower.is_waiting and follower.next == self._end - 1:
                    if follower.has_read and follower.after < commits[0].time:
                        follower.next += 1
                        follower.send(data)
                    else:
                        follower.wake()
        while self._size > _MAX_CHANGES and len(self._batches) > 1:
            dropped = self._batches.popleft()
            self._size -= dropped.size
            self._start = dropped.commits[-1].time
        for follower in self._all():
            if 0 <= follower.next < self._end - len(self._batches):
                follower.end()  # it reads too slowly, and may connect again
        await asyncio.sleep(_PAUSE_SECONDS)

    async def _serve(self, follower: _Follower, group: _Group, slot: AsyncExitStack | None) -> None:
        # Again if earlier changes were dropped while it ended.
        while follower.after < self._start and not follower.is_ended:
            await self._catch_up(follower, group)
        follower.next = self._end - len(self._batches)
        if slot:
            await slot.aclose()
        while not follower.is_ended:
            behind = self._end - follower.next
            if behind:
                batch = self._batches[-behind]
                follower.next += 1
                follower.send(await self._encoded(batch.after(follower.after), group))
            else:
                follower.is_waiting = True
                follower.wake_event.clear()
                await follower.wake_event.wait()
            await follower.request.writer.drain()

    async def _catch_up(self, follower: _Follower, group: _Group) -> None:
        """Send changes from before those that all followers share."""
        feed = self._repository.changes(follower.after)
        try:
            while follower.after < self._start and not follower.is_ended:
                batch = _Batch(await feed.read())
                follower.send(await self._encoded(batch.after(follower.after), group))
                follower.after = feed.time
                await follower.request.writer.drain()
        finally:
            await feed.close()

    async def _encoded(self, batch: _Batch, group: _Group) -> bytes:
        """Return a batch as a group gets it; empty if it must not see anything of it."""
        audience, position_of = group.audience, self._repository.positions.encode

        def encode() -> bytes:
            events = b"".join(
                encode_commit(one.changes, position_of(one.time), audience) for one in batch.commits
            )
            return group.framed(events) if events else b""

        key = audience, group.is_chunked
        if key not in batch.encoded:
            batch.encoded[key] = await offload(encode, size=batch.size)
        return batch.encoded[key]

    async def _maintain_connections(self) -> None:
        """Keep connections open, and end those whose access tokens are no longer valid."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            try:
                for group in list(self._groups.values()):
                    await self._keep_alive(group, monotonic())
                await self._end_rejected()
            except Exception:  # noqa: BLE001 - a defect: tokens are still to be checked
                _log.exception("Connections of the change feed are not maintained")

    async def _keep_alive(self, group: _Group, now: float) -> None:
        """Send a comment, or the position, to a group that has got nothing for some time."""
        if now - group.comment_at < _COMMENT_SECONDS:
            return
        group.comment_at, comment, position = now, group.framed(COMMENT), b""
        time = self._time
        if now - group.event_at >= _POSITION_SECONDS:
            group.event_at, position = now, group.framed(self._position_event(time))
        async for follower in _in_turns(group.members):
            if follower.has_read:
                has_all = follower.is_waiting and follower.next == self._end
                is_current = time == self._time and follower.after <= time
                follower.send(position if position and has_all and is_current else comment)

    async def _end_rejected(self) -> None:
        by_token = defaultdict[str, list[_Follower]](list)
        for follower in self._all():
            if follower.token is not None:
                by_token[follower.token].append(follower)
        await asyncio.gather(*(self._end_if_rejected(*one) for one in by_token.items()))

    async def _end_if_rejected(self, token: str, followers: Iterable[_Follower]) -> None:
        try:
            await self._check_token(token)
        except InvalidToken:
            for follower in followers:
                follower.end()
        except (StorageError, KeysUnavailable):
            pass  # it is checked again

    def _end_all(self) -> None:
        for follower in self._all():
            follower.end()

    def _all(self) -> list[_Follower]:
        return [follower for group in self._groups.values() for follower in group.members]

    def _position_event(self, time: ClusterTime) -> bytes:
        return encode_position(self._repository.positions.encode(time))


async def _in_turns(members: Iterable[_Follower]) -> AsyncIterator[_Follower]:
    """Yield followers; the event loop serves others in between."""
    for number, follower in enumerate(list(members), 1):
        yield follower
        if not number % _MAX_FOLLOWERS_PER_ITERATION:
            await asyncio.sleep(0)
