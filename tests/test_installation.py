"""The installation: where a checkout has its data."""

from __future__ import annotations

from pathlib import Path

import pytest

import registry
from registry.program import is_default


def test_a_checkout_has_its_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(registry.__file__).parents[1]
    monkeypatch.chdir(root)
    assert is_default(Path("data"))
    assert is_default(root / "data")
    monkeypatch.chdir(tmp_path)
    assert not is_default(Path("data"))
    assert is_default(root / "data")
