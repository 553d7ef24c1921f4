"""Where a checkout has its data, and private files: no other user can replace or read them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import registry
from registry.program import is_default, new_file, open_private

OTHER_USER = 65534  # nobody

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of this user that an attacker would like to have overwritten."""
    file = tmp_path / "precious"
    file.write_bytes(b"precious")
    return file


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_does_not_follow_a_waiting_link(tmp_path: Path, precious: Path) -> None:
    path = tmp_path / "registry.backup"
    path.with_name(f"{path.name}.partial").symlink_to(precious)
    with new_file(path) as file:
        file.write(b"secret")
    assert precious.read_bytes() == b"precious"
    assert not path.is_symlink()
    assert path.read_bytes() == b"secret"


def test_the_first_of_two_new_files_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "registry.backup"
    late = new_file(path)
    late.__enter__().write(b"22")
    with new_file(path) as first:
        first.write(b"1")
    with pytest.raises(FileExistsError):
        late.__exit__(None, None, None)
    assert path.read_bytes() == b"1"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("open_umask")
def test_only_this_user_can_read_the_files(tmp_path: Path) -> None:
    created, found, written = tmp_path / "created", tmp_path / "found", tmp_path / "written"
    found.touch(0o666)
    open_private(created).close()
    open_private(found).close()
    with new_file(written):
        assert [mode(path) for path in tmp_path.iterdir()] == [0o600] * 3
    assert mode(written) == 0o600


def test_a_private_file_is_not_a_link(tmp_path: Path, precious: Path) -> None:
    link = tmp_path / "lock"
    link.symlink_to(precious)
    with pytest.raises(OSError, match="lock is a symbolic link"):
        open_private(link)
    link.unlink()
    link.symlink_to(tmp_path / "new")
    with pytest.raises(OSError, match="lock is a symbolic link"):
        open_private(link)
    assert list(tmp_path.glob("new")) == []


def test_a_private_file_is_not_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(PermissionError, match="lock is not a file of this user"):
        open_private(tmp_path / "lock")


@needs_root
def test_a_private_file_is_not_that_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "lock").touch(0o666)
    os.chown(tmp_path / "lock", OTHER_USER, OTHER_USER)
    with pytest.raises(PermissionError, match="lock is not a file of this user"):
        open_private(tmp_path / "lock")
    # Its owner could replace each file.
    os.chown(tmp_path, OTHER_USER, OTHER_USER)
    open_private(tmp_path / "lock").close()


def test_a_checkout_has_its_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(registry.__file__).parents[1]
    monkeypatch.chdir(root)
    assert is_default(Path("data"))
    assert is_default(root / "data")
    monkeypatch.chdir(tmp_path)
    assert not is_default(Path("data"))
    assert is_default(root / "data")
