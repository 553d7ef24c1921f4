"""CSV files: what rows mean, and what is reported of those that are not valid."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.transfer.csv_rows import COLUMNS, read_csv, write_csv, write_csv_header
from registry.transfer.exporter import MAX_COMPUTERS
from registry.transfer.lines import MAX_ROW
from registry.transfer.rows import InvalidFile, InvalidRow, Row

HEADER = b"first_name,last_name,email,serials\n"
ADA = {"first_name": "Ada", "last_name": "Lovelace", "email": None}


def read(content: bytes) -> list[Row | InvalidRow]:
    file = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", "surrogateescape", newline="")
    return list(read_csv(file))


def written(rows: Sequence[Row], columns: Sequence[str] = COLUMNS) -> bytes:
    binary = io.BytesIO()
    file = io.TextIOWrapper(binary, "utf-8", newline="")
    write_csv_header(columns, file)
    write_csv(rows, columns, file)
    file.flush()
    return binary.getvalue()


def serials(*values: str) -> list[dict[str, str]]:
    return [{"serial": value} for value in values]


def test_a_row_is_a_person_with_their_computers() -> None:
    [row] = read(HEADER + b"Ada,Lovelace,ada@example.org, A-1 ;A-2;\n")
    assert row == Row({**ADA, "email": "ada@example.org"}, serials("A-1", "A-2"), 2)


def test_a_row_whose_serials_begin_with_a_semicolon_continues_the_one_before() -> None:
    rows = [Row(ADA, serials("A-1"), 2), Row(ADA, serials(" ", "A-2"), 3, continues=True)]
    assert read(written(rows)) == rows


def test_the_largest_row_of_an_export_can_be_read() -> None:
    longest = '"' * 255  # four characters each: doubled in the list, and again in the cell
    row = Row({**ADA, "first_name": longest}, serials(*[longest] * MAX_COMPUTERS), 2)
    assert read(written([row])) == [row]


def test_an_empty_email_is_null_and_an_empty_name_stays_a_text() -> None:
    [row] = read(HEADER + b",Lovelace,,\n")
    assert row == Row({**ADA, "first_name": ""}, [], 2)


def test_a_row_without_a_person_has_computers_without_an_owner() -> None:
    assert read(HEADER + b",,,A-1;A-2\n") == [Row(None, serials("A-1", "A-2"), 2)]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_lines_end_as_on_any_system_and_blank_ones_are_skipped(ending: bytes) -> None:
    content = (HEADER + b"\nAda,Lovelace,,\n \nAda,Lovelace,,").replace(b"\n", ending)
    assert [row.line for row in read(content)] == [3, 5]


def test_columns_may_be_in_any_order_and_follow_a_byte_order_mark() -> None:
    [row] = read(b"\xef\xbb\xbfserials,last_name,first_name\nA-1,Lovelace,Ada\n")
    assert row == Row({"first_name": "Ada", "last_name": "Lovelace"}, serials("A-1"), 2)


@pytest.mark.parametrize(
    "serial",
    [
        "A;1",
        '"A"',
        'A"1',
        '24" x',
        ";",
        " A",
        "A ",
        " ",
        "A\nB",
        "A\r\nB",
        "\r",
        "A,B",
        "é",
        "\x00",
    ],
)
def test_a_row_that_is_written_reads_the_same(serial: str) -> None:
    rows = [Row(ADA, serials(serial, "B", serial), 2), Row(None, serials(serial))]
    found = read(written(rows))
    assert [(row.person, row.computers) for row in found if isinstance(row, Row)] == [
        (row.person, row.computers) for row in rows
    ]


FORMULAS = "=+-@\t\r\n\0\uff1d\uff0b\uff0d\uff20"
FORMULA_TEXT = st.text(st.sampled_from(f"{FORMULAS};,'\"a "), min_size=1, max_size=8)


@given(
    names=st.tuples(FORMULA_TEXT, FORMULA_TEXT),
    email=FORMULA_TEXT | st.none(),
    values=st.lists(FORMULA_TEXT, max_size=4),
)
def test_no_cell_is_a_formula_and_every_value_reads_the_same(
    names: tuple[str, str], email: str | None, values: list[str]
) -> None:
    person = {"first_name": names[0], "last_name": names[1], "email": email}
    row = Row(person, serials(*values), 2)
    content = written([row])
    assert read(content) == [row]
    for delimiter in ",;":  # some spreadsheets divide cells at semicolons
        lines = io.StringIO(content.decode(), newline="")
        for cells in csv.reader(lines, delimiter=delimiter):
            assert not [cell for cell in cells if cell.startswith(tuple(FORMULAS))]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("'=1+1", "''=1+1"),
        ("-5", "'-5"),
        ("a;@b", "a;'@b"),
        ("O'Neil", "O'Neil"),
        ("'quoted'", "'quoted'"),
        ("a=b", "a=b"),
    ],
)
def test_an_apostrophe_precedes_a_formula(value: str, cell: str) -> None:
    assert written([Row({"email": value}, [])], ["email"]).decode() == f"email\r\n{cell}\r\n"


def test_a_file_with_formulas_that_are_not_escaped_is_read_as_it_is() -> None:
    [row] = read(HEADER + b"=Ada,+Lovelace,,-1;@2\n")
    person = {"first_name": "=Ada", "last_name": "+Lovelace", "email": None}
    assert row == Row(person, serials("-1", "@2"), 2)


def test_only_the_chosen_columns_are_written() -> None:
    content = written([Row({"first_name": "Ada", "last_name": "Lovelace"}, [])], ["last_name"])
    assert content == b"last_name\r\nLovelace\r\n"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"Ada,Lovelace", "2 columns instead of 4"),
        (b"Ada,Lovelace,,A-1,more", "5 columns instead of 4"),
        (b"," * 1_000_000, "1,000,001 columns instead of 4"),
        (b"Ad\xe4,Lovelace,,A-1", "first_name is not UTF-8: byte 0xe4 at character 3"),
        (b'"Ada,Lovelace,,A-1', "not CSV: "),
        (b'Ada,"Love"lace,,A-1', "not CSV: "),
        (b'Ada,Lovelace,,"""A-1;A-2"', "serials: a quote is not closed in '\"A-1;A-2'"),
        (b'Ada,Lovelace,,"""A""B;A-2"', "serials: a quote is not closed in "),
        (b",,,", "neither a person nor serials"),
        (b",,, ;A-1", "continues a row, but has no person"),
        (b"x" * (MAX_ROW + 1), "longer than 8,388,608 characters"),
        (b"x" * MAX_ROW + b",Lovelace,,A-1", "longer than 8,388,608 characters"),
    ],
)
def test_an_invalid_row_is_reported_with_its_line_and_the_others_are_read(
    row: bytes, reason: str
) -> None:
    before, after = b'"Grace\nBrewster",Hopper,,\n', b'Alan,"Turing",,\nZoe,Last,,\n'
    found = read(HEADER + before + row + b"\n" + after)
    assert [each.line for each in found] == [2, 4, 5, 6]
    invalid = found[1]
    assert isinstance(invalid, InvalidRow)
    assert invalid.reason.startswith(reason)


def test_a_quote_that_is_not_closed_before_the_end_costs_only_its_row() -> None:
    found = read(HEADER + b'"Ada,Lovelace,,\n' + b"Alan,Turing,,\n" * 2)
    reason = "not CSV: a quote that opens in this row is not closed before the end of the file"
    assert found[0] == InvalidRow(2, reason)
    assert [each.line for each in found[1:]] == [3, 4]


def test_a_quote_that_is_not_closed_within_the_longest_row_costs_only_its_row() -> None:
    others = b"Alan," + b"x" * (MAX_ROW // 2) + b",,\n"
    found = read(HEADER + b'"Ada,Lovelace,,\n' + 2 * others)
    assert isinstance(found[0], InvalidRow)
    assert "a quote that opens in this row is not closed" in found[0].reason
    assert [each.line for each in found] == [2, 3, 4]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"", "the file is empty"),
        (b"first_name,email,serials\n", "but is 'first_name,email,serials'"),
        (HEADER.strip() + b",phone\n", "serials,phone' (5 columns)"),
        (HEADER.strip() + b",email\n", "the column email occurs twice"),
        (b"a," * 1_000_000 + b"\n", "(1,000,001 columns)"),
        (b"x" * (MAX_ROW + 1) + b"\n", "the header is longer than 8,388,608 characters"),
        (HEADER.replace(b",", b";"), "the columns are separated by semicolons"),
        (HEADER.replace(b",", b"\t"), "the columns are separated by tabs"),
        (b"\x7fELF\x00\xff\n", "but is '\\x7fELF\\x00\\udcff'"),
        ("\ufefffirst_name".encode("utf-16-le"), "the file is UTF-16: save it as UTF-8"),
        (b'"first_name,last_name\n', "the header is not CSV: a quote"),
    ],
)
def test_a_file_without_a_valid_header_is_not_read(header: bytes, reason: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(header + b"Ada,Lovelace,,A-1\n" * bool(header))
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 250
