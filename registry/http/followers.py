"""The followers of the change feed: those of one process share one change stream.

- While somebody follows, the next commits are read every 0.1 s, encoded once for all followers
  that see the same, and sent by the request of each.
- The last commits are kept: followers that connect again, or are slower than others, continue in
  them. One that has fallen behind is ended, and may connect again.
- A follower from an older position reads a change stream of its own until it has reached these.
- The last event of a follower is the error that ends it. When the service stops, there is none.
- A follower that is ended, and does not read the rest within seconds, is disconnected.

A library such as aiohttp-sse encodes events for each follower: 1,000 would occupy the event loop.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
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
    retry_after,
)
from registry.offloading import offload
from registry.storage import (
    ChangeFeed,
    Commit,
    FeedPosition,
    RecentCommits,
    Repository,
    number_of_changes,
)

_PAUSE_SECONDS = 0.1
"""The pause between two reads, while the next changes collect."""

_TOKEN_SECONDS = 0.75
"""Interval at which access tokens are verified."""

_WOKEN_TOGETHER = 50
"""Followers that send their events before the event loop serves others: about 1 ms."""

_END_SECONDS = 2.0
"""How long a follower that is ended may take to read the rest."""

_log = logging.getLogger("registry")


class Follower:
    """A client that follows the feed, in the request of the current task.

    token: None if it needs none. reason: the error that has ended it, if the client needs to know.
    """

    __slots__ = ("_task", "_timer", "audience", "reason", "token", "wake_event")

    def __init__(self, audience: Audience, token: str | None) -> None:
        self.audience = audience
        self.token = token
        self.reason: RequestError | None = None
        self.wake_event = asyncio.Event()
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None  # once it is ended

    def is_ended(self) -> bool:
        """Return whether it gets no more events."""
        return self._timer is not None

    def end(self, reason: RequestError | None = None) -> None:
        """Let its events end; its connection is reset if it does not read the rest soon."""
        assert self._task is not None  # noqa: S101 - made in a coroutine
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer, self.reason = loop.call_later(_END_SECONDS, self._task.cancel), reason
        self.wake_event.set()

    def close(self) -> None:
        """Leave its connection as it is: the client has read everything."""
        if self._timer is not None:
            self._timer.cancel()


class Followers:
    """All followers of one process. check_token: raises InvalidToken for an ended access token."""

    def __init__(
        self, repository: Repository, check_token: Callable[[str], Awaitable[object]]
    ) -> None:
        self._repository = repository
        self._check_token = check_token
        self._followers: set[Follower] = set()
        self._window: RecentCommits | None = None  # while the feed is read
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
        if self._is_stopping:
            raise ServiceStopping("The service is stopping; send the request again.")
        self._followers.add(follower)
        try:
            window = await self._start()
            position = await self._repository.checked_position(after)
            async with AsyncExitStack() as stack:
                older: ChangeFeed | None = None
                if window.after(position) is None:
                    slot = self._repository.bulkheads.streams.slot(client)
                    await stack.enter_async_context(slot)
                    feed = await self._repository.changes(position)
                    older = await stack.enter_async_context(aclosing(feed))
                yield BEGINNING + self._position_event(position)
                try:
                    while (
                        older is not None
                        and not follower.is_ended()
                        and window.after(position) is None
                    ):
                        yield await self._encoded(await older.read(), follower.audience)
                        position = older.position
                    await stack.aclose()
                    async for events in self._recent_events(follower, window, position):
                        yield events
                    reason = follower.reason
                except RequestError as error:
                    reason = error
            if reason is not None:
                yield encode_end(encode_errors(reason.errors, request_id))
        finally:
            self._followers.discard(follower)

    async def _recent_events(
        self, follower: Follower, window: RecentCommits, position: FeedPosition
    ) -> AsyncGenerator[bytes]:
        """Yield the events of what is kept and what comes; when there is none, the position.

        Raises Overloaded for a follower that has fallen behind.
        """
        began = sent_at = monotonic()
        quiet_seconds = self._repository.capacity.quiet_seconds
        while not follower.is_ended():
            follower.wake_event.clear()
            commits = window.after(position)
            if commits is None:
                reason = "This client reads more slowly than resources change."
                raise Overloaded(reason, headers=retry_after(0))
            if commits:
                position = commits[-1].token
                if events := await self._encoded(commits, follower.audience):
                    yield events
                    sent_at = monotonic()
            elif monotonic() - sent_at >= quiet_seconds:
                read_at, present = window.present
                if read_at > began:  # else it may begin at a later position
                    position = present
                yield self._position_event(position)
                sent_at = monotonic()
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(sent_at + quiet_seconds - monotonic()):
                        await follower.wake_event.wait()

    def _position_event(self, position: FeedPosition) -> bytes:
        return encode_position(self._repository.positions.encode(position))

    async def _encoded(self, commits: Sequence[Commit], audience: Audience) -> bytes:
        """Return the events of commits; empty if the audience must not see anything of them."""
        position_of = self._repository.positions.encode

        def encode() -> list[bytes]:
            return [
                encode_commit(commit.changes, position_of(commit.token), audience)
                for commit in commits
            ]

        if all(audience in commit.encoded for commit in commits):
            return b"".join(commit.encoded[audience] for commit in commits)
        events = await offload(encode, size=number_of_changes(commits))
        for commit, own in zip(commits, events, strict=True):
            if len(commit.encoded) < self._repository.capacity.kept_audiences:
                commit.encoded[audience] = own
        return b"".join(events)

    async def _start(self) -> RecentCommits:
        """Return the last commits; begin to read the feed unless it is read."""
        async with self._starting:
            if self._window is None:
                await self._ended()
                feed = await self._repository.recent_changes()
                self._window = RecentCommits(feed.start, self._repository.capacity.kept_changes)
                self._reading = asyncio.create_task(self._read(feed, self._window))
            return self._window

    async def _read(self, feed: ChangeFeed, window: RecentCommits) -> None:
        """Read changes while there are followers, and let them send these."""
        checking = asyncio.create_task(self._check_tokens())
        reason: RequestError | None = None
        try:
            while self._followers and not self._is_stopping:
                began = monotonic()
                if commits := await feed.read():
                    audiences = {follower.audience for follower in self._followers}
                    for audience in islice(audiences, self._repository.capacity.kept_audiences):
                        await self._encoded(commits, audience)
                    window.append(commits)
                    for number, follower in enumerate([*self._followers], 1):
                        follower.wake_event.set()
                        if not number % _WOKEN_TOGETHER:
                            await asyncio.sleep(0)
                if not feed.has_more:
                    window.present = began, feed.position
                    await asyncio.sleep(_PAUSE_SECONDS)
        except RequestError as error:
            reason = error
        except Exception:  # noqa: BLE001 - a defect: followers connect again
            _log.exception("The change feed has failed")
            reason = InternalError()
        finally:
            self._window = None
            self.end_all(reason)  # if it has failed
            checking.cancel()
            await feed.aclose()

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
