"""The change feed: what followers get, in which order, and where they can continue."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest
from bson.int64 import Int64
from bson.timestamp import Timestamp
from pymongo.errors import AutoReconnect, OperationFailure

from registry.http.followers import FOLLOWERS
from registry.resources.types_file import TypesFile
from registry.settings import Settings
from registry.storage.mongo.change_feed import ChangeFeed, Positions
from registry.storage.tokens import Tokens
from tests.conftest import LIMITS, Header, Serve
from tests.devices import WITH_DEVICES
from tests.feed import SECONDS, Stream, following
from tests.mongods import client_of, initiate, other_mongod
from tests.support import (
    COMPUTER,
    PERSON,
    Api,
    Database,
    add,
    complete_record,
    identifier,
    identity,
    new,
    to_many,
    to_one,
)
from tests.waiting import eventually

STREAM = {"Accept": "text/event-stream"}

TASKS = """
[task]
collection = "tasks"
title  = "text"
parent = {link = "task", inverse = "children"}
place  = {link = "place", inverse = "tasks"}

[place]
collection = "places"
name = "text"
"""
"""A type that links to itself, and to one that is declared after it."""


FEW_RECENT_CHANGES = {"recent_seconds": 0, "kept_changes": 5}
"""Older changes are soon read from a change stream of their own."""


async def present(api: Api) -> str:
    """Return the present position."""
    return (await api.get("/persons?page[size]=1")).headers["Registry-Position"]


async def stream_status(api: Api, query: str = "", **headers: str) -> tuple[int, str]:
    """Return the status, and the code of the error, of a request for events that is refused."""
    async with asyncio.timeout(SECONDS):  # otherwise it is not refused, and follows
        response = await api.get(f"/changes{query}", **STREAM, **headers)
    return response.status, response.document["errors"][0]["code"]


async def test_each_change_is_an_atomic_operation(api: Api) -> None:
    async with following(api) as feed:
        ada = await api.person("Ada", "Lovelace")
        laptop = await api.computer("SN-1", ada)
        await api.patch(f"/persons/{ada}", new("person", last_name="King"))
        await api.set_computers(ada)
        await api.delete(f"/computers/{laptop}")
        operations = await feed.changes(5)
    assert [operation.pop("meta", None) is None for operation in operations] == [False] * 4 + [True]
    person, computer = identifier("person", ada), identifier("computer", laptop)
    created = new("person", first_name="Ada", last_name="Lovelace", email=None)
    assert operations == [
        {"op": "add", "data": person | created},
        {"op": "add", "data": computer | new("computer", {"owner": to_one(ada)}, serial="SN-1")},
        {"op": "update", "data": person | new("person", last_name="King")},
        {"op": "update", "data": computer | new("computer", {"owner": to_one(None)})},
        {"op": "remove", "ref": computer},
    ]


async def test_only_the_last_change_of_a_transaction_has_an_id(api: Api) -> None:
    async with following(api) as feed:
        grace = await api.person()
        await api.operate(*[add(COMPUTER)] * 20)
        await api.set_computers(grace, *map(str, range(1, 21)))
        await api.delete(f"/persons/{grace}")
        events = [await feed.next() for _ in range(1 + 20 + 20 + 21)]
    ids = [number for number, event in enumerate(events) if event.id]
    assert ids == [0, 20, 40, 61]
    assert len({event.id for event in events}) == 5


async def test_a_client_lists_and_follows_without_a_gap(api: Api) -> None:
    """Positions of every kind of document, while others write."""
    ada = await api.person("Ada")
    computer = await api.computer("SN-0", ada)
    done = asyncio.Event()

    async def write() -> None:
        while not done.is_set():
            await api.computer(owner=ada)

    writing = asyncio.create_task(write())
    linkage = f"/persons/{ada}/relationships/computers"
    listed = [
        await api.get(path)
        for path in (
            *("/computers", "/computers?page[size]=100", "/computers?page[number]=1&sort=-serial"),
            *(f"/persons/{ada}?include=computers", f"/persons/{ada}/computers"),
            *(linkage, f"{linkage}?page[size]=100"),
            f"/computers/{computer}/owner?include=computers",
            f"/computers/{computer}/relationships/owner?include=owner.computers",
        )
    ]
    done.set()
    await writing
    last = await api.computer("last")
    expected = set((await api.get("/computers")).ids)
    for response in listed:
        shown = set(re.findall(r'"type": "computer", "id": "(\d+)"', json.dumps(response.document)))
        async with following(api, after=response.headers["Registry-Position"]) as feed:
            while last not in shown:
                shown.update(await feed.ids(1))
        assert shown == expected


async def test_every_document_that_is_read_has_a_position(api: Api) -> None:
    await api.person("Ada")
    tag = (await api.get("/persons/1")).headers["ETag"]
    paths = ("/persons", "/persons?page[size]=1", "/persons/1", "/changes")
    for method, path, headers, status in (
        *((method, path, {}, 200) for path in paths for method in ("GET", "HEAD")),
        ("GET", "/persons/1", {"If-None-Match": tag}, 304),
        ("GET", "/persons", {"If-None-Match": "*"}, 304),
    ):
        response = await api.request(method, path, headers=headers)
        assert (response.status, len(response.headers["Registry-Position"])) == (status, 24), path


async def test_a_follower_continues_after_the_last_id_it_has(api: Api) -> None:
    async with following(api) as feed:
        first = await api.person("Ada")
        assert await feed.ids(1) == [first]
    position = feed.position
    second = await api.person("Grace")
    for query, after in (("", position), (f"?page[after]={position}", None)):
        async with following(api, query, after) as feed:
            assert await feed.ids(1) == [second]
    third = await api.person("Edith")
    async with following(api, f"?page[after]={position}", after=feed.position) as feed:
        assert await feed.ids(1) == [third]


async def test_the_feed_has_no_hidden_or_internal_fields(api: Api, database: Database) -> None:
    ada = int(await api.person("Ada"))
    async with following(api) as feed:
        for values in (
            *({"password": "secret"}, {"version": 99}, {"full_name": "Ada"}),
            *({"unknown": 1}, {"updated_at": "2026-02-28T12:30:00.000Z"}),
        ):
            await database.persons.update_one({"_id": ada}, {"$set": values})
        await database.persons.update_one({"_id": ada}, {"$set": {"password": "x", "email": "a@b"}})
        await database.persons.insert_one(
            complete_record(
                {"_id": Int64(7), "first_name": "A", "last_name": "B", "password": "c", "more": 1}
            )
        )
        text = json.dumps(operations := await feed.changes(2))
    assert operations[0]["data"]["attributes"] == {"email": "a@b"}
    assert operations[1]["data"]["attributes"].keys() == {"first_name", "last_name", "email"}
    assert "password" not in text
    assert "secret" not in text


async def test_attributes_of_all_types_have_the_form_of_documents(serve: Serve) -> None:
    api = await serve(WITH_DEVICES)
    values = {"name": "n", "price": "12.50", "seen": "2026-02-28T12:30:00+01:00", "active": True}
    async with following(api) as feed:
        id_ = await api.create(new("device", **values))
        (operation,) = await feed.changes(1)
    shown = (await api.get(f"/devices/{id_}")).data["attributes"]
    read_only = {"state", "label"}
    sent = operation["data"]["attributes"]
    assert sent == {name: value for name, value in shown.items() if name not in read_only}
    del operation["meta"]
    assert (await api.operate(operation)).status == 200


async def test_an_addition_precedes_links_to_it(serve: Serve, settings: Settings) -> None:
    api = await serve(settings=replace(settings, types=TypesFile(TASKS)))
    here, first = {"type": "place", "lid": "1"}, {"type": "task", "lid": "2"}
    links = {"parent": {"data": first}, "place": {"data": here}}
    async with following(api) as feed:
        response = await api.operate(
            add(new("place", name="here"), "1"),
            add(new("task", title="first"), "2"),
            add(new("task", links, title="second")),
            {"op": "update", "ref": {**first, "relationship": "place"}, "data": here},
        )
        assert response.status == 200, response.document
        operations = await feed.changes(3)
    known = set[tuple[str, str]]()
    for operation in operations:
        linked = [
            relationship["data"]
            for relationship in operation["data"].get("relationships", {}).values()
        ]
        assert {identity(link) for link in linked if link} <= known
        known.add(identity(operation["data"]))
    assert len(known) == 3


async def test_scopes_decide_on_types_and_links(guarded: Api, header: Header) -> None:
    everything = await header("write")
    start = (await guarded.get("/persons", **everything)).headers["Registry-Position"]
    ada = await guarded.create(PERSON, **everything)
    laptop = await guarded.create(
        new("computer", {"owner": to_one(ada)}, serial="SN-1"), **everything
    )
    await guarded.patch(f"/persons/{ada}/relationships/computers", [], **everything)
    await guarded.create(new("computer", serial="SN-2"), **everything)

    async def found(number: int, *scopes: str, query: str = "") -> list[Any]:
        async with following(guarded, query, start, await header(*scopes)) as feed:
            return await feed.changes(number)

    assert [change["data"]["type"] for change in await found(4, "read")] == ["person"] + [
        "computer"
    ] * 3
    added, *_ = computers = await found(2, "computers:read")
    assert [computer["data"]["attributes"]["serial"] for computer in computers] == ["SN-1", "SN-2"]
    assert "relationships" not in json.dumps(computers)
    assert added["data"]["id"] == laptop
    linked = await found(3, "write", query="?filter[type]=computer")
    assert [("owner" in str(link)) for link in linked] == [True, True, True]
    limited = STREAM | await header("persons:read")
    refused = await guarded.get("/changes?filter[type]=person,computer", **limited)
    assert refused.errors == [(403, "filter[type]")]
    assert (await guarded.get("/changes", **STREAM)).status == 401


async def test_the_author_and_the_time_of_a_change_are_its_meta(
    guarded: Api, header: Header, database: Database
) -> None:
    sender, other = await header("write"), await header("write")
    async with following(guarded, headers=sender) as feed:
        path = f"/persons/{await guarded.create(PERSON, **sender)}"
        shown = f"{path}?fields[person]=updated_at,updated_by"
        expected = [(await guarded.get(shown, **sender)).data["attributes"]]
        await guarded.patch(path, new("person", email="a@example.com"), **other)
        expected.append((await guarded.get(shown, **sender)).data["attributes"])
        assert [change["meta"] for change in await feed.changes(2)] == expected
        assert [wanted["updated_by"] for wanted in expected] == ["0", "1"]
        # Of links, of each computer.
        members = to_many(*[await guarded.create(COMPUTER, **sender) for _ in range(2)])["data"]
        await feed.changes(2)
        for author, linked in ((sender, members), (other, []), (other, members)):
            await guarded.patch(f"{path}/relationships/computers", linked, **author)
        metas = [change["meta"] for change in await feed.changes(6)]
        assert [meta["updated_by"] for meta in metas] == ["0"] * 2 + ["1"] * 4
        assert metas == sorted(metas, key=lambda meta: meta["updated_at"])
        # Of another program, it is not known.
        await database.computers.update_one({}, {"$set": {"serial": "SN-2"}})
        assert (await feed.changes(1))[0]["meta"]["updated_by"] is None


async def test_the_feed_of_a_revoked_or_expired_token_ends(
    guarded: Api, header: Header, database: Database
) -> None:
    later = {"expires": datetime.now(UTC) + timedelta(hours=1)}
    kept, revoked, expiring = [await header("read", **more) for more in ({}, {}, later)]
    async with (
        following(guarded, headers=kept) as others,
        following(guarded, headers=revoked) as ended,
        following(guarded, headers=expiring) as expired,
    ):
        await Tokens(database).revoke("1")
        now = {"$set": {"expires": datetime.now(UTC)}}
        await database["tokens"].update_one({"name": "2"}, now)
        for feed, reason in ((ended, "revoked"), (expired, "expired")):
            last = await feed.next()
            (error,) = last.data["errors"]
            assert (last.name, error["code"]) == ("end", "invalid_token")
            assert reason in error["detail"]
            with pytest.raises(EOFError):
                await feed.next()
        await database.persons.insert_one(
            complete_record({"_id": 1, "first_name": "A", "last_name": "B"})
        )
        assert len(await others.changes(1)) == 1


async def test_an_invalid_position_is_refused(api: Api, database: Database) -> None:
    now = await api.repository.now()
    later = api.repository.positions.encode(Timestamp(now.time + 3_600, 1))
    other = (await Positions.of(database, "persons")).encode(Timestamp(1_700_000_000, 1))
    for position in ("x", "AAAA" * 6, "é" * 24, "A" * 8_000, "%00", other, later):
        query = f"?page[after]={position}"
        assert await stream_status(api, query) == (400, "invalid_position"), position
        if position.isalnum() and position.isascii():
            sent = {"Last-Event-ID": position}
            assert await stream_status(api, **sent) == (400, "invalid_position")
        if position not in {other, later}:
            assert (await api.get(f"/changes{query}")).errors == [(400, "page[after]")]


async def test_a_position_whose_changes_are_no_longer_kept_is_refused(
    serve: Serve, settings: Settings, mongodb_uri: str
) -> None:
    # The oplog is truncated at checkpoints only.
    options = ("--replSet", "other", "--oplogSize", "1", "--syncdelay", "1")
    async with other_mongod(mongodb_uri, *options) as uri:
        await initiate(uri)
        api = await serve(settings=replace(settings, mongodb_uri=uri))
        start = await present(api)
        repository = api.repository

        async def is_expired() -> bool:
            async with client_of(uri) as client:
                await client.other.others.insert_many({"text": "x" * 100_000} for _ in range(20))
            oldest = await repository.oldest_retained_time()
            return oldest is not None and oldest > repository.positions.decode(start)

        assert await eventually(is_expired, 60)
        assert await stream_status(api, f"?page[after]={start}") == (410, "position_expired")
        async with following(api) as feed:
            ada = await api.person()
            assert await feed.ids(1) == [ada]
        await api.client.close()


async def test_other_parameters_are_refused(api: Api) -> None:
    for query, parameters in (
        ("?filter[type]=printer", ["filter[type]"]),
        ("?filter[type]=", ["filter[type]"]),
        ("?filter[type]=person&filter[type]=person", ["filter[type]"]),
        ("?include=owner&page[size]=3", ["include", "page[size]"]),
    ):
        for headers in ({}, STREAM):
            response = await api.get(f"/changes{query}", **headers)
            assert response.errors == [(400, name) for name in parameters]


async def test_json_clients_get_the_present_and_oldest_positions(api: Api) -> None:
    first, decode = await present(api), api.repository.positions.decode
    await api.person()
    for accept in ("*/*", "application/vnd.api+json", "text/event-stream;q=0"):
        response = await api.get("/changes", Accept=accept)
        meta = response.document["meta"]
        assert meta.keys() == {"position", "oldest"}
        assert meta["position"] == response.headers["Registry-Position"]
        assert decode(meta["oldest"]) < decode(first) < decode(meta["position"])
    async with following(api, after=meta["oldest"]) as feed:
        await feed.changes(1)


async def test_a_head_request_does_not_follow_the_feed(api: Api) -> None:
    response = await api.fetch("/changes", "HEAD", **STREAM)
    assert (response.status, response.body) == (200, b"")
    assert response.headers["Content-Type"] == "text/event-stream"
    assert response.headers["Cache-Control"] == "private, no-cache"


@asynccontextmanager
async def raw_follower(
    api: Api, version: str = "1.1", headers: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[socket.socket]:
    """A connection of a client that follows, and reads only what the test reads."""
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(opened, ("127.0.0.1", api.client.port or 0))
        sent = {"Host": "h", **STREAM, **headers}
        fields = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        await loop.sock_sendall(opened, f"GET /changes HTTP/{version}\r\n{fields}\r\n".encode())
        yield opened


async def receive_until(opened: socket.socket, part: bytes) -> bytes:
    received = bytearray()
    async with asyncio.timeout(SECONDS):
        while part not in received[-4096 - len(part) :]:
            some = await asyncio.get_running_loop().sock_recv(opened, 4096)
            assert some, received
            received += some
    return bytes(received)


async def test_an_http_1_0_client_gets_unchunked_events(api: Api) -> None:
    async with raw_follower(api, "1.0") as opened:
        head, _, body = (await receive_until(opened, b"event: position")).partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert body.startswith(b"retry: 2000\n\nevent: position\n")
        await api.person()
        assert b'"op":"add"' in await receive_until(opened, b'"meta"')


def number_of_followers(api: Api) -> int:
    return api.repository.bulkheads.followers.in_progress


async def fill(api: Api, reader: Stream, headers: Mapping[str, str] = MappingProxyType({})) -> None:
    """Make more changes than the kernel buffers for a follower that does not read."""
    for _ in range(20):
        await api.operate(
            *(add(new("computer", serial=f"{number:0250}")) for number in range(1_000)), **headers
        )
        assert len(await reader.changes(1_000)) == 1_000


async def test_only_a_follower_that_does_not_read_is_disconnected(serve: Serve) -> None:
    api = await serve(limits=replace(LIMITS, send_seconds=0.5))
    async with following(api) as reader, raw_follower(api) as silent:
        await receive_until(silent, b"event: position")
        await fill(api, reader)
        assert await eventually(lambda: number_of_followers(api) == 1)
        await api.person()
        assert len(await reader.changes(1)) == 1


async def test_a_follower_that_has_fallen_behind_is_ended(serve: Serve) -> None:
    api = await serve(limits=replace(LIMITS, send_seconds=60.0), kept_changes=1_000)
    async with following(api) as reader, raw_follower(api) as slow:
        await receive_until(slow, b"event: position")
        await fill(api, reader)
        assert number_of_followers(api) == 2
        received = await receive_until(slow, b"0\r\n\r\n")
        assert b"reads more slowly than resources change" in received
        await api.person()
        assert len(await reader.changes(1)) == 1


@pytest.mark.slow
async def test_a_follower_that_is_ended_and_does_not_read_is_disconnected(
    serve: Serve, secured: Settings, header: Header, database: Database
) -> None:
    api = await serve(settings=secured)
    kept, revoked = await header("write"), await header("read")
    async with (
        following(api, headers=kept) as reader,
        raw_follower(api, headers=revoked) as rejected,
        raw_follower(api, headers=kept) as stopped,
    ):
        for opened in (rejected, stopped):
            await receive_until(opened, b"event: position")
        await fill(api, reader, kept)
        assert number_of_followers(api) == 3
        await Tokens(database).revoke("1")
        assert await eventually(lambda: number_of_followers(api) == 2, seconds=40)
        await api.app.shutdown()
        assert await eventually(lambda: number_of_followers(api) == 0, seconds=40)


async def test_a_follower_that_does_not_read_a_short_rest_does_not_hold_a_stop(
    serve: Serve,
) -> None:
    api = await serve()
    async with raw_follower(api) as stopped:
        await receive_until(stopped, b"event: position")
        runner = api.client.server.runner
        server = runner and runner.server
        assert server
        transports = [each.transport for each in server.connections if each.transport]
        for transport in transports:
            opened = transport.get_extra_info("socket")
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        while not any(transport.get_write_buffer_size() for transport in transports):
            await api.operate(*(add(new("computer", serial="S" * 250)) for _ in range(40)))
            await asyncio.sleep(0.3)
        await api.app.shutdown()
        assert await eventually(lambda: number_of_followers(api) == 0, seconds=40)


@pytest.mark.parametrize("code", [280, 13], ids=["position_expired", "internal_error"])
async def test_followers_that_can_never_continue_get_the_reason(
    api: Api, monkeypatch: pytest.MonkeyPatch, code: int, request: pytest.FixtureRequest
) -> None:
    def refuse(_: ChangeFeed) -> None:
        raise OperationFailure("refused", code)

    async with following(api) as feed:
        monkeypatch.setattr(ChangeFeed, "_read", refuse)
        last = await feed.next()
        assert (last.name, last.id) == ("end", "")
        assert [error["code"] for error in last.data["errors"]] == [request.node.callspec.id]
        with pytest.raises(EOFError):
            await feed.next()
    monkeypatch.undo()
    async with following(api) as feed:
        ada = await api.person()
        assert await feed.ids(1) == [ada]


async def test_a_failed_read_closes_its_cursor(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failures = ChangeFeed._read, iter(range(3))

    def fail(feed: ChangeFeed) -> Any:
        found = read(feed)
        if next(failures, None) is not None:
            raise AutoReconnect
        return found

    async def cursors() -> int:
        stages: list[dict[str, Any]] = [
            {"$currentOp": {"idleCursors": True}},
            {"$match": {"ns": f"{database.name}.$cmd.aggregate", "cursor": {"$exists": True}}},
        ]
        return len(await database.client.admin.aggregate(stages).to_list(None))

    async with following(api) as feed:
        monkeypatch.setattr(ChangeFeed, "_read", fail)
        ada = await api.person()
        assert await feed.ids(1) == [ada]
        assert await cursors() <= 1

    async def are_closed() -> bool:
        return await cursors() == 0

    assert await eventually(are_closed)


async def test_events_are_kept_for_few_audiences(serve: Serve) -> None:
    api = await serve(kept_audiences=1)
    async with (
        following(api) as everything,
        following(api, "?filter[type]=person") as persons,
        following(api, "?filter[type]=computer") as computers,
    ):
        ada = await api.person()
        laptop = await api.computer()
        assert await everything.ids(2) == [ada, laptop]
        assert await persons.ids(1) == [ada]
        assert await computers.ids(1) == [laptop]
        window = api.app[FOLLOWERS]._window
        assert window is not None
        assert {len(commit.encoded) for commit in window._commits[1:]} == {1}


async def test_connects_and_disconnects_leave_nothing_open(api: Api) -> None:
    async def visit(number: int) -> None:
        async with raw_follower(api) as opened:
            if number % 3:
                await receive_until(opened, b"HTTP/1.1 200")

    for _ in range(10):
        await asyncio.gather(*map(visit, range(50)))
    assert await eventually(lambda: number_of_followers(api) == 0)
    feed = api.app[FOLLOWERS]
    assert await eventually(lambda: feed._window is None)
    assert len(feed) == 0


async def test_followers_beyond_the_limit_are_refused(serve: Serve) -> None:
    api = await serve(followers=2, queue_seconds=0.1)
    async with following(api):
        assert await stream_status(api) == (503, "overloaded")
        assert (await api.get("/persons")).status == 200
    assert await eventually(lambda: number_of_followers(api) == 0)
    async with following(api):
        pass


async def test_a_quiet_follower_gets_the_position(serve: Serve) -> None:
    api = await serve(quiet_seconds=0.02)
    async with following(api, "?filter[type]=person") as feed:
        await api.person()
        await feed.changes(1)
        first = await feed.next()
        await api.computer()
        while (second := await feed.next()).id == first.id:
            pass
    assert first.name == second.name == "position"
    assert first.data == {"position": first.id}
    ada = await api.person()
    async with following(api, after=second.id) as feed:
        assert await feed.ids(1) == [ada]


async def test_no_change_is_missed_between_positions(serve: Serve) -> None:
    api = await serve(quiet_seconds=0.001)
    async with following(api) as feed:
        for _ in range(30):
            ada = await api.person()
            assert await feed.ids(1) == [ada]


async def test_a_stop_ends_followers_first(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    api = await serve()
    async with following(api) as feed, raw_follower(api) as opened:
        await receive_until(opened, b"event: position")
        await api.app.shutdown()
        with pytest.raises(EOFError):
            await feed.next()
        await receive_until(opened, b"0\r\n\r\n")
        refused = await api.get("/changes", **STREAM)
    assert (refused.status, refused.code) == (503, "unavailable")
    assert "is stopping" in refused.document["errors"][0]["detail"]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_no_change_is_missed_or_repeated_while_a_follower_catches_up(serve: Serve) -> None:
    api = await serve(**FEW_RECENT_CHANGES)
    start, done = await present(api), asyncio.Event()
    expected = [await api.person("first")]

    async def write() -> None:
        async with following(api):  # so that the shared changes go on
            while not done.is_set():
                expected.append(await api.person())
            expected.append(await api.person("last"))

    writing = asyncio.create_task(write())
    found: list[str] = []
    for _ in range(5):
        async with following(api, after=start) as old:
            found += await old.ids(20)
            start = old.position
    done.set()
    await writing
    while len(found) < len(expected):
        with suppress(EOFError):  # has fallen behind
            async with following(api, after=start) as old:
                while len(found) < len(expected):
                    found += await old.ids(1)
                    start = old.position
    assert found == expected


async def write_one_by_one(api: Api, follower: Stream) -> list[str]:
    """Create ten persons, each in a batch of its own; return their ids."""
    ids = []
    for number in range(10):
        ids.append(await api.person(f"{number}"))
        await follower.changes(1)
    return ids


async def test_older_changes_are_read_in_a_slot_of_the_streams(serve: Serve) -> None:
    api = await serve(queue_seconds=0.1, streams=2, **FEW_RECENT_CHANGES)
    streams, start = api.repository.bulkheads.streams, await present(api)
    async with following(api) as recent:
        expected = await write_one_by_one(api, recent)
        query = f"?page[after]={start}"
        async with streams.slot("127.0.0.1"):
            assert await stream_status(api, query) == (503, "overloaded")
            async with following(api):
                pass
        async with following(api, query) as feed:
            assert await feed.ids(10) == expected
            assert await eventually(lambda: streams.is_idle)
