"""Parsing filters, without a database."""

from __future__ import annotations

import decimal
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import Schema

from registry.jsonapi.errors import InvalidParameter
from registry.jsonapi.filtering import (
    MAX_DEPTH,
    AllOf,
    AnyOf,
    Condition,
    Filter,
    Not,
    filtered_fields,
    parse_filter,
)
from registry.model.attributes import Boolean, Date, DateTime, Decimal, Enumeration, Integer
from registry.model.graph import Graph
from registry.model.operators import Operator
from registry.model.resource import Resource
from registry.model.stored_fields import stored_fields
from registry.resources import RESOURCES


class RackSchema(Schema):
    height = Integer()
    weight = Decimal()
    built = Date()
    seen = DateTime()
    color = Enumeration("red", "green")
    active = Boolean(default=True)


GRAPH = Graph((*RESOURCES, Resource("rack", "racks", RackSchema)))

SCALAR = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
JSON = st.recursive(
    SCALAR | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(
    sorted(
        {name for resource in GRAPH.values() for name in stored_fields(resource)}
        | {"password", "computers"}
    )
)
OPERATORS = st.sampled_from([*Operator, "null", "in_", "like"])
CONDITIONS = st.recursive(
    st.fixed_dictionaries({"name": NAMES | JSON, "op": OPERATORS | JSON, "val": JSON}) | JSON,
    lambda inner: st.dictionaries(
        st.sampled_from(["and", "or", "not"]), st.lists(inner, max_size=3) | inner, max_size=1
    ),
    max_leaves=6,
)
TEXT = st.lists(
    st.sampled_from(["null", ",", "7", "true", "\ud800", "\0", "[", "{}"])
    | st.text(st.characters(codec=None), max_size=3),
    max_size=4,
).map("".join)


def parse(name: str, value: str, resource: str = "person") -> Filter:
    """Parse `filter[last_name][prefix]`, written as `last_name.prefix`; or JSON without a name."""
    return parse_filter("p", name.split(".") if name else [], value, GRAPH[resource])


def in_json(*conditions: Any, resource: str = "person") -> Filter:
    return parse("", orjson.dumps(conditions).decode(), resource)


def error_detail(name: str, value: str, resource: str = "person") -> str:
    with pytest.raises(InvalidParameter) as raised:
        parse(name, value, resource)
    assert raised.value.parameter == "p"
    return raised.value.detail


@pytest.mark.parametrize(
    ("name", "value", "stored_name", "operator", "expected"),
    [
        ("last_name", "Hopper", "last_name", "eq", "Hopper"),
        ("full_name", "Grace Hopper", "full_name", "eq", "Grace Hopper"),
        ("last_name", "", "last_name", "eq", ""),
        ("last_name", "a\0b", "last_name", "eq", "a\0b"),
        ("last_name", "a,,b", "last_name", "in", ("a", "", "b")),
        ("last_name", "null", "last_name", "eq", "null"),
        ("email", "null", "email", "eq", None),
        ("email", "null,a@b.c,NULL", "email", "in", (None, "a@b.c", "NULL")),
        ("email", "no address", "email", "eq", "no address"),
        ("id", "7", "_id", "eq", 7),
        ("id", "7,8", "_id", "in", (7, 8)),
        ("id", "", "_id", "in", ()),
        ("id.ge", str(2**63 - 1), "_id", "ge", 2**63 - 1),
        ("last_name.eq", "a,b", "last_name", "eq", "a,b"),
        ("last_name.ne", "null", "last_name", "ne", "null"),
        ("email.ne", "null", "email", "ne", None),
        ("email.lt", "null", "email", "lt", "null"),
        ("email.prefix", "null", "email", "prefix", "null"),
        ("last_name.in", "a", "last_name", "in", ("a",)),
        ("last_name.in", "", "last_name", "in", ()),
        ("last_name.prefix", "a,b", "last_name", "prefix", "a,b"),
        ("full_name.contains", "e H", "full_name", "contains", "e H"),
        ("email.null", "true", "email", "eq", None),
        ("id.null", "false", "_id", "ne", None),
    ],
)
def test_a_parameter_is_parsed_to_a_condition(
    name: str, value: str, stored_name: str, operator: str, expected: Any
) -> None:
    assert parse(name, value) == Condition(stored_name, Operator(operator), expected)


def test_a_to_one_relationship_is_compared_with_ids() -> None:
    assert parse("owner", "7", "computer") == Condition("person", Operator.EQ, 7)
    assert parse("owner", "null,7", "computer") == Condition("person", Operator.IN, (None, 7))
    assert parse("owner", "", "computer") == Condition("person", Operator.IN, ())
    assert parse("owner.null", "true", "computer") == Condition("person", Operator.EQ, None)


@pytest.mark.parametrize("name", ["password", "computers", "_id", "version", "person", "", "Id"])
def test_the_error_for_an_unknown_field_lists_the_available_ones(name: str) -> None:
    detail = error_detail(f"{name}.eq", "1")
    assert detail == (
        f"Unknown filter field `{name}`; "
        "available: `id`, `first_name`, `last_name`, `full_name`, `email`."
    )


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        (
            "last_name.like",
            "a",
            "`last_name` does not support the operator `like`; supported: `eq`, `ne`, `lt`",
        ),
        ("last_name.in_", "a", "`last_name` does not support the operator `in_`"),
        ("last_name.", "a", "`last_name` does not support the operator ``"),
        ("id.prefix", "1", "`id` does not support the operator `prefix`"),
        ("id.contains", "1", "`id` does not support the operator `contains`"),
        ("last_name.eq.eq", "a", "`filter[name][op]=value`"),
        ("id", "0", "`id` must be compared with a positive 64-bit integer"),
        ("id", "01", "a positive 64-bit integer"),
        ("id", str(2**63), "a positive 64-bit integer"),
        ("id", "null", "a positive 64-bit integer"),
        ("id", "1,", "a positive 64-bit integer"),
        ("id.in", "1,null", "a positive 64-bit integer"),
        ("id.eq", "", "a positive 64-bit integer"),
        ("id.lt", "null", "a positive 64-bit integer"),
        ("email.null", "True", "`null` of `email` must be true or false"),
        ("email", "\udcff", "not UTF-8"),
        ("", "\udcff", "not UTF-8"),
    ],
)
def test_an_invalid_parameter_is_refused(name: str, value: str, detail: str) -> None:
    assert detail in error_detail(name, value)


def test_json_is_parsed_to_conditions() -> None:
    assert in_json() == AllOf(())
    assert in_json(
        {"name": "last_name", "op": "eq", "val": "null"},
        {"or": [{"name": "id", "op": "in_", "val": ["7", 8]}, {"and": []}]},
        {"not": {"name": "email", "op": "null", "val": True}},
    ) == AllOf(
        (
            Condition("last_name", Operator.EQ, "null"),
            AnyOf((Condition("_id", Operator.IN, (7, 8)), AllOf(()))),
            Not(Condition("email", Operator.EQ, None)),
        )
    )
    assert in_json({"name": "email", "op": "in", "val": [None, "a,b"]}) == AllOf(
        (Condition("email", Operator.IN, (None, "a,b")),)
    )


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ("", "not JSON"),
        ("[", "not JSON"),
        ('["\\ud800"]', "not JSON"),
        ("[NaN]", "not JSON"),
        ("[" * 5000, "not JSON"),
        ("null", "must be a list, not `null`"),
        ('{"name": "id", "op": "eq", "val": 1}', "Conditions must be a list, not"),
        ("[1]", "A condition must be an object, not `1`"),
        ("[{}]", "`{}` has none"),
        ('[{"name": "id", "op": "eq"}]', "`name`, `op`, `val` or one of `and`, `or`, `not`"),
        ('[{"name": "id", "val": 1}]', "has `name`, `val`"),
        ('[{"op": "eq", "val": 1}]', "has `op`, `val`"),
        ('[{"name": "id", "op": "eq", "val": 1, "x": 1}]', "has `name`, `op`, `val`, `x`"),
        ('[{"or": [{"and": []}], "and": []}]', "has `or`, `and`"),
        ('[{"name": ["id"], "op": "eq", "val": 1}]', "`name` and `op` must be strings"),
        ('[{"name": "id", "op": null, "val": 1}]', "`name` and `op` must be strings"),
        ('[{"or": []}]', "`or` must have at least one condition"),
        ('[{"or": {}}]', "must be a list, not `{}`"),
        ('[{"not": []}]', "A condition must be an object, not `[]`"),
        (
            '[{"name": "password", "op": "eq", "val": "x"}]',
            "Unknown filter field `password`; available: `id`",
        ),
        ('[{"name": "id", "op": "in", "val": 1}]', "`in` of `id` must be a list, not `1`"),
        ('[{"name": "id", "op": "in", "val": [[1]]}]', "a positive 64-bit integer"),
        ('[{"name": "id", "op": "eq", "val": true}]', "not `true`"),
        ('[{"name": "id", "op": "eq", "val": 1.0}]', "not `1.0`"),
        ('[{"name": "id", "op": "eq", "val": 9223372036854775808}]', "64-bit"),
        ('[{"name": "id", "op": "eq", "val": null}]', "not `null`"),
        ('[{"name": "last_name", "op": "eq", "val": null}]', "must be compared with text"),
        ('[{"name": "last_name", "op": "eq", "val": {"$gt": ""}}]', "must be compared with text"),
        ('[{"name": "email", "op": "lt", "val": null}]', "`lt` of `email` must not be null"),
        (
            '[{"name": "email", "op": "contains", "val": null}]',
            "`contains` of `email` must not be null",
        ),
        ('[{"name": "email", "op": "null", "val": "true"}]', 'must be true or false, not `"true"`'),
    ],
)
def test_invalid_json_is_refused(value: str, detail: str) -> None:
    assert detail in error_detail("", value)


@pytest.mark.parametrize("combinator", ["not", "and", "or"])
def test_the_nesting_depth_of_conditions_is_limited(combinator: str) -> None:
    nested: Any = {"name": "id", "op": "eq", "val": 1}
    for _ in range(MAX_DEPTH - 1):
        nested = {combinator: nested if combinator == "not" else [nested]}
    in_json(nested)
    deeper = {combinator: nested if combinator == "not" else [nested]}
    assert "10 levels" in error_detail("", orjson.dumps([deeper]).decode())


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("height", "50", 50),
        ("height", "null", None),
        ("weight", "1.50", decimal.Decimal("1.50")),
        ("built", "2024-02-29", "2024-02-29"),
        ("seen", "2024-02-29T12:00:00+02:00", datetime(2024, 2, 29, 10, tzinfo=UTC)),
        ("color", "green", "green"),
        ("active", "false", False),
    ],
)
def test_a_typed_attribute_is_compared_with_a_value_of_its_type(
    name: str, value: str, expected: Any
) -> None:
    assert parse(name, value, "rack") == Condition(name, Operator.EQ, expected)
    assert parse(f"{name}.in", f"{value},{value}", "rack") == Condition(
        name, Operator.IN, (expected, expected)
    )


@pytest.mark.parametrize("name", ["height", "weight", "built", "seen", "color", "active"])
def test_an_empty_parameter_is_an_empty_list_of_typed_values(name: str) -> None:
    assert parse(name, "", "rack") == Condition(name, Operator.IN, ())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("height", "tall"),
        ("height.lt", "null"),
        ("height", str(2**63)),
        ("height", "9" * 5000),
        ("height.prefix", "1"),
        ("weight", "1e5"),
        ("weight", "NaN"),
        ("built", "2024-02-30"),
        ("seen", "2024-02-29T12:00:00"),
        ("color", "blue"),
        ("color.lt", "red"),
        ("active", "null"),
        ("active", "1"),
        ("active.gt", "false"),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: str) -> None:
    error_detail(name, value, "rack")


@pytest.mark.parametrize(
    ("name", "value"),
    [("height", "5"), ("height", 5.0), ("weight", 1.5), ("active", "true"), ("seen", 0)],
)
def test_a_json_value_must_have_the_type_of_the_attribute(name: str, value: Any) -> None:
    condition = [{"name": name, "op": "eq", "val": value}]
    error_detail("", orjson.dumps(condition).decode(), "rack")


def check_parsed_or_refused(brackets: list[str], value: str, resource: str) -> None:
    with suppress(InvalidParameter):
        condition = parse_filter("p", brackets, value, GRAPH[resource])
        stored_names = {field.stored_name for field in stored_fields(GRAPH[resource]).values()}
        assert set(filtered_fields(condition)) <= stored_names


@given(st.lists(NAMES | OPERATORS | TEXT, max_size=3), TEXT, st.sampled_from(sorted(GRAPH)))
def test_arbitrary_text_is_parsed_or_refused(
    brackets: list[str], value: str, resource: str
) -> None:
    check_parsed_or_refused(brackets, value, resource)


@given(NAMES, OPERATORS, TEXT, st.sampled_from(sorted(GRAPH)))
def test_arbitrary_values_are_parsed_or_refused(
    name: str, operator: str, value: str, resource: str
) -> None:
    check_parsed_or_refused([name, operator], value, resource)


@given(st.lists(CONDITIONS, max_size=3) | JSON, st.sampled_from(sorted(GRAPH)))
def test_arbitrary_json_is_parsed_or_refused(conditions: Any, resource: str) -> None:
    check_parsed_or_refused([], orjson.dumps(conditions).decode(), resource)
