"""Lookups of access tokens: batched, and valid for less than a second."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from registry.access.principal import Principal, digest_of
from registry.capacity import Capacity
from registry.jsonapi.error_types import InvalidToken, Overloaded
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage import tokens
from registry.storage.mongo.mongo_client import connect
from registry.storage.tokens import TokenLookups, Tokens
from tests.access.conftest import Clock
from tests.conftest import Grant
from tests.support import CommandLog, Database


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The monotonic clock of lookups."""
    monkeypatch.setattr(tokens, "monotonic", clock := Clock())
    return clock


@pytest.fixture
async def connected(settings: Settings, database: Database) -> AsyncIterator[Database]:
    """The database of the test as the service accesses it."""
    async with connect(settings, Graph(RESOURCES)) as connection:
        assert connection.name == database.name
        yield connection


@pytest.fixture
async def lookups(
    connected: Database,
    settings: Settings,
    clock: Clock,  # noqa: ARG001 - patches the module
) -> AsyncIterator[TokenLookups]:
    lookups = TokenLookups(connected, Capacity.of(settings))
    yield lookups
    await lookups.close()


async def test_a_token_is_remembered_for_less_than_a_second_even_if_it_is_revoked(
    lookups: TokenLookups, grant: Grant, clock: Clock, database: Database
) -> None:
    digest = digest_of(await grant("persons:read"))
    assert lookups.recall(digest) is None
    principal = await lookups.find(digest)
    assert principal == Principal("0", frozenset({"persons:read"}))
    await Tokens(database).revoke("0")
    clock.seconds = 0.39
    assert lookups.recall(digest) is principal
    clock.seconds = 0.9
    assert lookups.recall(digest) is None
    with pytest.raises(InvalidToken, match="revoked"):
        await lookups.find(digest)


async def test_a_token_is_not_remembered_beyond_its_expiry(
    connected: Database, settings: Settings, grant: Grant, clock: Clock
) -> None:
    lookups = TokenLookups(connected, replace(Capacity.of(settings), token_seconds=1_000))
    digest = digest_of(await grant("read", expires=datetime.now(UTC) + timedelta(seconds=600)))
    await lookups.find(digest)
    clock.seconds = 500
    assert lookups.recall(digest)
    clock.seconds = 600
    assert lookups.recall(digest) is None


async def test_unknown_tokens_share_queries(
    lookups: TokenLookups, grant: Grant, commands: CommandLog
) -> None:
    valid = digest_of(await grant("read"))
    commands.names()
    unknown = [digest_of(str(number)) for number in range(500)]
    results = await asyncio.gather(*map(lookups.find, [*unknown, valid]), return_exceptions=True)
    assert {type(result) for result in results[:-1]} == {InvalidToken}
    assert not isinstance(results[-1], BaseException)
    assert len(commands.take("find")) < 10


async def test_lookups_beyond_the_limit_are_refused(database: Database, settings: Settings) -> None:
    lookups = TokenLookups(
        database, replace(Capacity.of(settings), small_requests=2, queue_length=1)
    )
    digests = [digest_of(str(number)) for number in range(5)]
    results = await asyncio.gather(*map(lookups.find, digests), return_exceptions=True)
    assert [type(result) for result in results] == [InvalidToken] * 3 + [Overloaded] * 2


async def test_the_use_of_a_token_is_stored_at_most_hourly(
    lookups: TokenLookups, grant: Grant, connected: Database, commands: CommandLog
) -> None:
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    digests = [
        digest_of(await grant("read", last_used=used))
        for used in (None, now - 1.1 * hour, now - 0.9 * hour)
    ]
    digests.append(digest_of(await grant("read", revoked=now)))
    for _ in range(2):
        await asyncio.gather(*map(lookups.find, digests), return_exceptions=True)
        await lookups.close()
        assert lookups._update is not None
        assert lookups._update.done(), "close waits for it"
    assert commands.take("update") == ["tokens"]
    tokens = await Tokens(connected).find_all()
    used = [token.last_used for token in tokens]
    is_new = [time_ is not None and time_ >= now - timedelta(seconds=1) for time_ in used]
    assert is_new == [True, True, False, False]


async def test_tokens_in_memory_are_limited(
    connected: Database, settings: Settings, grant: Grant
) -> None:
    lookups = TokenLookups(connected, replace(Capacity.of(settings), known_tokens=1))
    digests = [digest_of(await grant("read")) for _ in range(3)]
    for digest in digests:
        await lookups.find(digest)
    assert [lookups.recall(digest) is not None for digest in digests] == [False, False, True]
