"""Filter queries, each compared with the same condition in Python."""

import operator
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from unicodedata import ucd_3_2_0

import pytest

from registry.jsonapi.filtering import AllOf, AnyOf, Condition
from registry.model.attributes import Operator
from registry.model.record import Record
from registry.storage.reads.filters import to_query
from tests.support import Database

pytestmark = pytest.mark.usefixtures("_new_database")  # without validators

TEXTS = [
    *["", " ", "Hopper", "hopper", "HOPPERS", "Hop", "null", "a,b", "a.b*", "axbb", "a\nb"],
    *["^H", "(?i)h", "[a-z]+|\\Q{2}$", "$where", "$last_name", "{'$gt': ''}", "é", "Éclair"],
    *["CAFÉ", "Σίσυφος", "ΣΊΣΥΦΟΣ", "\0", "a\0b", "A\x001", "\\\0", "\ud7ff", "\ud7ffz"],
    *["\ue000", "z\U0010ffff", "z\U0010ffff\U0010ffffa", "\U0010ffff", "\U0010ffffa", "😀"],
]
RECORDS: list[Record] = [
    *({"_id": number, "last_name": text} for number, text in enumerate(TEXTS, 1)),
    {"_id": 900, "last_name": None, "person": None},
    {"_id": 901},
    {"_id": 902, "last_name": "Hopper", "person": 7},
    {"_id": 2**63 - 1, "last_name": "Hopper", "person": 2**63 - 1},
]
EQUALITIES: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.IN: lambda stored, values: stored in values,
}
ORDERINGS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
    Operator.PREFIX: str.startswith,
    Operator.CONTAINS: lambda stored, part: part.casefold() in stored.casefold(),
}


def compares(record: Record, condition: Condition) -> bool:
    stored = record.get(condition.stored_name)
    if condition.operator in EQUALITIES:
        return EQUALITIES[condition.operator](stored, condition.value)
    return stored is not None and ORDERINGS[condition.operator](stored, condition.value)


@pytest.fixture
async def stored(database: Database) -> Database:
    await database.persons.insert_many(RECORDS)
    await database.persons.create_index([("last_name", 1), ("_id", 1)])
    return database


async def check(database: Database, *conditions: Condition) -> None:
    """Compare the results of filters, with an index and without, with the expected ones."""
    for condition in conditions:
        expected = [record["_id"] for record in RECORDS if compares(record, condition)]
        for hint in ([("$natural", 1)], None):
            cursor = database.persons.find(to_query(condition), {"_id": 1}, hint=hint)
            ids = [record["_id"] async for record in cursor]
            assert sorted(ids) == expected, condition


@pytest.mark.parametrize(
    "compared", [operator for operator in Operator if operator is not Operator.IN]
)
async def test_text_is_compared_as_in_python(stored: Database, compared: Operator) -> None:
    await check(stored, *(Condition("last_name", compared, text) for text in TEXTS))


def cased_pairs() -> list[tuple[str, str]]:
    """Return every letter with each that Unicode 3.2 maps it to, in both directions."""
    letters = map(chr, range(sys.maxunicode + 1))
    pairs = {
        (letter, other)
        for letter in letters
        for other in (letter.lower(), letter.upper(), letter.title())
        if other != letter and len(other) == 1
        # MongoDB need not know more recent ones.
        if "Cn" not in {ucd_3_2_0.category(letter), ucd_3_2_0.category(other)}
    }
    return sorted(pairs | {(other, letter) for letter, other in pairs})


async def containing(database: Database, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those pairs of which a text with the second is found by the first, in one query."""
    await database.persons.insert_many(
        [{"_id": number, "last_name": f"<{stored}>"} for number, (_, stored) in enumerate(pairs)]
    )
    conditions = (
        AllOf(
            (
                Condition("_id", Operator.EQ, number),
                Condition("last_name", Operator.CONTAINS, f"{sought}>"),
            )
        )
        for number, (sought, _) in enumerate(pairs)
    )
    cursor = database.persons.find(to_query(AnyOf(tuple(conditions))), {"_id": 1})
    return sorted([pairs[record["_id"]] async for record in cursor])


async def test_contains_ignores_the_case_of_letters(database: Database) -> None:
    pairs = cased_pairs()
    assert len(pairs) > 1500
    different = [("I", "\u0131"), ("\u0131", "I")]  # the dotless i has a folding of its own
    assert await containing(database, pairs) == [pair for pair in pairs if pair not in different]


async def test_contains_distinguishes_letters_that_differ_in_more_than_case(
    database: Database,
) -> None:
    letters = sorted({letter for pair in cased_pairs() for letter in pair}, key=str.casefold)
    others = [pair for pair in pairwise(letters) if pair[0].casefold() != pair[1].casefold()]
    assert await containing(database, [*others, ("ß", "ss"), ("ss", "ß")]) == []


@pytest.mark.parametrize(
    "text",
    [
        *["a" * 8000, "\0" * 2700, "." * 8000, "é" * 4000, "k" * 8000, "😀" * 2000],
        *["ß" * 4000, "в" * 4000, "ა" * 2700, "𞤀" * 2000],
    ],
)
async def test_contains_takes_the_longest_value_that_fits_a_url(
    database: Database, text: str
) -> None:
    await database.persons.insert_one({"_id": 1, "last_name": text})
    query = to_query(Condition("last_name", Operator.CONTAINS, text))
    assert await database.persons.count_documents(query) == 1


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        (Condition("last_name", Operator.EQ, "Hopper"), ['["Hopper", "Hopper"]']),
        (Condition("last_name", Operator.IN, ("b", "a")), ['["a", "a"]', '["b", "b"]']),
        (Condition("last_name", Operator.PREFIX, "Ho"), ['["Ho", "Hp")']),
        (Condition("last_name", Operator.PREFIX, "a.*"), ['["a.*", "a.+")']),
        (Condition("last_name", Operator.PREFIX, "z\U0010ffff"), ['["z\U0010ffff", "{")']),
        (Condition("last_name", Operator.PREFIX, ""), ['["", {})']),
    ],
)
async def test_index_bounds_are_exact(
    stored: Database, condition: Condition, bounds: list[str]
) -> None:
    plan = await stored.persons.find(to_query(AllOf((condition,)))).explain()
    assert "IXSCAN" in str(plan["queryPlanner"]["winningPlan"])
    assert _bounds(plan["queryPlanner"]["winningPlan"]) == bounds


def _bounds(stage: dict[str, Any]) -> list[str]:
    while "indexBounds" not in stage:
        stage = stage.get("queryPlan") or stage["inputStage"]
    bounds: list[str] = stage["indexBounds"]["last_name"]
    return bounds
