"""Parsing filters, without a database."""

import math
from contextlib import suppress
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.jsonapi.error_objects import MAX_ERRORS, RequestError
from registry.jsonapi.filtering import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_PART_LENGTH,
    MAX_VALUES,
    Condition,
    Filter,
    filtered_fields,
    parse_filter,
)
from registry.model.attributes import Operator
from registry.model.graph import Graph
from tests.devices import WITH_DEVICES
from tests.jsonapi.support import JSON, errors_of

GRAPH = Graph(WITH_DEVICES)

NAMES = st.sampled_from(
    sorted(
        {name for resource in GRAPH.values() for name in resource.filterable}
        | {"password", "computers", "computers.serial", "owner.email", "owner.computers.id"}
    )
)
OPERATORS = st.sampled_from([*Operator, "null", "like", "has", "any"])
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
    errors = errors_of(partial(parse, name, value, resource))
    assert {(error.status, error.parameter) for error in errors} == {(400, "p")}
    assert all(len(error.detail) < 600 for error in errors)
    return [error.detail for error in errors]


@pytest.mark.parametrize(
    ("name", "value", "stored_name", "operator", "expected"),
    [
        ("last_name", "", "last_name", "eq", ""),
        ("last_name", "a\0b", "last_name", "eq", "a\0b"),
        ("last_name", "a,,b", "last_name", "in", ("a", "", "b")),
        ("last_name", "null", "last_name", "eq", "null"),
        ("email", "null", "email", "eq", None),
        ("email", "null,a@b.c,NULL", "email", "in", (None, "a@b.c", "NULL")),
        ("email", "no address", "email", "eq", "no address"),
        ("id", "", "_id", "in", ()),
        ("id.ge", str(2**63 - 1), "_id", "ge", 2**63 - 1),
        ("id", "0,-1", "_id", "in", (0, -1)),
        ("id.gt", "-0", "_id", "gt", 0),
        ("id.ge", str(-(2**63)), "_id", "ge", -(2**63)),
        ("id.lt", str(2**63), "_id", "lt", math.inf),
        ("id.lt", "9" * 5000, "_id", "lt", math.inf),
        ("id.le", str(-(2**63) - 1), "_id", "le", -math.inf),
        ("id.in", f"1,-{'9' * 19},-{'9' * 99}", "_id", "in", (1, -math.inf, -math.inf)),
        ("last_name.eq", "a,b", "last_name", "eq", "a,b"),
        ("last_name.ne", "null", "last_name", "ne", "null"),
        ("email.lt", "null", "email", "lt", "null"),
        ("email.prefix", "null", "email", "prefix", "null"),
        ("last_name.in", "", "last_name", "in", ()),
        ("created_by", "", "created_by", "in", ()),
        ("last_name.prefix", "a,b", "last_name", "prefix", "a,b"),
    ],
)
def test_a_parameter_is_parsed_to_a_condition(
    name: str, value: str, stored_name: str, operator: str, expected: Any
) -> None:
    assert parse(name, value) == Condition(stored_name, Operator(operator), expected)


@pytest.mark.parametrize("name", ["password", "owners", "_id", "version", "person", "", "Id"])
def test_the_error_for_an_unknown_field_lists_the_available_ones(name: str) -> None:
    assert error_detail(f"{name}.eq", "1", "computer") == (
        f"Unknown filter field `{name}`; available: `id`, `serial`, `owner`, "
        "`created_at`, `created_by`, `updated_at`, `updated_by`, "
        "`owner.id`, `owner.first_name`, `owner.last_name`, `owner.full_name`, `owner.email`, "
        "`assignments.id`, `assignments.since`, `assignments.until`, `assignments.at`."
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
        ("id", "01", '`id` must be compared with an integer without leading zeros, not `"01"`'),
        *((f"id.{operator}", "-01", "an integer") for operator in ("lt", "le", "gt", "ge", "ne")),
        *(("id", value, "an integer") for value in ("+1", "1.0", " 1", "\u0661", "null", "1,")),
        *[("id.in", "1,null", "an integer"), ("id.eq", "", "an integer")],
        ("id.lt", "null", "an integer"),
        ("email.null", "True", "`null` of `email` must be true or false"),
        ("email", "\udcff", "not UTF-8"),
        ("", "\udcff", "not UTF-8"),
    ],
)
def test_an_invalid_parameter_is_refused(name: str, value: str, detail: str) -> None:
    assert detail in error_detail(name, value)


def condition(name: str, operator: str, value: Any) -> dict[str, Any]:
    return {"name": name, "op": operator, "val": value}


def of(name: str, operator: str, value: Any) -> str:
    """Return a filter of one condition as JSON."""
    return orjson.dumps([condition(name, operator, value)]).decode()


NOT_IDS = [(True, "true"), (1.0, "1.0"), (1.5e3, "1500.0"), (None, "null")]


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        *((value, "not valid JSON") for value in ("", "[", '["\\ud800"]', "[NaN]")),
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
        (of("password", "eq", "x"), "Unknown filter field `password`; available: `id`"),
        (of("id", "in", 1), "`in` of `id` must be a list, not `1`"),
        *((of("id", "eq", item), f"not `{text}`") for item, text in NOT_IDS),
        *((of("id", *item), "an integer") for item in (("in", [[1]]), ("eq", "1.0"))),
        *(
            (of("last_name", "eq", value), "must be compared with text")
            for value in (None, {"$gt": ""})
        ),
        *(
            (of("email", operator, None), f"`{operator}` of `email` must not be null")
            for operator in ("lt", "contains")
        ),
        (of("email", "null", "true"), 'must be true or false, not `"true"`'),
    ],
)
def test_invalid_json_is_refused(value: str, detail: str) -> None:
    assert detail in error_detail("", value)


LEAF = '{"name": "id", "op": "eq", "val": 1}'


@pytest.mark.parametrize(
    ("opening", "closing", "levels"),
    [('{"not":', "}", 1), ('{"and":[', "]}", 2), ('{"or":[', "]}", 2), ('{"x":', "}", 1)],
)
def test_the_depth_of_a_filter_is_limited(opening: str, closing: str, levels: int) -> None:
    most = (MAX_DEPTH - 2) // levels  # beside the list and the innermost condition
    if "x" not in opening:
        parse("", f"[{opening * most}{LEAF}{closing * most}]")
    for depth in (most + 1, 300, 1020, 100_000):  # the last one also exceeds that of the parser
        value = f"{opening * depth}{LEAF}{closing * depth}"
        for text in (f"[{value}]", f'[{{"name": "id", "op": "in", "val": {value}}}]'):
            assert error_detail("", text) == "A filter can be nested at most 32 levels deep."


@pytest.mark.parametrize(
    ("type_name", "condition", "detail"),
    [
        ("person", condition("x", "eq", 1), "At `/0/name`: Unknown filter field `x`"),
        ("person", condition("id", "like", 1), "At `/0/op`: `id` does not support"),
        ("person", condition("id", "lt", "a"), "At `/0/val`: `id` must be compared"),
        ("person", condition("id", "in", [1, []]), "At `/0/val/1`: `id` must be"),
        ("person", {"or": [{"not": 7}]}, "At `/0/or/0/not`: A condition must be an object"),
        ("person", {"and": 5}, "At `/0/and`: Conditions must be a list"),
        (
            *("computer", condition("owner", "any", {"and": []})),
            "At `/0/op`: `owner` is to-one, which `has` filters by, not `any`.",
        ),
        (
            *("person", condition("computers", "has", {"and": []})),
            "At `/0/op`: `computers` is to-many, which `any` filters by, not `has`.",
        ),
        (
            *("computer", condition("owner", "has", condition("computers", "any", {}))),
            "At `/0/val/name`: Unknown filter field `computers`; available: `id`, `first_name`, "
            "`last_name`, `full_name`, `email`.",
        ),
        (
            *("computer", condition("owner", "has", {"or": [condition("id", "in", 1)]})),
            "At `/0/val/or/0/val`: `in` of `id` must be a list, not `1`.",
        ),
        (
            *("computer", condition("owner.computers.serial", "eq", "a")),
            "At `/0/name`: Unknown filter field `owner.computers.serial`; available: `id`, "
            "`serial`, `owner`, `created_at`, `created_by`, `updated_at`, `updated_by`, `owner.id`",
        ),
    ],
)
def test_an_error_in_json_has_its_position(type_name: str, condition: Any, detail: str) -> None:
    assert error_detail("", orjson.dumps([condition]).decode(), type_name).startswith(detail)


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


@pytest.mark.parametrize(
    ("type_name", "name", "value"),
    [
        ("person", "computers.id", 1),
        ("assignment", "at", "2026-03-15T12:00:00Z"),
        ("assignment", "owner_name", "Ada Lovelace"),
    ],
)
def test_the_number_of_conditions_as_they_are_sent_is_limited(
    type_name: str, name: str, value: Any
) -> None:
    one = condition(name, "eq", value)
    in_json({"or": [one] * MAX_CONDITIONS}, resource=type_name)
    too_many = orjson.dumps([{"or": [one] * MAX_CONDITIONS}, one]).decode()
    detail = error_detail("", too_many, type_name)
    assert detail == "A filter must have at most 250 conditions, not 251."


def test_every_invalid_condition_is_reported() -> None:
    unknown, no_operator = {"name": "x", "op": "eq", "val": 1}, {"name": "id", "val": 1}
    details = error_details(
        "", orjson.dumps([unknown, {"or": [no_operator, {"not": 7}]}, {"and": 5}]).decode()
    )
    texts = ["Unknown filter field `x`", "has `name`, `val`", "not `7`", "must be a list, not `5`"]
    assert len(details) == len(texts)
    assert all(text in detail for text, detail in zip(texts, details, strict=True))
    assert len(error_details("", f"[{','.join('1' * 1000)}]")) == MAX_ERRORS


def check_parsed_or_refused(brackets: list[str], value: str, resource: str) -> None:
    with suppress(RequestError):
        condition = parse_filter("p", brackets, value, GRAPH[resource], GRAPH)
        stored_names = {
            (type_name, field.stored_name)
            for type_name in GRAPH
            for field in GRAPH[type_name].filterable.values()
        }
        assert {
            (item.type, name) for item, name in filtered_fields(condition, GRAPH[resource])
        } <= stored_names


BRACKETS = st.lists(NAMES | OPERATORS | TEXT, max_size=2) | st.tuples(NAMES, OPERATORS).map(list)


@given(BRACKETS, TEXT, st.sampled_from(sorted(GRAPH)))
def test_any_text_is_parsed_or_refused(brackets: list[str], value: str, resource: str) -> None:
    check_parsed_or_refused(brackets, value, resource)


@given(st.lists(CONDITIONS, max_size=3) | JSON, st.sampled_from(sorted(GRAPH)))
def test_any_json_is_parsed_or_refused(conditions: Any, resource: str) -> None:
    check_parsed_or_refused([], orjson.dumps(conditions).decode(), resource)
