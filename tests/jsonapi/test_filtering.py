"""Parsing filters, without a database."""

from __future__ import annotations

import decimal
import math
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import Schema

from registry.jsonapi.error_objects import MAX_ERRORS, ApiErrors
from registry.jsonapi.filter_parsing import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_PART_LENGTH,
    MAX_VALUES,
    parse_filter,
)
from registry.jsonapi.filtering import (
    AllOf,
    AnyOf,
    Condition,
    Filter,
    Not,
    Related,
    filtered_fields,
)
from registry.model.attributes import (
    Boolean,
    Date,
    DateTime,
    Decimal,
    Enumeration,
    Integer,
    Operator,
)
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.model.stored_fields import stored_fields
from registry.resources import RESOURCES


class RackSchema(Schema):
    height = Integer()
    weight = Decimal()
    built = Date()
    seen = DateTime()
    color = Enumeration("red", "green")
    active = Boolean(default=True)


GRAPH = Graph((*RESOURCES, ResourceType("rack", "racks", RackSchema)))

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
        | {"password", "computers", "computers.serial", "owner.email", "owner.computers.id"}
    )
)
OPERATORS = st.sampled_from([*Operator, "null", "in_", "like", "has", "any"])
CONDITIONS = st.recursive(
    st.fixed_dictionaries({"name": NAMES | JSON, "op": OPERATORS | JSON, "val": JSON}) | JSON,
    lambda inner: (
        st.dictionaries(
            st.sampled_from(["and", "or", "not"]), st.lists(inner, max_size=3) | inner, max_size=1
        )
        | st.fixed_dictionaries({"name": NAMES, "op": OPERATORS, "val": inner})
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
    return parse_filter("p", name.split(".") if name else [], value, GRAPH[resource], GRAPH)


def in_json(*conditions: Any, resource: str = "person") -> Filter:
    return parse("", orjson.dumps(conditions).decode(), resource)


def error_detail(name: str, value: str, resource: str = "person") -> str:
    (detail,) = error_details(name, value, resource)
    return detail


def error_details(name: str, value: str, resource: str = "person") -> list[str]:
    with pytest.raises(ApiErrors) as raised:
        parse(name, value, resource)
    assert {(error.status, error.parameter) for error in raised.value.errors} == {(400, "p")}
    assert all(len(error.detail) < 500 for error in raised.value.errors)
    return [error.detail for error in raised.value.errors]


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
        ("id", "0", "_id", "eq", 0),
        ("id", "0,-1", "_id", "in", (0, -1)),
        ("id.gt", "0", "_id", "gt", 0),
        ("id.gt", "-0", "_id", "gt", 0),
        ("id.ne", "-7", "_id", "ne", -7),
        ("id.ge", str(-(2**63)), "_id", "ge", -(2**63)),
        ("id.lt", str(2**63), "_id", "lt", math.inf),
        ("id.lt", "9" * 5000, "_id", "lt", math.inf),
        ("id.le", str(-(2**63) - 1), "_id", "le", -math.inf),
        ("id.in", f"1,-{'9' * 19},-{'9' * 99}", "_id", "in", (1, -math.inf, -math.inf)),
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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *[("0", 0), ("-7", -7), ('"-7"', -7), (str(2**63 - 1), 2**63 - 1)],
        *[(str(2**63), math.inf), (str(2**64), math.inf), (str(-(2**70)), -math.inf)],
        *[(f'"{2**63}"', math.inf), ("9" * 300, math.inf)],
    ],
)
def test_ids_are_compared_with_any_integer_in_json(value: str, expected: float) -> None:
    for operator in ("lt", "le", "gt", "ge", "eq", "ne"):
        condition = f'[{{"name": "id", "op": "{operator}", "val": {value}}}]'
        assert parse("", condition) == AllOf((Condition("_id", Operator(operator), expected),))


@pytest.mark.parametrize("name", ["password", "computers", "_id", "version", "person", "", "Id"])
def test_the_error_for_an_unknown_field_lists_the_available_ones(name: str) -> None:
    detail = error_detail(f"{name}.eq", "1")
    assert detail == (
        f"Unknown filter field `{name}`; "
        "available: `id`, `first_name`, `last_name`, `full_name`, `email`, "
        "`created_at`, `created_by`, `updated_at`, `updated_by`, "
        "`computers.id`, `computers.serial`."
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
        ("id", "01", '`id` must be compared with an integer without leading zeros, not `"01"`'),
        *((f"id.{operator}", "-01", "an integer") for operator in ("lt", "le", "gt", "ge", "ne")),
        ("id", "+1", "an integer"),
        ("id", "1.0", "an integer"),
        ("id", " 1", "an integer"),
        ("id", "\u0661", "an integer"),
        ("id", "null", "an integer"),
        ("id", "1,", "an integer"),
        ("id.in", "1,null", "an integer"),
        ("id.eq", "", "an integer"),
        ("id.lt", "null", "an integer"),
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
        ('[{"name": "id", "op": "in", "val": [[1]]}]', "an integer"),
        ('[{"name": "id", "op": "eq", "val": true}]', "not `true`"),
        ('[{"name": "id", "op": "eq", "val": 1.0}]', "not `1.0`"),
        ('[{"name": "id", "op": "eq", "val": 1.5e3}]', "not `1500.0`"),
        ('[{"name": "id", "op": "eq", "val": "1.0"}]', "an integer"),
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


LEAF = '{"name": "id", "op": "eq", "val": 1}'


@pytest.mark.parametrize(
    ("opening", "closing", "levels"),
    [('{"not": ', "}", 1), ('{"and": [', "]}", 2), ('{"or": [', "]}", 2)],
)
def test_the_nesting_depth_of_conditions_is_limited(
    opening: str, closing: str, levels: int
) -> None:
    most = (MAX_DEPTH - 2) // levels  # beside the list and the innermost condition
    parse("", f"[{opening * most}{LEAF}{closing * most}]")
    assert error_detail("", f"[{opening * (most + 1)}{LEAF}{closing * (most + 1)}]") == TOO_DEEP


TOO_DEEP = f"A filter can be nested at most {MAX_DEPTH} levels deep."


@pytest.mark.parametrize("levels", [33, 300, 1020, 100_000])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [("[", "]"), ('{"not":', "}"), ('{"and":[', "]}"), ('{"x":', "}"), ('["[{\\"",', "]")],
)
def test_a_filter_of_any_depth_is_refused(opening: str, closing: str, levels: int) -> None:
    for closed in (closing, ""):
        assert error_detail("", opening * levels + "1" + closed * levels) == TOO_DEEP
    value = f"{opening * levels}1{closing * levels}"
    assert error_detail("", f'[{{"name": "id", "op": "in", "val": {value}}}]') == TOO_DEEP


@pytest.mark.parametrize("text", ["[" * 100, '\\"[{' * 100, "]}" * 100 + "[{" * 100])
def test_brackets_in_text_are_not_nesting(text: str) -> None:
    condition = {"name": "last_name", "op": "eq", "val": text}
    assert in_json(condition) == AllOf((Condition("last_name", Operator.EQ, text),))


def test_a_filter_may_have_more_conditions_than_levels() -> None:
    count = MAX_DEPTH * 2
    assert parse("", f"[{','.join([LEAF] * count)}]") == AllOf(
        (Condition("_id", Operator.EQ, 1),) * count
    )


OWNER, COMPUTERS = (
    GRAPH["computer"].relationships["owner"],
    GRAPH["person"].relationships["computers"],
)


def owned(part: Filter) -> Related:
    return Related(OWNER, GRAPH["person"], part)


def with_computer(part: Filter) -> Related:
    return Related(COMPUTERS, GRAPH["computer"], part)


@pytest.mark.parametrize(
    ("name", "value", "resource", "expected"),
    [
        (
            "owner/last_name/prefix",
            "Ho",
            "computer",
            owned(Condition("last_name", Operator.PREFIX, "Ho")),
        ),
        ("owner/id", "7", "computer", owned(Condition("_id", Operator.EQ, 7))),
        ("owner/email", "null", "computer", owned(Condition("email", Operator.EQ, None))),
        (
            "computers/serial",
            "a,b",
            "person",
            with_computer(Condition("serial", Operator.IN, ("a", "b"))),
        ),
    ],
)
def test_a_path_names_an_attribute_of_related_resources(
    name: str, value: str, resource: str, expected: Filter
) -> None:
    relationship, field, *operator = name.split("/")
    path = f"{relationship}.{field}"
    assert parse_filter("p", [path, *operator], value, GRAPH[resource], GRAPH) == expected


def test_has_and_any_take_one_condition_or_a_combination() -> None:
    hopper = {"name": "last_name", "op": "eq", "val": "Hopper"}
    parsed = Condition("last_name", Operator.EQ, "Hopper")
    assert in_json(
        {"name": "owner", "op": "has", "val": hopper},
        {"name": "owner", "op": "has", "val": {"or": [hopper, {"not": hopper}]}},
        {"not": {"name": "owner.last_name", "op": "eq", "val": "Hopper"}},
        resource="computer",
    ) == AllOf(
        (
            owned(parsed),
            owned(AnyOf((parsed, Not(parsed)))),
            Not(owned(parsed)),
        )
    )
    assert in_json({"name": "computers", "op": "any", "val": {"and": []}}) == AllOf(
        (with_computer(AllOf(())),)
    )


@pytest.mark.parametrize(
    ("resource", "condition", "detail"),
    [
        ("person", '{"name": "x", "op": "eq", "val": 1}', "At `/0/name`: Unknown filter field `x`"),
        ("person", '{"name": "id", "op": "like", "val": 1}', "At `/0/op`: `id` does not support"),
        ("person", '{"name": "id", "op": "lt", "val": "a"}', "At `/0/val`: `id` must be compared"),
        ("person", '{"name": "id", "op": "in", "val": [1, []]}', "At `/0/val/1`: `id` must be"),
        ("person", '{"or": [{"not": 7}]}', "At `/0/or/0/not`: A condition must be an object"),
        ("person", '{"and": 5}', "At `/0/and`: Conditions must be a list"),
        (
            "computer",
            '{"name": "owner", "op": "any", "val": {"and": []}}',
            "At `/0/op`: `owner` is to-one, which `has` filters by, not `any`.",
        ),
        (
            "person",
            '{"name": "computers", "op": "has", "val": {"and": []}}',
            "At `/0/op`: `computers` is to-many, which `any` filters by, not `has`.",
        ),
        (
            "person",
            '{"name": "computers", "op": "eq", "val": 1}',
            "At `/0/op`: `computers` is to-many, which `any` filters by, not `eq`.",
        ),
        (
            "person",
            '{"name": "last_name", "op": "has", "val": {"and": []}}',
            "At `/0/op`: `last_name` does not support the operator `has`",
        ),
        (
            "computer",
            '{"name": "owner", "op": "has", "val": []}',
            "At `/0/val`: A condition must be an object, not `[]`.",
        ),
        ("computer", '{"name": "owner", "op": "has"}', "At `/0`: A condition must have either"),
        (
            "computer",
            '{"name": "owner", "op": "has", "val": {"name": "computers", "op": "any", "val": {}}}',
            "At `/0/val/name`: Unknown filter field `computers`; available: `id`, `first_name`, "
            "`last_name`, `full_name`, `email`.",
        ),
        (
            "computer",
            '{"name": "owner", "op": "has", "val": {"or": [{"name": "id", "op": "in", "val": 1}]}}',
            "At `/0/val/or/0/val`: `in` of `id` must be a list, not `1`.",
        ),
        (
            "computer",
            '{"name": "owner.computers.serial", "op": "eq", "val": "a"}',
            "At `/0/name`: Unknown filter field `owner.computers.serial`; available: `id`, "
            "`serial`, `owner`, `created_at`, `created_by`, `updated_at`, `updated_by`, `owner.id`",
        ),
        (
            "person",
            '{"name": "computers.owner", "op": "eq", "val": 1}',
            "At `/0/name`: Unknown filter field `computers.owner`",
        ),
    ],
)
def test_an_error_in_json_has_its_position(resource: str, condition: str, detail: str) -> None:
    assert error_detail("", f"[{condition}]", resource).startswith(detail)


@pytest.mark.parametrize(
    ("operator", "most", "more"),
    [
        ("in", ["a"] * MAX_VALUES, ["a"]),
        ("prefix", "a" * MAX_PART_LENGTH, "a"),
        ("contains", "a" * MAX_PART_LENGTH, "a"),
    ],
)
def test_the_size_of_a_value_is_limited(operator: str, most: Any, more: Any) -> None:
    conditions = [
        {"name": "last_name", "op": operator, "val": most},
        {"name": "last_name", "op": operator, "val": most + more},
    ]
    in_json(conditions[0])
    detail = error_detail("", orjson.dumps(conditions).decode())
    assert detail.startswith(f"At `/1/val`: `{operator}` of `last_name` must have at most 1000 ")


def test_the_number_of_conditions_is_limited() -> None:
    condition = {"name": "computers.id", "op": "eq", "val": 1}
    in_json({"or": [condition] * MAX_CONDITIONS})
    too_many = orjson.dumps([{"or": [condition] * MAX_CONDITIONS}, condition]).decode()
    assert error_detail("", too_many) == "A filter must have at most 250 conditions, not 251."


def test_every_invalid_condition_is_reported() -> None:
    unknown, no_operator = {"name": "x", "op": "eq", "val": 1}, {"name": "id", "val": 1}
    details = error_details(
        "", orjson.dumps([unknown, {"or": [no_operator, {"not": 7}]}, {"and": 5}]).decode()
    )
    texts = ["Unknown filter field `x`", "has `name`, `val`", "not `7`", "must be a list, not `5`"]
    assert len(details) == len(texts)
    assert all(text in detail for text, detail in zip(texts, details, strict=True))
    assert len(error_details("", f"[{','.join('1' * 1000)}]")) == MAX_ERRORS


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
    with suppress(ApiErrors):
        condition = parse_filter("p", brackets, value, GRAPH[resource], GRAPH)
        stored_names = {
            (type_name, field.stored_name)
            for type_name in GRAPH
            for field in stored_fields(GRAPH[type_name]).values()
        }
        assert set(filtered_fields(condition, resource)) <= stored_names


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
