"""The file of a backup, also one that somebody has made to do harm: its checksum is right."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_LZMA

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.operations.backup_archive import BackupError, new_archive, open_backup

EMPTY = b"\x05\0\0\0\0"
"""A BSON document without members."""

MEGABYTE = 2**20


def manifest(**members: Any) -> bytes:
    """Return a manifest of the collection `a` with one document, except for these members."""
    collection = {"name": "a", "member": "a.bson", "documents": 1}
    whole = {
        "time": "2026-01-01T00:00:00Z",
        "registry": "1.0",
        "collections": [collection | members.pop("collection", {})],
        "format": 1,
    }
    return orjson.dumps(whole | members)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.backup"


def write(path: Path, members: Mapping[str, bytes], compression: int = ZIP_DEFLATED) -> Path:
    """Write a backup with these members of its archive."""
    with path.open("wb+") as file, new_archive(file) as archive:
        for name, content in members.items():
            archive.writestr(name, content, compression, compresslevel=9)
    return path


def read(path: Path) -> list[bytes]:
    """Return the documents of a backup."""
    with open_backup(FileIO(path)) as backup:
        batches = [batch for one in backup.manifest.collections for batch in backup.batches(one)]
    return [bytes(document.raw) for batch in batches for document in batch]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        manifest(format=2),
        manifest(format="1"),
        manifest(format=[]),
        manifest(format=True),
        manifest(time="\x1b[2J"),
        manifest(time=1),
        manifest(registry=None),
        manifest(collections=None),
        manifest(collections={"name": "a"}),
        manifest(collections=[1]),
        manifest(collections=[{"name": "a", "member": "a.bson"}]),
        manifest(collections=[{"name": "a", "member": "a.bson", "documents": 1}] * 2),
        manifest(collection={"name": ""}),
        manifest(collection={"name": "x" * 256}),
        manifest(collection={"name": "system.views"}),
        manifest(collection={"name": "incomplete_restore"}),
        manifest(collection={"name": ["a"]}),
        manifest(collection={"member": "b.bson"}),
        manifest(collection={"member": ["a.bson"]}),
        manifest(collection={"documents": "1"}),
        manifest(collection={"other": 1}),
        manifest(other=1),
    ],
)
def test_a_malformed_manifest_is_refused(content: bytes, path: Path) -> None:
    with pytest.raises(BackupError, match=r"^its (manifest.json|archive|format) is "):
        read(write(path, {"manifest.json": content, "a.bson": EMPTY}))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05",
        EMPTY * 2,
        EMPTY + b"\x05",
        b"\0\0\0\0\0",
        b"\x04\0\0\0\0",
        b"\xff\xff\xff\xff\0",
        b"\xff\xff\xff\x7f" + bytes(100),
        b"\x06\0\0\0\0",
        b"\x05\0\0\0\x01",
    ],
    ids=repr,
)
def test_malformed_documents_are_refused(content: bytes, path: Path) -> None:
    with pytest.raises(BackupError, match=r"^its a is not 1 document|^its archive|^it has a doc"):
        read(write(path, {"manifest.json": manifest(), "a.bson": content}))


def test_a_backup_that_inflates_more_than_any_is_refused(path: Path) -> None:
    content = EMPTY * MEGABYTE
    whole = manifest(collection={"documents": MEGABYTE})
    write(path, {"manifest.json": whole, "a.bson": content})
    assert len(content) > 300 * path.stat().st_size
    with pytest.raises(BackupError, match="it inflates to more than 300 times its size"):
        read(path)


def test_the_most_compressible_backup_is_read(path: Path) -> None:
    text = b"x" * (8 * MEGABYTE)
    length = len(text) + 13
    document = (
        length.to_bytes(4, "little")
        + b"\x02a\0"
        + (len(text) + 1).to_bytes(4, "little")
        + text
        + b"\0\0"
    )
    with path.open("wb+") as file, new_archive(file) as archive:
        archive.writestr("manifest.json", manifest())
        archive.writestr("a.bson", document)
    assert read(path) == [document]


def test_another_compression_is_refused(path: Path) -> None:
    """LZMA allocates what the archive asks for."""
    with pytest.raises(BackupError, match="its compression is not the one of a backup"):
        read(write(path, {"manifest.json": manifest(), "a.bson": EMPTY}, ZIP_LZMA))


def test_a_large_directory_is_refused(path: Path) -> None:
    members = {str(number): b"" for number in range(30_000)}
    with pytest.raises(BackupError, match="its directory is too large"):
        read(write(path, {**members, "manifest.json": manifest(), "a.bson": EMPTY}))


@pytest.mark.parametrize("name", ["manifest.json", "a.bson"])
def test_a_compression_bomb_takes_little_memory(name: str, path: Path) -> None:
    inflated = 200 * MEGABYTE
    with path.open("wb+") as file, new_archive(file) as archive:
        for each, content in {"manifest.json": manifest(), "a.bson": b"\xff\xff\xff\x7f"}.items():
            with archive.open(each, "w") as member:
                member.write(content)
                for _ in range(inflated // MEGABYTE if each == name else 0):
                    member.write(b" " * MEGABYTE)
    tracemalloc.start()
    try:
        with pytest.raises(BackupError):
            read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * MEGABYTE


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 10_000), st.one_of(st.just(0), st.integers(0, 255))), max_size=6
    ),
    end=st.integers(0, 400),
)
def test_no_file_causes_another_error(
    changes: list[tuple[int, int]], end: int, tmp_path: Path
) -> None:
    path = tmp_path / "mutated.backup"
    write(path, {"manifest.json": manifest(), "a.bson": EMPTY})
    content = bytearray(path.read_bytes())
    body = len(content) - 64  # what the checksum covers
    for position, value in changes:
        content[position % body] = value
    head = bytes(content[: min(end * 4, body - 7)]) + bytes(content[body - 7 : body])
    path.write_bytes(head + hashlib.sha256(head).hexdigest().encode())
    with suppress(BackupError, OSError):
        read(path)
