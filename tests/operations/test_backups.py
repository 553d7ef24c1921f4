"""Backups: everything at one point in time, checked before it is restored, even if it is malign."""

import asyncio
import os
import signal
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from gzip import GzipFile, compress
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any

import pytest
from bson import encode
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from hypothesis import given
from hypothesis import strategies as st
from motor.motor_asyncio import AsyncIOMotorCollection

from registry.model.graph import Graph
from registry.operations.backups import Backup, BackupError, Manifest, back_up, restore
from registry.operations.consistency import check
from registry.program import StartError, new_file
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.testing import new_name
from tests.conftest import Serve
from tests.mongods import client_of
from tests.support import Api, Database
from tests.waiting import eventually

Content = dict[str, list[bytes]]

HEADER, END = encode({"format": 2, "time": "2026-01-01T00:00:00Z"}), encode({})
NAME, DOCUMENT = encode({"collection": "a"}), encode({"_id": 1})

GZIP_HEADER = 10
"""Bytes, among them a time, that the checksum of gzip does not cover."""


@pytest.fixture
async def other(mongodb_uri: str, drop: Callable[[str], object]) -> AsyncIterator[Database]:
    """An empty database."""
    async with client_of(mongodb_uri) as client:
        yield client[(name := new_name())]
    drop(name)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.backup"


async def content_of(database: Database) -> Content:
    """Return the bytes of all documents, by collection."""
    raw: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument)
    return {
        name: [each.raw async for each in database.get_collection(name, raw).find().sort("_id")]
        for name in sorted(await database.list_collection_names())
    }


async def has_documents(collection: AsyncIOMotorCollection[dict[str, Any]]) -> bool:
    return await collection.find_one() is not None


def files_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def permissions(path: Path) -> int:
    return path.stat().st_mode & 0o777


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def back_up_to(database: Database, path: Path) -> Manifest:
    with new_file(path) as file:
        return await back_up(database, file)


async def restore_file(database: Database, path: Path) -> Manifest:
    with FileIO(path) as file:
        return await restore(database, Backup(file))


@pytest.fixture
async def backup(database: Database, path: Path) -> Path:
    """A backup of a few documents."""
    await database["a"].insert_many({"_id": n} for n in range(100))
    await back_up_to(database, path)
    return path


async def store_some(api: Api, database: Database) -> None:
    await api.person("Grace", "Hopper")
    await api.computer("SN-1", owner="1")
    await database["a/b: %"].insert_many({"_id": n, "text": "x" * n} for n in range(3_000))


async def test_a_restored_database_has_every_byte_of_the_one_backed_up(
    api: Api, database: Database, other: Database, path: Path
) -> None:
    await store_some(api, database)
    before = await content_of(database)
    manifest = await back_up_to(database, path)

    assert manifest.documents == {name: len(documents) for name, documents in before.items()}
    assert permissions(path) == 0o600
    assert await restore_file(other, path) == manifest
    restored = await content_of(other)
    assert {name: restored.get(name, []) for name in before} == before
    assert restored.keys() <= before.keys()


async def test_a_service_continues_the_revisions_of_a_backup(
    serve: Serve, settings: Settings, database: Database, other: Database, path: Path
) -> None:
    revised = replace(settings, revisions=30)
    before = await serve(settings=revised)
    await before.person("Ada", "King")
    await before.request("DELETE", "/persons/1")
    await back_up_to(database, path)
    await restore_file(other, path)

    after = await serve(settings=replace(revised, database=other.name))
    assert (await after.get("/revisions")).data == (await before.get("/revisions")).data
    await after.person("Bob", "King")
    document = (await after.get("/revisions?page[number]=1")).document
    assert [revision["id"] for revision in document["data"]] == ["1", "2", "3"]
    assert document["meta"]["total"] == 3
    indexes = await other.revisions.index_information()
    assert indexes["at_1"]["expireAfterSeconds"] == 30 * 86_400
    assert (await check(other, Graph(RESOURCES, 30))).total == 0


async def test_a_backup_shows_one_point_in_time_while_clients_write(
    database: Database, other: Database, path: Path
) -> None:
    """Each write inserts into two collections at once: a backup has both documents or none."""
    first, second = await database.create_collection("a"), await database.create_collection("z")
    await database["m"].insert_many({"_id": n, "text": "x" * 10_000} for n in range(3_000))
    is_done = asyncio.Event()

    async def insert_pairs() -> int:
        number = 0
        async with await database.client.start_session() as session:
            while not is_done.is_set():
                number += 1
                async with session.start_transaction():
                    await first.insert_one({"_id": number}, session=session)
                    await second.insert_one({"_id": number}, session=session)
        return number

    writing = asyncio.create_task(insert_pairs())
    assert await eventually(lambda: has_documents(first))
    await back_up_to(database, path)
    is_done.set()
    written = await writing
    await restore_file(other, path)

    count = await other["a"].count_documents({})
    assert 0 < count < written
    assert await other["z"].count_documents({}) == count


async def test_an_interrupted_backup_leaves_no_file(
    database: Database, path: Path, tmp_path: Path
) -> None:
    await database["a"].insert_many({"_id": n, "text": os.urandom(100)} for n in range(50_000))
    running = asyncio.create_task(back_up_to(database, path))
    assert await eventually(partial(files_in, tmp_path))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert files_in(tmp_path) == []


def test_a_damaged_backup_is_refused() -> None:
    whole = compress(HEADER + NAME + DOCUMENT + END + END)
    truncated = [whole[:length] for length in range(len(whole))]
    changed = [
        bytes((*whole[:place], whole[place] ^ 1, *whole[place + 1 :]))
        for place in range(GZIP_HEADER, len(whole))
    ]
    for damaged in (*truncated, *changed):
        with pytest.raises(BackupError, match="it is damaged or incomplete"):
            Backup(BytesIO(damaged))


async def test_the_database_of_a_service_that_has_stored_nothing_is_empty(
    other: Database, backup: Path, serve: Serve, mongodb_uri: str
) -> None:
    await serve(settings=Settings(mongodb_uri=mongodb_uri, database=other.name))

    await restore_file(other, backup)
    assert await other["a"].count_documents({}) == 100


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        ([{"_id": 1, "text": "x" * 1_000}] * 2, "MongoDB failed: E11000 duplicate key error"),
        ([bytes.fromhex("11000000 026100 ff000000 78000000 00 00")], "MongoDB failed: .*BSON"),
        ([b"\x06\0\0\0\0\x01"], "it has a malformed document"),
    ],
    ids=["one id twice", "a text beyond its document", "no end"],
)
async def test_documents_that_mongodb_refuses_are_reported_in_one_line(
    documents: list[Any], reason: str, other: Database, path: Path
) -> None:
    encoded = [
        document if isinstance(document, bytes) else encode(document) for document in documents
    ]
    write(path, compress(HEADER + encode({"collection": "a"}) + b"".join(encoded) + END + END))
    with pytest.raises(BackupError, match=f"^{reason}") as caught:
        await restore_file(other, path)
    assert len(str(caught.value)) < 400


async def test_a_restore_stops_before_the_disk_of_mongod_is_full(
    other: Database, backup: Path, tmp_path: Path
) -> None:
    with FileIO(backup) as file:
        opened, full = Backup(file), Path("/proc")  # a file system without free space
        with pytest.raises(BackupError, match="has less than 64 MB of free space"):
            await restore(other, opened, full)
        await restore(other, opened, tmp_path)
    assert await other["a"].count_documents({}) == 100


_RESTORE = """
import asyncio, os, signal, sys
from io import FileIO
from motor.motor_asyncio import AsyncIOMotorClient
from registry.operations.backups import Backup, restore

def killed(batches):
    for number, batch in enumerate(batches):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch

async def main(uri, name, path):
    backup = Backup(FileIO(path))
    batches = backup.batches()
    backup.batches = lambda: killed(batches)
    await restore(AsyncIOMotorClient(uri)[name], backup)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_service_refuses_a_database_that_is_partly_restored(
    database: Database, other: Database, path: Path, serve: Serve, mongodb_uri: str
) -> None:
    await database["a"].insert_many({"_id": n, "text": "x" * 1_000} for n in range(30_000))
    await back_up_to(database, path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _RESTORE, mongodb_uri, other.name, str(path))
    )
    assert await process.wait() == -signal.SIGKILL
    assert 0 < await other["a"].count_documents({}) < 30_000

    with pytest.raises(StartError, match="only a part of a backup"):
        await serve(settings=Settings(mongodb_uri=mongodb_uri, database=other.name))
    await restore_file(other, path)
    assert await other["a"].count_documents({}) == 30_000
    await serve(settings=Settings(mongodb_uri=mongodb_uri, database=other.name))


def checked(content: bytes) -> Backup:
    """Return the backup in a file that has the right checksum."""
    return Backup(BytesIO(compress(content)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05",
        END,
        HEADER,
        HEADER + END + b"\0",
        HEADER + NAME + END,
        HEADER + NAME + DOCUMENT,
        HEADER + NAME + DOCUMENT[:-1],
        HEADER + NAME + b"\0\0\0\0\0",
        HEADER + NAME + b"\xff\xff\xff\x7f" + bytes(100),
        HEADER + encode({"collection": "system.views"}) + END + END,
        HEADER + encode({"collection": "incomplete_restore"}) + END + END,
        HEADER + encode({"collection": ""}) + END + END,
        HEADER + encode({"collection": 1}) + END + END,
        HEADER + encode({"collection": "x" * 1_000}) + END + END,
        encode({"format": 1}) + END,
        encode({"format": 2}) + END,
        encode({"format": 2, "time": 1}) + END,
    ],
    ids=repr,
)
def test_a_malformed_backup_is_refused(content: bytes) -> None:
    with pytest.raises(BackupError, match=r"^it is damaged|^its format is not"):
        checked(content)


def test_the_largest_document_is_read() -> None:
    document = encode({"_id": 1, "a": "x" * (16 * 2**20 - 100)})
    backup = checked(HEADER + NAME + document + END + END)
    assert list(backup.batches()) == [("a", [document]), ("a", [])]


def test_a_compression_bomb_takes_little_memory(path: Path) -> None:
    with GzipFile(path, "wb") as file:
        file.write(HEADER + NAME + b"\xff\xff\xff\x7f")
        for _ in range(200):
            file.write(b" " * 2**20)
    tracemalloc.start()
    try:
        with path.open("rb") as bomb, pytest.raises(BackupError):
            Backup(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * 2**20


@given(
    changes=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 255)), max_size=6),
    end=st.integers(0, 100),
    is_compressed=st.booleans(),
)
def test_any_damage_is_reported_as_a_backup_error(
    changes: list[tuple[int, int]], end: int, is_compressed: bool
) -> None:
    content = HEADER + NAME + DOCUMENT + END + END
    changed = bytearray(compress(content) if is_compressed else content)
    for position, value in changes:
        changed[position % len(changed)] = value
    file = changed[:end] if is_compressed else compress(changed[:end])
    with suppress(BackupError):
        Backup(BytesIO(file))
