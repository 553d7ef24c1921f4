"""The followers of the change feed: those of one process share one change stream.

- While somebody follows, a batch of commits is read every 0.1 s, encoded once for all followers
  that see the same, and sent by the request of each.
- The last batches are kept: followers that connect again, or are slower than others, continue in
  them. One that has fallen behind is ended, and may connect again.
- A follower from an older position reads a change stream of its own until it has reached these.
- The last event of a follower is the error that ends it. When the service stops, there is none.

A library such as aiohttp-sse encodes events for each follower: 1,000 would occupy the event loop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import islice
from time import monotonic

from aiohttp import web

from registry.jsonapi.change_events import (
    BEGINNING,
    Audience,
    encode_commit,
    encode_end,
    encode_position,
)
from registry.jsonapi.documents import encode_errors
from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import (
    InternalError,
    InvalidToken,
    Overloaded,
    ServiceStopping,
    Unavailable,
    retry_after,
)
from registry.offloading import offload
from registry.storage import ChangeFeed, Commit, FeedPosition, Repository

_PAUSE_SECONDS = 0.1
"""The pause between two reads, while the next changes collect."""

_RETRY_SECONDS = 0.5
"""How long to wait for a database that is unavailable."""

_TOKEN_SECONDS = 0.75
"""Interval at which access tokens are verified."""

_MAX_FOLLOWERS_PER_ITERATION = 50
"""Followers that send their events before the event loop serves others: about 1 ms."""

_log = logging.getLogger("registry")


class _Batch:
    """Commits that are sent together. encoded: their events, for the first audiences."""

    __slots__ = ("commits", "encoded")

    def __init__(self, commits: Sequence[Commit]) -> None:
        self.commits = commits
        self.encoded: dict[Audience, bytes] = {}

    @property
    def size(self) -> int:
        """The number of changes."""
        return sum(len(commit.changes) for commit in self.commits)

    def after(self, position: FeedPosition) -> "_Batch":
        """Return the commits after a position: this batch, unless it has earlier ones."""
        if self.commits[0].is_after(position):
            return self
        return _Batch([commit for commit in self.commits if commit.is_after(position)])


class _Recent:
    """The last batches of the feed: all changes after `start`.

    position: up to where the feed was read. present_at: when the last read began that found no
    further changes.
    """

    def __init__(self, feed: ChangeFeed, max_changes: int) -> None:
        self._max_changes = max_changes
        self.batches = deque[_Batch]()
        self._size = 0
        self.start = feed.start
        self.position = feed.position
        self.present_at = 0.0

    def append(self, batch: _Batch) -> None:
        """Keep a batch, in place of the oldest ones."""
        self.batches.append(batch)
        self._size += batch.size
        while self._size > self._max_changes and len(self.batches) > 1:
            dropped = self.batches.popleft()
            self._size -= dropped.size
            self.start = dropped.commits[-1]

    def after(self, position: FeedPosition) -> list[_Batch]:
        """Return the changes after a position, which is not before `start`."""
        found = []
        for batch in reversed(self.batches):
            if not batch.commits[-1].is_after(position):
                break
            found.append(batch.after(position))
        return found[::-1]


class Follower:
    """A client that follows the feed.

    token: None if it needs none. reason: the error that has ended it, if the client needs to know.
    """

    __slots__ = ("_is_ended", "audience", "reason", "token", "wake_event")

    def __init__(self, audience: Audience, token: str | None) -> None:
        self.audience = audience
        self.token = token
        self._is_ended = False
        self.reason: RequestError | None = None
        self.wake_event = asyncio.Event()

    def is_ended(self) -> bool:
        """Return whether it gets no more events."""
        return self._is_ended

    def end(self, reason: RequestError | None = None) -> None:
        """Let its events end."""
        self._is_ended, self.reason = True, reason
        self.wake_event.set()


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

    def __len__(self) -> int:
        return len(self._followers)

    async def events(
        self, after: FeedPosition | None, follower: Follower, client: str, request_id: str
    ) -> AsyncGenerator[bytes]:
        """Yield the events for a follower until it is ended; first its position.

        after: None for the present. client: its network. Raises, before the first event,
        PositionExpired, InvalidPosition, Overloaded, Unavailable, ServiceStopping, or InternalError
        if MongoDB refuses change streams.
        """
        self._followers.add(follower)
        try:
            recent = await self._start()
            position = await self._repository.checked_position(after)
            async with AsyncExitStack() as stack:
                older: ChangeFeed | None = None
                if recent.start.is_after(position):
                    slot = self._repository.bulkheads.streams.slot(client)
                    await stack.enter_async_context(slot)
                    older = await self._repository.changes(position)
                    stack.push_async_callback(older.close)
                yield BEGINNING + self._position_event(position)
                if older is not None:
                    async for events in self._older_events(follower, older, recent):
                        yield events
                    position = older.position
            async for events in self._recent_events(follower, recent, position):
                yield events
            if follower.reason is not None:
                yield encode_end(encode_errors(follower.reason.errors, request_id))
        finally:
            self._followers.discard(follower)

    async def _older_events(
        self, follower: Follower, feed: ChangeFeed, recent: _Recent
    ) -> AsyncGenerator[bytes]:
        """Yield events of a change stream until it has reached those that are kept."""
        while not follower.is_ended() and recent.start.is_after(feed.position):
            try:
                if commits := await feed.read():
                    yield await self._encoded(_Batch(commits), follower.audience)
            except Unavailable:
                await asyncio.sleep(_RETRY_SECONDS)
            except RequestError as error:
                follower.end(error)

    async def _recent_events(
        self, follower: Follower, recent: _Recent, position: FeedPosition
    ) -> AsyncGenerator[bytes]:
        """Yield the events of what is kept and what comes; when there is none, the position."""
        began = sent_at = monotonic()
        quiet_seconds = self._repository.capacity.quiet_seconds
        while not follower.is_ended():
            follower.wake_event.clear()
            if recent.start.is_after(position):
                reason = "This client reads more slowly than resources change."
                follower.end(Overloaded(reason, headers=retry_after(0)))
            elif batches := recent.after(position):
                for batch in batches:
                    position = batch.commits[-1].token
                    if events := await self._encoded(batch, follower.audience):
                        yield events
                        sent_at = monotonic()
                    # A client that reads slowly must not keep batches that are dropped.
                    if follower.is_ended() or recent.start.is_after(position):
                        break
            elif monotonic() - sent_at >= quiet_seconds:
                if recent.present_at > began:  # else it may begin at a later position
                    position = recent.position
                yield self._position_event(position)
                sent_at = monotonic()
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(sent_at + quiet_seconds - monotonic()):
                        await follower.wake_event.wait()

    def _position_event(self, position: FeedPosition) -> bytes:
        return encode_position(self._repository.positions.encode(position))

    async def _encoded(self, batch: _Batch, audience: Audience) -> bytes:
        """Return the events of a batch; empty if the audience must not see anything of it."""
        position_of = self._repository.positions.encode

        def encode() -> bytes:
            return b"".join(
                encode_commit(commit.changes, position_of(commit.token), audience)
                for commit in batch.commits
            )

        if audience in batch.encoded:
            return batch.encoded[audience]
        events = await offload(encode, size=batch.size)
        if len(batch.encoded) < self._repository.capacity.kept_audiences:
            batch.encoded[audience] = events
        return events

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
        checking = asyncio.create_task(self._check_tokens())
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
            self.end_all(reason)  # if it has failed
            checking.cancel()
            await feed.close()

    async def _read_next(self, feed: ChangeFeed, recent: _Recent) -> None:
        """Read the next changes, and let the followers send them."""
        began = monotonic()
        if commits := await feed.read():
            batch = _Batch(commits)
            audiences = {follower.audience for follower in self._followers}
            for audience in islice(audiences, self._repository.capacity.kept_audiences):
                await self._encoded(batch, audience)
            recent.append(batch)
        recent.position = feed.position
        if commits:
            for number, follower in enumerate(list(self._followers), 1):
                follower.wake_event.set()
                if not number % _MAX_FOLLOWERS_PER_ITERATION:
                    await asyncio.sleep(0)
        if not feed.has_more:
            recent.present_at = began
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _check_tokens(self) -> None:
        """Verify the access tokens at intervals; end followers whose token is no longer valid."""
        while True:
            await asyncio.sleep(_TOKEN_SECONDS)
            tokens = {follower.token for follower in self._followers if follower.token}
            await asyncio.gather(*map(self._end_if_rejected, tokens))

    async def _end_if_rejected(self, token: str) -> None:
        try:
            await self._check_token(token)
        except InvalidToken as error:
            for follower in self._followers:
                if follower.token == token:
                    follower.end(error)
        except RequestError:
            pass  # it is checked again
        except Exception:  # noqa: BLE001 - a defect: other tokens are still to be checked
            _log.exception("The access tokens of followers are not checked")

    def end_all(self, reason: RequestError | None = None) -> None:
        """End all followers, which may connect again."""
        for follower in self._followers:
            follower.end(reason)

    async def close(self) -> None:
        """End all followers, and wait until the change stream is closed."""
        self._is_stopping = True
        self.end_all()
        async with self._starting:  # so that it does not start after this
            await self._ended()

    async def _ended(self) -> None:
        """Wait until the last change stream is closed."""
        if self._reading is not None:
            await asyncio.wait([self._reading])


FOLLOWERS = web.AppKey("followers", Followers)
