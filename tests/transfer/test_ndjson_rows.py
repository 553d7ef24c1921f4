"""NDJSON files: documents as rows, and what is reported of lines that are not valid."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from registry.transfer.exporter import MAX_COMPUTERS
from registry.transfer.lines import MAX_ROW
from registry.transfer.ndjson_rows import read_ndjson, write_ndjson
from registry.transfer.rows import PERSON_ATTRIBUTES, InvalidFile, InvalidRow, Row

ADA = {"first_name": "Ada", "last_name": "Lovelace", "email": None}
COMPUTER = {"type": "computer", "id": "7", "attributes": {"serial": "A-1"}}
OWNER = {"owner": {"data": {"type": "person", "id": "1"}}}
LINKED: dict[str, Any] = {
    "data": {
        "type": "person",
        "id": "1",
        "attributes": {**ADA, "full_name": "Ada Lovelace", "updated_by": "ci"},
        "relationships": {"computers": {"data": [{"type": "computer", "id": "7"}]}},
        "links": {"self": "/persons/1"},
    },
    "included": [COMPUTER],
    "jsonapi": {"version": "1.0"},
}


def read(content: bytes) -> list[Row | InvalidRow]:
    file = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", "surrogateescape", newline="")
    return list(read_ndjson(file))


def written(rows: Sequence[Row]) -> bytes:
    file = io.StringIO(newline="")
    write_ndjson(rows, file)
    return file.getvalue().encode()


def read_one(document: Any) -> Row | InvalidRow:
    [row] = read(json.dumps(document).encode())
    return row


def test_a_line_is_a_response_with_a_person_and_their_computers() -> None:
    assert read_one(LINKED) == Row(ADA, [{"serial": "A-1"}], 1)


def test_a_line_may_be_a_computer_with_its_owner_or_without() -> None:
    owner = {"type": "person", "id": "1", "attributes": ADA}
    document = {"data": {**COMPUTER, "relationships": OWNER}, "included": [owner]}
    assert read_one(document) == Row(ADA, [{"serial": "A-1"}], 1)
    without = {"data": {**COMPUTER, "relationships": {"owner": {"data": None}}}}
    assert read_one(without) == read_one({"data": COMPUTER}) == Row(None, [{"serial": "A-1"}], 1)


def test_rows_that_are_written_read_the_same() -> None:
    rows = [
        Row(ADA, [{"serial": "A;\n1"}, {"serial": "é"}]),
        Row(ADA, [{"serial": "A-1"}], continues=True),
        Row(ADA, []),
        Row(None, [{"s": ""}]),
    ]
    assert read(written(rows)) == [replace(row, line=line) for line, row in enumerate(rows, 1)]


def test_the_largest_row_of_an_export_can_be_read() -> None:
    longest = "\0" * 255  # six characters each, as JSON
    person = dict.fromkeys(PERSON_ATTRIBUTES, longest)
    row = Row(person, [{"serial": longest}] * MAX_COMPUTERS, 1, continues=True)
    assert read(written([row])) == [row]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"data": ', "not JSON: "),
        (b'{"data": "\xff"}', "not UTF-8: byte 0xff at character 11"),
        (b"[]", "not a document with a resource in `data`"),
        (json.dumps({"data": {"type": "person"}}).encode(), "not a document with a resource"),
        (json.dumps({"data": {**COMPUTER, "type": "phone"}}).encode(), "the type of the resource"),
        (json.dumps({**LINKED, "included": []}).encode(), "`included` must have the resources"),
        (json.dumps({**LINKED, "included": [COMPUTER] * 2}).encode(), "`included` has a resource"),
        (json.dumps({**LINKED, "included": [None]}).encode(), "`included` must have resources"),
        (json.dumps({**LINKED, "included": 7}).encode(), "`included` must have resources"),
        (json.dumps({"data": {**COMPUTER, "relationships": OWNER}}).encode(), "`included` must"),
        (json.dumps({"data": COMPUTER, "included": [COMPUTER]}).encode(), "`included` must"),
        (json.dumps({"data": {**COMPUTER, "relationships": 7}}).encode(), "`relationships` must"),
        (
            json.dumps({"data": {**COMPUTER, "relationships": {"owner": {"data": 7}}}}).encode(),
            "the data of `owner` must be identifiers",
        ),
        (b"x" * (MAX_ROW + 1), "longer than 8,388,608 characters"),
    ],
)
def test_an_invalid_line_is_reported_and_the_others_are_read(line: bytes, reason: str) -> None:
    good = json.dumps({"data": COMPUTER}).encode()
    found = read(b"\n".join([good, b"", line, good]))
    assert [each.line for each in found] == [1, 3, 4]
    assert isinstance(found[1], InvalidRow)
    assert found[1].reason.startswith(reason)


def test_a_file_in_utf_16_is_not_read() -> None:
    with pytest.raises(InvalidFile, match="UTF-16"):
        read("\ufeff{}".encode("utf-16-le"))
