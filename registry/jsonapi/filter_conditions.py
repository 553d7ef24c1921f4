"""Conditions: a field, an operator, and what it is compared with, in its stored form."""

from typing import Any

from marshmallow import ValidationError

from registry.jsonapi.error_details import quoted
from registry.jsonapi.filter_errors import Below, InvalidFilter, quoted_json
from registry.jsonapi.filtering import Condition
from registry.model.attributes import EQUALITY, Attribute, Operator
from registry.model.stored_fields import StoredField

MAX_VALUES = 1_000
"""The maximum number of values of `in`."""

MAX_PART_LENGTH = 1_000
"""The maximum length of a `prefix`, and of what a text `contains`: longer than the attributes."""

NULL = "null"
"""The operator that tests for null; it is parsed to EQ or NE with null."""


def filter_operators(attribute: Attribute) -> tuple[str, ...]:
    """Return the operators that clients can compare an attribute by."""
    return (*attribute.operators, NULL)


def default_operator(field: StoredField, text: str) -> Operator:
    """Return the operator of `filter[name]=`: IN for a list, EQ otherwise.

    An empty value is an empty list, except for free text, where it is a value.
    """
    is_empty_list = not text and Operator.PREFIX not in field.attribute.operators
    return Operator.IN if is_empty_list or "," in text else Operator.EQ


def parse_condition(
    field: StoredField, operator: str, value: Any, *, from_text: bool = False
) -> Condition:
    """Return a condition. value: from JSON, or if from_text from a query parameter.

    Raises InvalidFilter below `op` or `val`.
    """
    operators = filter_operators(field.attribute)
    if operator not in operators:
        detail = f"`{field.name}` does not support the operator {quoted(operator)}"
        raise InvalidFilter(f"{detail}; supported: {quoted(*operators)}.", "op")
    with Below("val"):
        if operator == NULL:
            return _null_test(field, value)
        comparison = Operator(operator)
        if comparison is Operator.IN:
            operands = _operands(field, value, from_text=from_text)
            return Condition(field.stored_name, comparison, operands)
        operand = _operand(field, comparison, value, from_text=from_text)
        return Condition(field.stored_name, comparison, operand)


def _null_test(field: StoredField, value: Any) -> Condition:
    if not isinstance(value, bool):
        detail = f"`null` of `{field.name}` must be true or false, not {quoted_json(value)}."
        raise InvalidFilter(detail)
    return Condition(field.stored_name, Operator.EQ if value else Operator.NE, None)


def _operands(field: StoredField, values: Any, *, from_text: bool) -> tuple[Any, ...]:
    """Return the stored form of the values of IN."""
    if not isinstance(values, list):
        raise InvalidFilter(f"`in` of `{field.name}` must be a list, not {quoted_json(values)}.")
    if len(values) > MAX_VALUES:
        detail = f"`in` of `{field.name}` must have at most {MAX_VALUES} values, not {len(values)}."
        raise InvalidFilter(detail)
    operands = []
    for index, value in enumerate(values):
        with Below(index):
            operands.append(_operand(field, Operator.IN, value, from_text=from_text))
    return tuple(operands)


def _operand(field: StoredField, operator: Operator, value: Any, *, from_text: bool) -> Any:
    """Return the stored form of a value to compare with."""
    attribute = field.attribute
    if operator in EQUALITY and attribute.nullable and value == (NULL if from_text else None):
        return None
    if value is None and operator not in EQUALITY:
        raise InvalidFilter(f"`{operator}` of `{field.name}` must not be null.")
    try:
        if operator in {Operator.PREFIX, Operator.CONTAINS} and isinstance(value, str):
            return _part(field, operator, value)
        return attribute.from_text(value) if from_text else attribute.from_json(value)
    except ValidationError as error:
        detail = (
            f"`{field.name}` must be compared with {attribute.expected}, not {quoted_json(value)}."
        )
        raise InvalidFilter(detail) from error


def _part(field: StoredField, operator: Operator, text: str) -> str:
    """Return a part of a value, which does not have to be valid by itself."""
    if len(text) > MAX_PART_LENGTH:
        limit = f"must have at most {MAX_PART_LENGTH} characters, not {len(text)}"
        raise InvalidFilter(f"`{operator}` of `{field.name}` {limit}.")
    return text
