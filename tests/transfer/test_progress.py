"""Progress: lines where there is no terminal."""

from __future__ import annotations

import sys

import pytest

from registry.transfer import progress
from registry.transfer.progress import SECONDS, shown_progress


def test_a_line_is_written_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = [0.0, SECONDS - 1, SECONDS + 1, SECONDS + 2, 2 * SECONDS + 1]
    monkeypatch.setattr(progress, "monotonic", iter(times).__next__)
    with shown_progress("rows") as shown:
        for _ in times[1:]:
            shown.add(3_000)
    assert capsys.readouterr().err == (
        "6,000 rows, 1,000 per second\n12,000 rows, 1,091 per second\n"
    )


def test_nothing_is_shown_if_standard_error_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with shown_progress("rows", 2) as shown:
        shown.add(1)
        shown.note("line 2: not valid")
    assert capsys.readouterr().out == ""
