"""Batches: rows in order, in requests that the service accepts."""

from __future__ import annotations

from dataclasses import replace

from registry.transfer.batches import MAX_OPERATIONS, batches, is_large
from registry.transfer.rows import InvalidRow, Row


def row(line: int, computers: int = 0, serial: str = "A") -> Row:
    return Row({"first_name": "Ada"}, [{"serial": serial}] * computers, line)


def test_a_batch_has_as_many_operations_as_a_request_may_have() -> None:
    rows = [row(line, computers=1) for line in range(1, 1_001)]
    sizes = [[each.line for each in batch.rows] for batch in batches(iter(rows))]
    assert sizes == [list(range(1, 501)), list(range(501, 1_001))]


def test_a_batch_of_long_values_has_fewer_rows() -> None:
    rows = [row(line, computers=1, serial="é" * 255) for line in range(1, 1_001)]
    longest = max(len(batch.rows) for batch in batches(iter(rows)))
    assert longest * 2 * 255 * 2 < 2**20


def test_a_row_that_is_too_large_for_one_request_is_alone() -> None:
    large = row(2, computers=MAX_OPERATIONS)
    found = [[each.line for each in batch.rows] for batch in batches(iter([row(1), large, row(3)]))]
    assert found == [[1], [2], [3]]
    assert is_large(large)
    assert not is_large(row(1, computers=MAX_OPERATIONS - 1))


def test_a_row_that_continues_another_is_alone() -> None:
    rows = [row(1), row(2), replace(row(3), continues=True), row(4)]
    found = list(batches(rows))
    assert [[each.line for each in batch.rows] for batch in found] == [[1, 2], [3], [4]]
    assert [batch.continues for batch in found] == [False, True, False]


def test_invalid_rows_count_too() -> None:
    invalid = [InvalidRow(line, "") for line in range(1, 2_001)]
    found = list(batches([*invalid, row(2_001)]))
    assert [len(batch.invalid) for batch in found] == [1_000, 1_000, 0]
    assert [batch.first_line for batch in found] == [1, 1_001, 2_001]
