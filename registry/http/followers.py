"""The followers of the change feed: those of one process share a change stream and its events.

Events are encoded once for all followers that get the same ones. A library such as aiohttp-sse
encodes them for each follower: 1,000 of these would occupy the event loop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import cast

from aiohttp import web

from registry.access.principal import InvalidToken, KeysUnavailable
from registry.http.sending import write_parts
from registry.jsonapi.changes import (
    BEGINNING,
    COMMENT,
    Audience,
    encode_commit,
    encode_position,
)
from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import PositionExpired, ServiceStopping
from registry.offloading import offload
from registry.storage import ChangeFeed, ClusterTime, Commit, Repository

_PAUSE_SECONDS = 0.1
"""The pause after a batch, while the next changes collect."""

_RETRY_SECONDS = 0.5
"""How long to wait for a database that is unavailable."""

_TICK_SECONDS = 0.75
"""Interval at which access tokens are verified and quiet connections found."""

_COMMENT_SECONDS, _POSITION_SECONDS = 15.0, 60.0
"""Seconds without data before a comment is sent, and without an event before the position is sent,
where the client continues when it reconnects."""

_MAX_CHANGES = 10_000
"""Changes in memory, for followers that reconnect or are slow."""

_MAX_PART = 2**16
"""Bytes of events that are written before waiting for the client. aiohttp copies them for each
follower, so a whole batch would take a megabyte for each slow one."""

_MAX_FOLLOWERS_PER_ITERATION = 50
"""Followers that send their events before the event loop serves others: about 1 ms."""

_log = logging.getLogger("registry")


@dataclass(eq=False, slots=True)
class _Follower:
    """A client that follows the feed.

    after: it knows the changes up to this time. token: None if it needs none. sent_at, event_at:
    when something, and an event, was sent last. is_waiting: whether it has all changes. next: the
    number of the next batch; -1 while it gets earlier changes.
    """

    response: web.StreamResponse
    transport: asyncio.WriteTransport
    audience: Audience
    after: ClusterTime
    token: str | None
    next: int = -1
    sent_at: float = field(default_factory=monotonic)
    event_at: float = field(default_factory=monotonic)
    is_waiting: bool = False
    is_ended: bool = False
    wake_event: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_quiet(self) -> bool:
        """Whether a comment or the position is to be sent."""
        return monotonic() - self.sent_at >= _COMMENT_SECONDS

    async def wait(self) -> None:
        """Wait until there may be something to do."""
        self.is_waiting = True
        await self.wake_event.wait()
        self.wake_event.clear()
        self.is_waiting = False

    def end(self) -> None:
        """End its response; reset its connection if that would take time."""
        self.is_ended = True
        self.wake_event.set()
        if not self.is_waiting or self.transport.get_write_buffer_size():
            self.transport.abort()


@dataclass(eq=False, slots=True)
class _Batch:
    """Commits that are sent together. encoded: their events, for each audience."""

    commits: Sequence[Commit]
    encoded: dict[Audience, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of changes."""
        return sum(len(commit.changes) for commit in self.commits)

    def after(self, time: ClusterTime) -> "_Batch":
        """Return the commits after a time: this batch, unless it has earlier ones."""
        if not self.commits or self.commits[0].time > time:
            return self
        return _Batch([one for one in self.commits if one.time > time])


class Followers:
    """All followers of one process. check_token: raises InvalidToken for an ended access token."""

    def __init__(
        self, repository: Repository, check_token: Callable[[str], Awaitable[object]]
    ) -> None:
        self._repository = repository
        self._check_token = check_token
        self._followers: set[_Follower] = set()
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

        after: None for the present. client: its network. Yields the slot of a follower that has to
        catch up, for `follow` to release. Raises PositionExpired, InvalidPosition, Overloaded,
        Unavailable or ServiceStopping.
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

        response: prepared, to be ended by the caller. after, slot: of its `subscription`.
        """
        if request.transport is None or self._feed is None or self._is_stopping:
            return  # the client has disconnected, or may connect again
        beginning = BEGINNING
        if after is None:
            after = max(self._time, self._opened_at)
            beginning += self._position_event(after)
        # A cast, as the transports of uvloop are not instances of those of asyncio.
        transport = cast(asyncio.WriteTransport, request.transport)
        follower = _Follower(response, transport, audience, after, token)
        self._followers.add(follower)
        try:
            await self._send(follower, beginning)
            # Again if earlier changes were dropped while it ended.
            while slot and follower.after < self._start and not follower.is_ended:
                await self._catch_up(follower)
            if follower.after >= self._start:  # else it has fallen behind since it subscribed
                await self._send_batches(follower, slot)
        finally:
            self._followers.discard(follower)

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
        """Read changes while there are followers."""
        maintaining = asyncio.create_task(self._maintain_connections())
        try:
            while self._count and not self._is_stopping:
                try:
                    await self._read_next(feed)
                except PositionExpired:
                    break
                except RequestError:
                    await asyncio.sleep(_RETRY_SECONDS)
        except Exception:  # noqa: BLE001 - a defect: followers connect again
            _log.exception("The change feed has failed")
        finally:
            self._feed = None
            self._end_all()  # if it has failed
            maintaining.cancel()
            await feed.close()

    async def _read_next(self, feed: ChangeFeed) -> None:
        """Read the next changes, and let the followers that wait for them send them."""
        commits = await feed.read()
        self._time = feed.time
        if not commits:
            return
        batch = _Batch(commits)
        self._batches.append(batch)
        self._size += batch.size
        self._end += 1
        while self._size > _MAX_CHANGES and len(self._batches) > 1:
            dropped = self._batches.popleft()
            self._size -= dropped.size
            self._start = dropped.commits[-1].time
        for follower in list(self._followers):
            if 0 <= follower.next < self._end - len(self._batches):
                follower.end()  # it reads too slowly, and may connect again
        for audience in {one.audience for one in self._followers}:
            await self._encoded(batch, audience)
        await _wake(self._followers)
        await asyncio.sleep(_PAUSE_SECONDS)

    async def _send_batches(self, follower: _Follower, slot: AsyncExitStack | None) -> None:
        """Send the shared changes."""
        behind = sum(one.commits[-1].time > follower.after for one in self._batches)
        follower.next = self._end - behind
        if slot:
            await slot.aclose()
        while not follower.is_ended:
            if follower.next < self._end:
                batch = self._batches[follower.next - self._end]
                follower.next += 1
                events = await self._encoded(batch.after(follower.after), follower.audience)
                follower.after = max(follower.after, batch.commits[-1].time)
            elif follower.is_quiet:
                events = b""
                follower.after = max(follower.after, self._time)
            else:
                await follower.wait()
                continue
            await self._send(follower, events)

    async def _catch_up(self, follower: _Follower) -> None:
        """Send changes older than the shared ones."""
        feed = self._repository.changes(follower.after)
        try:
            while follower.after < self._start and not follower.is_ended:
                batch = _Batch(await feed.read()).after(follower.after)
                events = await self._encoded(batch, follower.audience)
                follower.after = feed.time
                await self._send(follower, events)
        finally:
            await feed.close()

    async def _send(self, follower: _Follower, events: bytes) -> None:
        """Send events; if there have been none for some time, the position or a comment."""
        now = monotonic()
        if not events and follower.is_quiet:
            is_due = now - follower.event_at >= _POSITION_SECONDS
            events = self._position_event(follower.after) if is_due else COMMENT
        if events:
            await write_parts(follower.response.write, events, _MAX_PART)
            follower.sent_at = now
            if events is not COMMENT:
                follower.event_at = now

    async def _encoded(self, batch: _Batch, audience: Audience) -> bytes:
        """Return the events of a batch; empty if the audience must not see anything of it."""
        position_of = self._repository.positions.encode

        def encode() -> bytes:
            return b"".join(
                encode_commit(one.changes, position_of(one.time), audience) for one in batch.commits
            )

        if audience not in batch.encoded:
            batch.encoded[audience] = await offload(encode, size=batch.size)
        return batch.encoded[audience]

    async def _maintain_connections(self) -> None:
        """Keep connections open, and end those whose access tokens are no longer valid."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            try:
                await _wake(one for one in self._followers if one.is_quiet)
                tokens = {one.token for one in self._followers if one.token is not None}
                await asyncio.gather(*map(self._end_if_rejected, tokens))
            except Exception:  # noqa: BLE001 - a defect: tokens are still to be checked
                _log.exception("Connections of the change feed are not maintained")

    async def _end_if_rejected(self, token: str) -> None:
        try:
            await self._check_token(token)
        except InvalidToken:
            for follower in list(self._followers):
                if follower.token == token:
                    follower.end()
        except (RequestError, KeysUnavailable):
            pass  # it is checked again

    def _end_all(self) -> None:
        for follower in list(self._followers):
            follower.end()

    def _position_event(self, time: ClusterTime) -> bytes:
        return encode_position(self._repository.positions.encode(time))


async def _wake(followers: Iterable[_Follower]) -> None:
    """Wake followers; the event loop serves others in between."""
    for number, follower in enumerate(list(followers), 1):
        follower.wake_event.set()
        if not number % _MAX_FOLLOWERS_PER_ITERATION:
            await asyncio.sleep(0)
