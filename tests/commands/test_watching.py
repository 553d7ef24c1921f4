"""`registry watch`: which changes are delivered, in which order, and how they are signed."""

import asyncio
import random
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from bson.timestamp import Timestamp
from standardwebhooks import Webhook as Verifier

from registry.client import Client, RegistryError
from registry.commands.watch import Deliver, ReceiverGone, Webhook, store, watch
from registry.http.followers import FOLLOWERS
from registry.program import StartError
from registry.settings import Settings
from registry.storage.mongo.change_feed import Positions
from tests.commands.conftest import RunCommand
from tests.conftest import Grant, Serve
from tests.support import Api
from tests.waiting import eventually

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


@asynccontextmanager
async def watching(
    api: Api, deliver: Deliver, file: Path | None = None, *types: str
) -> AsyncIterator[asyncio.Task[Any]]:
    """Watch the service until the context ends."""
    async with Client(api.origin) as client:
        task = asyncio.create_task(watch(client, types, deliver, file))
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


class Inbox:
    """Keeps what is delivered, by id and in the order of the first delivery."""

    def __init__(self) -> None:
        self.changes: dict[str, Any] = {}
        self.count = 0
        self._arrived = asyncio.Condition()

    async def deliver(self, id_: str, body: bytes) -> None:
        assert self.changes.setdefault(id_, orjson.loads(body)) == orjson.loads(body)
        self.count += 1
        async with self._arrived:
            self._arrived.notify_all()

    async def wait(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30), self._arrived:
            await self._arrived.wait_for(condition)

    def has(self, serial: str) -> bool:
        return serial in self.serials

    @property
    def serials(self) -> list[str]:
        return [change["data"]["attributes"]["serial"] for change in self.changes.values()]


def serials_of(count: int) -> list[str]:
    return [f"SN-{number}" for number in range(count)]


def add(serial: str) -> Any:
    return {"op": "add", "data": {"type": "computer", "attributes": {"serial": serial}}}


@pytest.fixture
def position_file(tmp_path: Path) -> Path:
    return tmp_path / "position"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow again at once."""
    monkeypatch.setattr(Client, "pause_seconds", 0.01)


def stored(file: Path) -> str:
    return file.read_text().strip()


async def begin(api: Api, file: Path) -> None:
    """Store the present position."""
    response = await api.get("/computers?page[size]=1")
    store(file, response.headers["Registry-Position"])


async def test_a_watch_that_is_ended_at_any_point_misses_no_change(
    api: Api, position_file: Path
) -> None:
    choose, inbox, runs = random.Random(7), Inbox(), 0  # noqa: S311 - the same ones
    await begin(api, position_file)
    serials = serials_of(60)
    for start in range(0, 60, 5):
        await api.operate(*map(add, serials[start : start + choose.randint(1, 5)]))
    stored = [resource["attributes"]["serial"] for resource in (await api.get("/computers")).data]
    while len(inbox.changes) < len(stored):
        runs += 1
        left = choose.randint(0, 6)
        is_before = choose.random() < 0.5

        async def deliver(id_: str, body: bytes) -> None:
            nonlocal left
            if is_before and not left:  # noqa: B023 - called in this run only
                raise asyncio.CancelledError
            await inbox.deliver(id_, body)
            if not left or len(inbox.changes) == len(stored):
                raise asyncio.CancelledError
            left -= 1

        async with watching(api, deliver, position_file) as task:
            await asyncio.wait([task])
    assert inbox.serials == stored
    assert runs > 5


async def test_changes_of_a_transaction_have_ids_of_their_own(
    api: Api, position_file: Path
) -> None:
    inbox = Inbox()
    await begin(api, position_file)
    await api.operate(*map(add, serials_of(3)))
    await api.computer("alone")
    async with watching(api, inbox.deliver, position_file):
        await inbox.wait(lambda: len(inbox.changes) == 4)
    first, second, third, alone = inbox.changes
    assert [first, second] == [f"{third}-1", f"{third}-2"]
    assert len({third[:24], alone}) == 2
    assert stored(position_file) == alone


async def test_a_first_watch_begins_at_the_present_and_keeps_it(
    api: Api, position_file: Path
) -> None:
    await api.computer("before")
    async with watching(api, Inbox().deliver, position_file):
        assert await eventually(position_file.exists)
    await api.computer("after")
    inbox = Inbox()
    async with watching(api, inbox.deliver, position_file):
        await inbox.wait(lambda: len(inbox.changes) == 1)
    assert inbox.serials == ["after"]


async def test_a_watch_continues_when_the_service_ends_the_connection(
    api: Api, tmp_path: Path
) -> None:
    inbox, file = Inbox(), tmp_path / "position"
    store(file, (await api.get("/changes")).headers["Registry-Position"])
    assert api.client.app
    feed = api.client.app[FOLLOWERS]
    async with watching(api, inbox.deliver, file, "computer"):
        for serial in serials_of(5):
            await api.person()
            await api.computer(serial)
            await inbox.wait(partial(inbox.has, serial))
            feed.end_all()
            assert await eventually(lambda: len(feed) == 0)
    assert inbox.serials == serials_of(5)


async def refused(api: Api, file: Path | None, token: str | None = None) -> str:
    async with Client(api.origin, token) as client:
        with pytest.raises((RegistryError, StartError)) as caught:
            await watch(client, (), Inbox().deliver, file)
    return str(caught.value)


async def test_a_watch_ends_if_its_position_is_refused(api: Api, position_file: Path) -> None:
    store(position_file, Positions(b"else").encode(Timestamp(1_700_000_000, 1)))
    restored = await refused(api, position_file)
    assert "is a position of another database" in restored
    store(position_file, "x")
    assert "`x` is not a complete position" in await refused(api, position_file)
    for text in ("", "a\x01b"):
        store(position_file, text)
        assert "has no position: read the resources again" in await refused(api, position_file)


async def test_a_watch_needs_a_token_where_the_service_does(
    serve: Serve, secured: Settings, grant: Grant
) -> None:
    api = await serve(settings=secured)
    assert "401" in await refused(api, None)
    assert "403" in await refused(api, None, await grant("unknown:read"))


class Receiver:
    """A program that accepts deliveries with their signatures, after some refusals."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.inbox = Inbox()
        self.ids: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        Verifier(SECRET).verify(body, dict(request.headers))
        self.ids.append(request.headers["webhook-id"])
        status = self.statuses.pop(0) if self.statuses else 204
        if status == 204:
            assert request.content_type == "application/json"
            await self.inbox.deliver(self.ids[-1], body)
        return web.Response(status=status)


@asynccontextmanager
async def receiving(receiver: Receiver) -> AsyncIterator[Webhook]:
    app = web.Application()
    app.router.add_post("/hook", receiver.handle)
    async with TestServer(app) as server, ClientSession() as session:
        url = str(server.make_url("/hook?team=it"))
        yield Webhook(session, url, b64decode(SECRET.removeprefix("whsec_")))


async def test_deliveries_are_signed_in_order_and_repeated_until_they_are_accepted(
    api: Api, position_file: Path
) -> None:
    receiver = Receiver(302, 204, 204, 503)
    await begin(api, position_file)
    for serial in serials_of(4):
        await api.computer(serial)
    async with receiving(receiver) as webhook, watching(api, webhook.deliver, position_file):
        await receiver.inbox.wait(lambda: len(receiver.inbox.changes) == 4)
    first, second, third, fourth = receiver.inbox.changes
    assert receiver.inbox.serials == serials_of(4)
    assert receiver.ids == [first] * 2 + [second, third, third, fourth]


async def test_a_receiver_that_is_gone_gets_nothing_more(api: Api, position_file: Path) -> None:
    receiver = Receiver(410)
    await begin(api, position_file)
    await api.computer()
    before = stored(position_file)
    async with receiving(receiver) as webhook:
        with pytest.raises(ReceiverGone, match="410"):
            async with Client(api.origin) as client:
                await watch(client, (), webhook.deliver, position_file)
    assert stored(position_file) == before


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_AAAA", "whsec_é", "whsec_==="],
)
async def test_an_invalid_secret_is_refused(run: RunCommand, tmp_path: Path, secret: str) -> None:
    file = tmp_path / "secret"
    file.write_text(secret)
    done = await run("watch", "--post", "http://127.0.0.1:1/", "--secret-file", file)
    assert done.status == 2
    assert "24 to 64 bytes in base64" in done.errors[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--post", "http://h/"], "give both or none"),
        (["--secret-file", "/nowhere"], "/nowhere: No such file or directory"),
        (["--post", "h"], "'h' is not a URL"),
        (["--type", "printer"], "invalid choice: 'printer'"),
        (["--url", "http://127.0.0.1:1"], "cannot reach the service"),
        (["--position-file", "/nowhere/position"], "/nowhere/position: No such file or directory"),
    ],
)
async def test_wrong_arguments_are_reported(
    run: RunCommand, arguments: list[str], message: str
) -> None:
    done = await run("watch", *arguments)
    assert done.status in {1, 2}
    assert message in done.errors[-1]
