"""Batches of rows, each small enough for one request."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from registry.transfer.rows import Attributes, InvalidRow, Row

MAX_OPERATIONS = 1_000
"""Operations per request, the default limit of the service."""

_MAX_BYTES = 2**19
"""Estimated bytes per request, half of what the service accepts."""

NOT_CONTINUED = "continues the row before, which is not valid or has another person"

_OPERATION_BYTES = 160
"""Bytes of an operation without its values."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Successive rows of a file, and the invalid ones among them.

    A row that continues the one before is alone in its batch.
    """

    rows: list[Row] = field(default_factory=list)
    invalid: list[InvalidRow] = field(default_factory=list)

    @property
    def first_line(self) -> int:
        """The number of the first line."""
        rows: list[Row | InvalidRow] = [*self.rows[:1], *self.invalid[:1]]
        return min(row.line for row in rows)

    @property
    def continues(self) -> bool:
        """Whether it has a row that continues the last one of the batch before."""
        return any(row.continues for row in self.rows[:1])


def batches(rows: Iterable[Row | InvalidRow]) -> Iterator[Batch]:
    """Yield the rows in batches, in order. A row that is too large for one is alone in its own."""
    batch, operations, size = Batch(), 0, 0
    for row in _continuations_checked(rows):
        more, bytes_ = _size(row)
        is_full = operations + more > MAX_OPERATIONS or size + bytes_ > _MAX_BYTES
        is_continuation = isinstance(row, Row) and row.continues
        if operations and (is_full or is_continuation or batch.continues):
            yield batch
            batch, operations, size = Batch(), 0, 0
        operations, size = operations + more, size + bytes_
        if isinstance(row, Row):
            batch.rows.append(row)
        else:
            batch.invalid.append(row)
    if operations:
        yield batch


def _continuations_checked(rows: Iterable[Row | InvalidRow]) -> Iterator[Row | InvalidRow]:
    """Yield the rows; one that continues a row of another person, or an invalid one, is invalid."""
    person: Attributes | None = None
    for row in rows:
        if isinstance(row, Row) and row.continues and row.person != person:
            yield InvalidRow(row.line, NOT_CONTINUED)
            person = None
        else:
            yield row
            person = row.person if isinstance(row, Row) else None


def is_large(row: Row) -> bool:
    """Return whether a row is too large for one request."""
    operations, size = _size(row)
    return operations > MAX_OPERATIONS or size > _MAX_BYTES


def _size(row: Row | InvalidRow) -> tuple[int, int]:
    """Return the operations of a row, and an estimate of their bytes."""
    if isinstance(row, InvalidRow):
        return 1, 0  # bounds their number
    resources = [*([] if row.person is None else [row.person]), *row.computers]
    values = chain.from_iterable(each.values() for each in resources)
    # Half of the most that a character takes in UTF-8, as _MAX_BYTES is half of the limit.
    return len(resources), len(resources) * _OPERATION_BYTES + 2 * len("".join(map(str, values)))
