"""Comparison operators of filters."""

from __future__ import annotations

from enum import StrEnum


class Operator(StrEnum):
    """A comparison of a stored field with a value."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    IN = "in"
    PREFIX = "prefix"
    CONTAINS = "contains"


EQUALITY = (Operator.EQ, Operator.NE, Operator.IN)
"""The operators of attributes whose order has no meaning."""

ORDER = (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.IN)
"""The operators of ordered attributes."""
