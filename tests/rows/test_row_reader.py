"""CSV files: what rows say, and what is reported of those that are not valid."""

import csv
import io
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.csv_format import CsvTable
from registry.jsonapi.documents import PLAIN
from registry.jsonapi.error_types import InvalidFile
from registry.jsonapi.query import Query
from registry.jsonapi.row_options import RowOptions
from registry.model.graph import Graph
from registry.model.record import Record
from registry.rows.row_reader import RowReader
from registry.rows.rows import Row
from tests.devices import WITH_DEVICES

GRAPH = Graph(WITH_DEVICES)
COLUMNS = ("name", "note", "size", "price", "active")


def read(text: str | bytes, charset: str = "utf-8", size: int = 2**20, **options: Any) -> list[Row]:
    """Return the rows of a file that arrives in pieces of this size."""
    data, rows = text.encode() if isinstance(text, str) else text, list[Row]()
    reader = RowReader(GRAPH["device"], GRAPH, RowOptions(**options), charset)
    for start in range(0, len(data), size):
        rows += filter(None, reader.read(data[start : start + size]))
    return [*rows, *filter(None, reader.read(b"", is_last=True))]


def names_in(text: str) -> list[tuple[int, Any]]:
    """Return the line and the name of each row, which must be valid."""
    found = read(text)
    return [(row.line, row.own.sent["name"]) for row in found if not row.errors]


def lines_of(found: list[Row]) -> list[str]:
    return [
        " ".join(map(str, each["source"].values())) + f": {each['detail']}"
        for row in found
        for each in row.errors
    ]


def written(*values: Mapping[str, Any], names: tuple[str, ...] = COLUMNS) -> str:
    table = CsvTable(Query({"device": dict.fromkeys(names).keys()}), GRAPH["device"], GRAPH)
    load = {name: attribute.from_json for name, attribute in GRAPH["device"].attributes.items()}
    records: list[Record] = [
        {
            "_id": id_,
            **{name: None if value is None else load[name](value) for name, value in each.items()},
        }
        for id_, each in enumerate(values, 1)
    ]
    return (table.header + table.encode(records, PLAIN)).decode("utf-8-sig")


@pytest.mark.parametrize(
    "text",
    [
        "name,note\nA,x\nB,\n",
        "note,name\r\nx,A\r\n,B\r\n",
        "name;note\nA;x\nB;\n\n;\n  ;  \n",
        "sep=;\r\nname;note\r\nA;x\r\nB;\r\n",
        "name\tnote\rA\tx\rB\t\r",
        ' name , note \n  A , x \n B,""\n',
    ],
)
@pytest.mark.parametrize("size", [1, 5, 100])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_files_from_spreadsheets_are_read(text: str, encoding: str, size: int) -> None:
    data, charset = text.encode(encoding), encoding.replace("cp", "windows-")
    values = [row.own.sent for row in read(data, charset, size, replaces=True) if not row.errors]
    assert values == [{"name": "A", "note": "x"}, {"name": "B", "note": None}]


def test_a_quoted_line_break_is_part_of_the_cell() -> None:
    assert names_in('name\n"A\nB"\nC\n') == [(2, "A\nB"), (4, "C")]


def test_every_invalid_cell_is_reported_with_its_line_and_column() -> None:
    assert lines_of(read("name,size,price,active\nA,five,1,5,x\nB,five,abc,x\n")) == [
        "2: The row has 5 cells instead of 4.",
        "3 size: Not a 64-bit integer.",
        '3 price: Not a decimal number in a string, such as "12.50", with at most 24 '
        "digits before the point and 10 after it.",
        "3 active: Not true or false.",
    ]


@pytest.mark.parametrize(
    ("name", "cell", "value"),
    [
        ("bought", "2026-02-28", "2026-02-28"),
        ("bought", "28.02.2026", "2026-02-28"),
        ("bought", "1.2.2026", "2026-02-01"),
        ("active", "TRUE", True),
        ("active", "yes", True),
        ("active", "1", True),
        ("active", "No", False),
        ("price", "12.50", "12.50"),
    ],
)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_values_are_read_as_people_write_them(
    name: str, cell: str, value: object, delimiter: str
) -> None:
    [row] = read(f"name{delimiter}{name}\nA{delimiter}{cell}\n")
    assert (lines_of([row]), row.own.sent) == ([], {"name": "A", name: value})


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_decimal_comma_needs_another_separator_of_cells(delimiter: str) -> None:
    [row] = read(f"name{delimiter}price\nA{delimiter}12,50\n")
    assert (lines_of([row]), row.own.sent["price"]) == ([], "12.50")
    [error] = lines_of(read('name,price\nA,"12,50"\n'))
    assert error.startswith("2 price: Not a decimal number")
    [error] = lines_of(read(f"name{delimiter}price\nA{delimiter}1.012,50\n"))
    assert error.startswith("2 price: Not a decimal number")


@pytest.mark.parametrize("cell", ["28/02/2026", "2/28/2026", "2026/02/28"])
@pytest.mark.parametrize(("name", "time"), [("bought", ""), ("seen", " 12:30")])
def test_a_date_with_slashes_is_refused_with_the_form_to_use(
    name: str, time: str, cell: str
) -> None:
    assert lines_of(read(f"name,{name}\nA,{cell}{time}\n")) == [
        f"2 {name}: Countries read a date with slashes differently: write 2026-02-28 or 28.02.2026."
    ]


def test_a_column_without_a_name_must_be_empty() -> None:
    found = read("name,,\nA,,\nB,,x\n")
    assert [row.line for row in found if not row.errors] == [2]
    assert lines_of(found) == ["3: There is a value in a column without a name."]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (",\n", "The file has no header."),
        ("name,owner.email\n", "The column `owner.email` does not fit"),
        ("name,name\n", "The column `name` occurs twice"),
        ('sep="\nname\n', 'The column `sep="` does not fit'),
        ("sep=\r\nname\r\n", "The column `sep=` does not fit"),
        ('"name\n', "Line 1, the header: This is not CSV"),
        (b"name,\xed\xb2\x80\n", "The header has lone surrogates"),
        ("x" * (2**20 + 1), "Line 1 is longer than 1,048,576 characters"),
        ("x" * (2**20 + 1) + "\nA\n", "Line 1 is longer than 1,048,576 characters"),
        ("name" + "," * 1_000, "The file has 1,001 columns, more than 1,000"),
    ],
)
def test_a_header_that_does_not_fit_stops(text: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidFile) as raised:
        read(text)
    assert str(raised.value).startswith(reason)


@pytest.mark.parametrize("text", ['"name",note\nA,x\n', "sep=;\nname;note\nA;x\n"])
def test_a_byte_order_mark_may_precede_a_quote_or_the_delimiter(text: str) -> None:
    for charset in ("utf-8", "utf-16le", "utf-16be"):
        [row] = read(f"\ufeff{text}".encode(charset), charset)
        assert row.own.sent == {"name": "A", "note": "x"}


@pytest.mark.parametrize("text", ["name\nA\n", "n"])
def test_utf_16_begins_with_a_byte_order_mark(text: str) -> None:
    with pytest.raises(InvalidFile, match="The file is not UTF-16"):
        read(text.encode("utf-16-le"), "utf-16")


def test_values_without_a_column_name_are_one_error() -> None:
    assert lines_of(read("name,,\nB,x,y\n")) == ["2: There is a value in a column without a name."]


def test_a_related_resource_with_only_an_id_needs_a_value_of_the_chosen_key() -> None:
    found = read("name,holder.id,holder.email\nA,1,\nB,1,a@x.org\n", keys={"person": ("email",)})
    assert lines_of(found) == ["2 holder.email: It is a key: the cell must not be empty."]
    holder = found[1].links["holder"]
    assert holder is not None
    assert holder.key == ("email",)


def test_little_is_kept_of_an_invalid_row() -> None:
    [row] = read("name,note\n" + "x" * 10_000 + ",y\n")
    assert not row.own.sent
    assert [len(each["meta"]["value"]) for each in row.errors] == [100]


def test_an_unclosed_quote_says_which_lines_are_not_read() -> None:
    found = read('name\nA\n"B\nC\nD\n')
    assert [row.line for row in found] == [2, 3]
    assert "is a quote not closed?" in lines_of(found)[0]
    assert lines_of(found)[0].endswith("read up to line 5)")
    assert len(read('name\n"A"B\nC\n')) == 2


SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20"
TEXT = st.text(st.sampled_from(f"{SIGNS}\t\r\n\0 ;,'\"a"), min_size=1, max_size=8)


@given(name=TEXT, note=TEXT | st.none())
def test_no_cell_is_a_formula_and_every_value_reads_the_same(name: str, note: str | None) -> None:
    text = written({"name": name, "note": note}, names=("name", "note"))
    [row] = read(text, replaces=True)
    assert not row.errors
    assert row.own.sent == {"name": name, "note": note}
    for delimiter in ",;\t":  # some spreadsheets divide cells at semicolons or tabs
        for cells in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            assert not [cell for cell in cells if cell.startswith(tuple(SIGNS))]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("'=1+1", "''=1+1"),
        ("-5", "'-5"),
        ("a;@b", "a;'@b"),
        ("a\t=1", "a\t'=1"),
        (" a", "' a"),
        ("'t Hooft", "'t Hooft"),
        ("a=b", "a=b"),
    ],
)
def test_an_apostrophe_precedes_a_formula_and_a_blank(value: str, cell: str) -> None:
    assert written({"name": value}, names=("name",)) == f"name\r\n{cell}\r\n"
    assert names_in(f"name\n{cell}\n") == [(2, value)]


def test_numbers_and_booleans_are_written_as_they_are() -> None:
    values = {"name": "A", "note": None, "size": -1, "price": "-1.50", "active": True}
    text = written(values)
    assert text.splitlines()[1] == "A,,-1,-1.50,true"
    [row] = read(text, replaces=True)
    assert not row.errors
    assert row.own.sent == values
