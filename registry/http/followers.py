"""The followers of the change feed: those of one process share one change stream.

- While somebody follows, a batch of commits is read every 0.1 s, encoded once for all followers
  that see the same, and sent by the task of each.
- The last batches are kept: followers that connect again, or are slower than others, continue in
  them. One that has fallen behind is ended, and may connect again.
- A follower from an older position reads a change stream of its own until it has reached these.
- A follower is ended with an event that says why, unless that would take time.

A library such as aiohttp-sse encodes events for each follower: 1,000 would occupy the event loop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice, takewhile
from time import monotonic
from typing import cast

from aiohttp import web

from registry.access.principal import InvalidToken, KeysUnavailable
from registry.http.request_ids import request_id
from registry.http.sending import write_parts
from registry.jsonapi.change_events import (
    BEGINNING,
    Audience,
    encode_commit,
    encode_end,
    encode_position,
)
from registry.jsonapi.documents import encode_errors
from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import InternalError, ServiceStopping, TokenRejected, Unavailable
from registry.offloading import offload
from registry.storage import ChangeFeed, Commit, FeedPosition, Repository

_PAUSE_SECONDS = 0.1
"""The pause between two reads, while the next changes collect."""

_RETRY_SECONDS = 0.5
"""How long to wait for a database that is unavailable."""

_TICK_SECONDS = 0.75
"""Interval at which access tokens are verified and quiet connections found."""

_MAX_PART = 2**16
"""Bytes of events that are written before waiting for the client. aiohttp copies them for each
follower, so a whole batch would take a megabyte for each slow one."""

_MAX_FOLLOWERS_PER_ITERATION = 50
"""Followers that send their events before the event loop serves others: about 1 ms."""

_log = logging.getLogger("registry")


class Follower:
    """A client that follows the feed.

    position: it has the commits up to there. token: None if it needs none. sent_at: when something
    was sent last. reason: why it is ended, if the client needs to know. backlog: open, for changes
    older than the recent ones, if there are any. slot: of the backlog.
    """

    position: FeedPosition
    response: web.StreamResponse
    reason: RequestError | None = None
    is_ended = False
    transport: asyncio.WriteTransport | None = None
    backlog: ChangeFeed | None = None
    slot: AsyncExitStack

    def __init__(self, audience: Audience, token: str | None) -> None:
        self.audience = audience
        self.token = token
        self.sent_at = monotonic()
        self.wake_event = asyncio.Event()

    async def send(self, events: bytes) -> None:
        """Send events as fast as the client reads them."""
        await write_parts(self.response.write, events, _MAX_PART)
        self.sent_at = monotonic()

    def end(self, reason: RequestError | None = None) -> None:
        """End its response; reset its connection if the client has not read what was sent."""
        self.is_ended, self.reason = True, reason
        self.wake_event.set()
        if self.transport is not None and self.transport.get_write_buffer_size():
            self.transport.abort()


@dataclass(eq=False, slots=True)
class _Batch:
    """Commits that are sent together. encoded: their events, for the last audiences."""

    commits: Sequence[Commit]
    encoded: dict[Audience, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of changes."""
        return sum(len(commit.changes) for commit in self.commits)

    def after(self, position: FeedPosition) -> "_Batch":
        """Return the commits after a position: this batch, unless it has earlier ones."""
        if not self.commits or self.commits[0].is_after(position):
            return self
        return _Batch([commit for commit in self.commits if commit.is_after(position)])


class _Recent:
    """The last batches of the feed: all changes after `start`. end: the number of the next batch.

    position: up to where the feed was read. present_at: when the last read began that found no
    further changes.
    """

    def __init__(self, feed: ChangeFeed, max_changes: int) -> None:
        self._max_changes = max_changes
        self.start = feed.start
        self.end = 0
        self.position = feed.position
        self.present_at = 0.0
        self.batches = deque[_Batch]()
        self._size = 0

    def append(self, batch: _Batch) -> None:
        """Keep a batch, in place of the oldest ones."""
        self.batches.append(batch)
        self._size += batch.size
        self.end += 1
        while self._size > self._max_changes and len(self.batches) > 1:
            dropped = self.batches.popleft()
            self._size -= dropped.size
            self.start = dropped.commits[-1]

    def first_after(self, position: FeedPosition) -> int:
        """Return the number of the first batch with commits after a position."""
        newest = reversed(self.batches)
        return self.end - sum(
            1 for _ in takewhile(lambda b: b.commits[-1].is_after(position), newest)
        )

    def batch(self, number: int) -> _Batch:
        """Return a batch that is kept."""
        return self.batches[number - self.end]


class Followers:
    """All followers of one process. check_token: raises InvalidToken for an ended access token."""

    def __init__(
        self, repository: Repository, check_token: Callable[[str], Awaitable[object]]
    ) -> None:
        self._repository = repository
        self._check_token = check_token
        self._followers: set[Follower] = set()
        self._recent: _Recent | None = None  # while the feed is read
        self._starting = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self._is_stopping = False

    @asynccontextmanager
    async def joined(
        self, after: FeedPosition | None, audience: Audience, token: str | None, client: str
    ) -> AsyncIterator[Follower]:
        """Yield a new follower, for which the feed is read until the end of the context.

        after: None for the present. client: its network. Raises PositionExpired, InvalidPosition,
        Overloaded, Unavailable, ServiceStopping, or InternalError if MongoDB refuses change
        streams.
        """
        follower = Follower(audience, token)
        self._followers.add(follower)
        try:
            async with AsyncExitStack() as follower.slot:
                recent = await self._start()
                follower.position = await self._repository.checked_position(after)
                if recent.start.is_after(follower.position):
                    catch_ups = self._repository.bulkheads.catch_ups
                    await follower.slot.enter_async_context(catch_ups.slot(client))
                    follower.backlog = await self._repository.changes(follower.position)
                    follower.slot.push_async_callback(follower.backlog.close)
                yield follower
        finally:
            self._followers.discard(follower)

    async def send_events(
        self, follower: Follower, request: web.Request, response: web.StreamResponse
    ) -> None:
        """Send events until the client disconnects, loses access or reads too slowly.

        response: prepared, to be ended by the caller.
        """
        if request.transport is None or self._recent is None:
            return  # the client has disconnected, or may connect again
        # A cast, as the transports of uvloop are not instances of those of asyncio.
        follower.transport = cast(asyncio.WriteTransport, request.transport)
        follower.response = response
        await follower.send(BEGINNING + self._position_event(follower))
        if follower.backlog is not None:
            await self._catch_up(follower, follower.backlog, self._recent)
            await follower.slot.aclose()
        await self._send_recent(follower, self._recent)
        if follower.reason is not None:
            document = encode_errors(follower.reason.errors, request_id(request))
            await follower.send(encode_end(document))

    async def close(self) -> None:
        """End all followers, and wait until the change stream is closed."""
        self._is_stopping = True
        self._end_all()
        async with self._starting:  # so that it does not start after this
            await self._ended()

    async def _ended(self) -> None:
        """Wait until the last change stream is closed."""
        if self._reading is not None:
            await asyncio.wait([self._reading])

    async def _start(self) -> _Recent:
        """Return the recent changes; begin to read the feed unless it is read."""
        async with self._starting:
            if self._recent is None:
                await self._ended()
                feed = await self._repository.recent_changes()
                if self._is_stopping:
                    await feed.close()
                    raise ServiceStopping
                self._recent = _Recent(feed, self._repository.capacity.kept_changes)
                self._reading = asyncio.create_task(self._read(feed, self._recent))
            return self._recent

    async def _read(self, feed: ChangeFeed, recent: _Recent) -> None:
        """Read changes while there are followers."""
        maintaining = asyncio.create_task(self._maintain_connections())
        reason: RequestError | None = None
        try:
            while self._followers and not self._is_stopping:
                try:
                    await self._read_next(feed, recent)
                except Unavailable:
                    await asyncio.sleep(_RETRY_SECONDS)
        except RequestError as error:
            reason = error
        except Exception:  # noqa: BLE001 - a defect: followers connect again
            _log.exception("The change feed has failed")
            reason = InternalError()
        finally:
            self._recent = None
            self._end_all(reason)  # if it has failed
            maintaining.cancel()
            await feed.close()

    async def _read_next(self, feed: ChangeFeed, recent: _Recent) -> None:
        """Read the next changes, and let the followers that wait for them send them."""
        began = monotonic()
        if commits := await feed.read():
            batch = _Batch(commits)
            audiences = {follower.audience for follower in self._followers}
            for audience in islice(audiences, self._repository.capacity.kept_audiences):
                await self._encoded(batch, audience)
            recent.append(batch)
        recent.position = feed.position
        if commits:
            await _wake(self._followers)
        if not feed.has_more:
            recent.present_at = began
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _send_recent(self, follower: Follower, recent: _Recent) -> None:
        """Send what is kept and what comes, until the follower is ended or falls behind."""
        number = recent.first_after(follower.position)
        while not follower.is_ended and not recent.start.is_after(follower.position):
            if number < recent.end:
                batch = recent.batch(number).after(follower.position)
                number += 1
                if batch.commits:
                    follower.position = batch.commits[-1].token
                    await self._send(follower, batch)
            elif self._is_quiet(follower):
                if recent.present_at > follower.sent_at:  # else it may begin at a later position
                    follower.position = recent.position
                await follower.send(self._position_event(follower))
            else:
                await follower.wake_event.wait()
                follower.wake_event.clear()

    async def _catch_up(self, follower: Follower, feed: ChangeFeed, recent: _Recent) -> None:
        """Send changes older than those that are kept."""
        while not follower.is_ended and recent.start.is_after(follower.position):
            try:
                batch = _Batch(await feed.read())
            except Unavailable:
                await asyncio.sleep(_RETRY_SECONDS)
            except RequestError as error:
                follower.end(error)
            else:
                follower.position = feed.position
                await self._send(follower, batch)

    async def _send(self, follower: Follower, batch: _Batch) -> None:
        if events := await self._encoded(batch, follower.audience):
            await follower.send(events)

    async def _encoded(self, batch: _Batch, audience: Audience) -> bytes:
        """Return the events of a batch; empty if the audience must not see anything of it."""
        position_of = self._repository.positions.encode

        def encode() -> bytes:
            return b"".join(
                encode_commit(commit.changes, position_of(commit.token), audience)
                for commit in batch.commits
            )

        encoded = batch.encoded
        if audience not in encoded:
            events = await offload(encode, size=batch.size)
            if len(encoded) >= self._repository.capacity.kept_audiences:
                del encoded[next(iter(encoded))]
            encoded[audience] = events
        return encoded[audience]

    async def _maintain_connections(self) -> None:
        """Keep connections open, and end those whose access tokens are no longer valid."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            try:
                await _wake(filter(self._is_quiet, self._followers))
                tokens = {follower.token for follower in self._followers if follower.token}
                await asyncio.gather(*map(self._end_if_rejected, tokens))
            except Exception:  # noqa: BLE001 - a defect: tokens are still to be checked
                _log.exception("Connections of the change feed are not maintained")

    def _is_quiet(self, follower: Follower) -> bool:
        """Whether the position is to be sent."""
        return monotonic() - follower.sent_at >= self._repository.capacity.quiet_seconds

    async def _end_if_rejected(self, token: str) -> None:
        try:
            await self._check_token(token)
        except InvalidToken as error:
            for follower in list(self._followers):
                if follower.token == token:
                    follower.end(TokenRejected(error.reason))
        except (RequestError, KeysUnavailable):
            pass  # it is checked again

    def _end_all(self, reason: RequestError | None = None) -> None:
        for follower in list(self._followers):
            follower.end(reason)

    def _position_event(self, follower: Follower) -> bytes:
        return encode_position(self._repository.positions.encode(follower.position))


async def _wake(followers: Iterable[Follower]) -> None:
    """Wake followers; the event loop serves others in between."""
    for number, follower in enumerate(list(followers), 1):
        follower.wake_event.set()
        if not number % _MAX_FOLLOWERS_PER_ITERATION:
            await asyncio.sleep(0)


FOLLOWERS = web.AppKey("followers", Followers)
