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
from itertools import islice
from time import monotonic
from typing import NamedTuple, cast

from aiohttp import web

from registry.access.principal import InvalidToken, KeysUnavailable
from registry.http.request_ids import request_id
from registry.http.sending import write_parts
from registry.jsonapi.change_events import (
    BEGINNING,
    COMMENT,
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

_COMMENT_SECONDS, _POSITION_SECONDS = 15.0, 60.0
"""Seconds without data before a comment is sent, and without an event before the position is sent,
where the client continues when it reconnects."""

_MAX_CHANGES = 10_000
"""Changes that are kept, for followers that reconnect or are slow."""

_MAX_AUDIENCES = 8
"""Audiences for which the events of a batch are kept; those of others are encoded again."""

_MAX_PART = 2**16
"""Bytes of events that are written before waiting for the client. aiohttp copies them for each
follower, so a whole batch would take a megabyte for each slow one."""

_MAX_FOLLOWERS_PER_ITERATION = 50
"""Followers that send their events before the event loop serves others: about 1 ms."""

_log = logging.getLogger("registry")


@dataclass(eq=False, slots=True)
class _Follower:
    """A client that follows the feed.

    position: it has the commits up to there. token: None if it needs none. reads: of the feed when
    it began. sent_at, event_at: when something, and an event, was sent last. reason: why it is
    ended, if the client needs to know.
    """

    response: web.StreamResponse
    transport: asyncio.WriteTransport
    audience: Audience
    position: FeedPosition
    token: str | None
    reads: int
    sent_at: float = field(default_factory=monotonic)
    event_at: float = field(default_factory=monotonic)
    is_ended: bool = False
    reason: RequestError | None = None
    wake_event: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_quiet(self) -> bool:
        """Whether a comment or the position is to be sent."""
        return monotonic() - self.sent_at >= _COMMENT_SECONDS

    async def send(self, events: bytes, *, is_comment: bool = False) -> None:
        """Send events, or a comment, as fast as the client reads them."""
        await write_parts(self.response.write, events, _MAX_PART)
        self.sent_at = monotonic()
        if not is_comment:
            self.event_at = self.sent_at

    def end(self, reason: RequestError | None = None) -> None:
        """End its response; reset its connection if the client has not read what was sent."""
        self.is_ended, self.reason = True, reason
        self.wake_event.set()
        if self.transport.get_write_buffer_size():
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


class Subscription(NamedTuple):
    """Where a follower begins. is_new: whether that is the present, which it does not know yet.

    backlog: open, for changes older than those that are kept, if there are any. slot: of it.
    """

    position: FeedPosition
    is_new: bool
    backlog: ChangeFeed | None
    slot: AsyncExitStack


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
        self._batches = deque[_Batch]()  # all changes after `_start`
        self._size = 0  # the number of changes in them
        self._end = 0  # the number of the next batch
        self._start: Commit
        self._position: FeedPosition  # what follows has not been read
        self._reads = 0  # that have reached the present

    @asynccontextmanager
    async def subscription(
        self, after: FeedPosition | None, client: str
    ) -> AsyncIterator[Subscription]:
        """Keep the change stream open for a follower, which `follow` may serve.

        after: None for the present. client: its network. Raises PositionExpired, InvalidPosition,
        Overloaded, Unavailable, ServiceStopping, or InternalError if MongoDB refuses change
        streams.
        """
        self._count += 1
        try:
            async with self._starting:
                if self._feed is None:
                    await self._start_feed()
            position = await self._repository.checked_position(after)
            async with AsyncExitStack() as slot:
                backlog = None
                if self._start.is_after(position):
                    catch_ups = self._repository.bulkheads.catch_ups
                    await slot.enter_async_context(catch_ups.slot(client))
                    backlog = await self._repository.changes(position)
                    slot.push_async_callback(backlog.close)
                yield Subscription(position, after is None, backlog, slot)
        finally:
            self._count -= 1

    async def follow(
        self,
        request: web.Request,
        response: web.StreamResponse,
        audience: Audience,
        subscription: Subscription,
        token: str | None,
    ) -> None:
        """Send events until the client disconnects, loses access or reads too slowly.

        response: prepared, to be ended by the caller.
        """
        if request.transport is None or self._feed is None or self._is_stopping:
            return  # the client has disconnected, or may connect again
        # A cast, as the transports of uvloop are not instances of those of asyncio.
        transport = cast(asyncio.WriteTransport, request.transport)
        follower = _Follower(
            response, transport, audience, subscription.position, token, self._reads
        )
        beginning = BEGINNING
        if subscription.is_new:
            beginning += self._position_event(follower.position)
        self._followers.add(follower)
        try:
            await follower.send(beginning)
            if subscription.backlog is not None:
                await self._catch_up(follower, subscription.backlog)
                await subscription.slot.aclose()
            await self._send_kept(follower)
            if follower.reason is not None:
                document = encode_errors(follower.reason.errors, request_id(request))
                await follower.send(encode_end(document))
        finally:
            self._followers.discard(follower)

    async def close(self) -> None:
        """End all followers, and wait until the change stream is closed."""
        self._is_stopping = True
        self._end_all()
        async with self._starting:  # so that it does not start after this
            await self._ended()

    async def _ended(self) -> None:
        """Wait until the last change stream is closed."""
        if self._running is not None:
            await asyncio.wait([self._running])

    async def _start_feed(self) -> None:
        await self._ended()
        feed = await self._repository.recent_changes()
        if self._is_stopping:
            await feed.close()
            raise ServiceStopping
        self._batches.clear()
        self._size = 0
        self._feed, self._start, self._position = feed, feed.start, feed.position
        self._running = asyncio.create_task(self._run(feed))

    async def _run(self, feed: ChangeFeed) -> None:
        """Read changes while there are followers."""
        maintaining = asyncio.create_task(self._maintain_connections())
        reason: RequestError | None = None
        try:
            while self._count and not self._is_stopping:
                try:
                    await self._read_next(feed)
                except Unavailable:
                    await asyncio.sleep(_RETRY_SECONDS)
        except RequestError as error:
            reason = error
        except Exception:  # noqa: BLE001 - a defect: followers connect again
            _log.exception("The change feed has failed")
            reason = InternalError()
        finally:
            self._feed = None
            self._end_all(reason)  # if it has failed
            maintaining.cancel()
            await feed.close()

    async def _read_next(self, feed: ChangeFeed) -> None:
        """Read the next changes, and let the followers that wait for them send them."""
        commits = await feed.read()
        if commits:
            batch = _Batch(commits)
            audiences = {follower.audience for follower in self._followers}
            for audience in islice(audiences, _MAX_AUDIENCES):
                await self._encoded(batch, audience)
            self._batches.append(batch)
            self._size += batch.size
            self._end += 1
            while self._size > _MAX_CHANGES and len(self._batches) > 1:
                dropped = self._batches.popleft()
                self._size -= dropped.size
                self._start = dropped.commits[-1]
        self._position = feed.position
        self._reads += not feed.has_more
        if commits:
            await _wake(self._followers)
        if not feed.has_more:
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _send_kept(self, follower: _Follower) -> None:
        """Send what is kept and what comes, until the follower is ended or falls behind."""
        behind = sum(batch.commits[-1].is_after(follower.position) for batch in self._batches)
        number = self._end - behind
        while not follower.is_ended and not self._start.is_after(follower.position):
            if number < self._end:
                batch = self._batches[number - self._end].after(follower.position)
                number += 1
                if batch.commits:
                    follower.position = batch.commits[-1].token
                    await self._send(follower, batch)
            elif follower.is_quiet:
                if self._reads > follower.reads + 1:  # one has begun, and ended, since it joined
                    follower.position = self._position
                if monotonic() - follower.event_at < _POSITION_SECONDS:
                    await follower.send(COMMENT, is_comment=True)
                else:
                    await follower.send(self._position_event(follower.position))
            else:
                await follower.wake_event.wait()
                follower.wake_event.clear()

    async def _catch_up(self, follower: _Follower, feed: ChangeFeed) -> None:
        """Send changes older than those that are kept."""
        while not follower.is_ended and self._start.is_after(follower.position):
            try:
                batch = _Batch(await feed.read())
            except Unavailable:
                await asyncio.sleep(_RETRY_SECONDS)
            except RequestError as error:
                follower.end(error)
            else:
                follower.position = feed.position
                await self._send(follower, batch)

    async def _send(self, follower: _Follower, batch: _Batch) -> None:
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
            if len(encoded) >= _MAX_AUDIENCES:
                del encoded[next(iter(encoded))]
            encoded[audience] = events
        return encoded[audience]

    async def _maintain_connections(self) -> None:
        """Keep connections open, and end those whose access tokens are no longer valid."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            try:
                await _wake(follower for follower in self._followers if follower.is_quiet)
                tokens = {follower.token for follower in self._followers if follower.token}
                await asyncio.gather(*map(self._end_if_rejected, tokens))
            except Exception:  # noqa: BLE001 - a defect: tokens are still to be checked
                _log.exception("Connections of the change feed are not maintained")

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

    def _position_event(self, position: FeedPosition) -> bytes:
        return encode_position(self._repository.positions.encode(position))


async def _wake(followers: Iterable[_Follower]) -> None:
    """Wake followers; the event loop serves others in between."""
    for number, follower in enumerate(list(followers), 1):
        follower.wake_event.set()
        if not number % _MAX_FOLLOWERS_PER_ITERATION:
            await asyncio.sleep(0)


FOLLOWERS = web.AppKey("followers", Followers)
