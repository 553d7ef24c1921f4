"""Progress where there is no terminal, and generated data."""

from __future__ import annotations

import sys

import pytest

from registry.commands import import_
from registry.commands.import_ import LINE_SECONDS, Tally, generate
from registry.model.graph import Graph
from registry.program import note
from registry.resources import RESOURCES
from registry.transfer.row_files import Row


def test_lines_are_written_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = [LINE_SECONDS - 1, LINE_SECONDS + 1, LINE_SECONDS + 2, 2 * LINE_SECONDS + 1]
    monkeypatch.setattr(import_, "monotonic", iter(times).__next__)
    tally = Tally(Graph(RESOURCES), "URL", started=0.0, shown=0.0)
    for _ in times:
        tally.add([Row("person")] * 3_000)
    assert capsys.readouterr().err == (
        "6,000 rows, 1,000 per second\n12,000 rows, 1,091 per second\n"
    )


def test_nothing_is_shown_without_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    Tally(Graph(RESOURCES), "URL", shown=-LINE_SECONDS).add([])
    note("line 2: not valid")
    assert capsys.readouterr().out == ""


def test_a_seed_produces_the_same_data_in_every_version() -> None:
    persons, computers = list(generate(1_000, 0, 1)), list(generate(1_000, 3_000, 1))[1_000:]
    email = "dennis.boone@example.com"
    assert persons[0].values == {"first_name": "Dennis", "last_name": "Boone", "email": email}
    owners = [each.links["owner"] for each in computers[:3]]
    assert [owner and owner.lid for owner in owners] == ["245", "1", "562"]
    serials = [each.values["serial"] for each in computers[:3]]
    assert serials == ["C02210200001", "PF241100002", "C02184200003"]


def test_some_generated_values_are_missing_and_no_address_occurs_twice() -> None:
    rows = list(generate(1_000, 1_000, 2))
    emails = [row.values.get("email") for row in rows[:1_000]]
    owners = [row.links["owner"] for row in rows[1_000:]]
    assert 50 < emails.count(None) < 150
    assert len(set(emails)) == 1_001 - emails.count(None)
    assert 50 < owners.count(None) < 150
    assert [row.links["owner"] for row in generate(0, 3, 1)] == [None] * 3
