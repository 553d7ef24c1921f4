"""The attribute types that resources are declared with."""

from registry.model.attributes.base import EQUALITY, Attribute, Operator
from registry.model.attributes.date import Date, DateTime
from registry.model.attributes.identifier import ResourceId
from registry.model.attributes.period import (
    AT,
    BEGINNING,
    LASTING,
    SINCE,
    UNTIL,
    CopiedText,
    Moment,
    PeriodBound,
)
from registry.model.attributes.scalar import Boolean, Decimal, Integer
from registry.model.attributes.text import ComputedText, Email, Enumeration, Text

__all__ = [
    "AT",
    "BEGINNING",
    "EQUALITY",
    "LASTING",
    "SINCE",
    "UNTIL",
    "Attribute",
    "Boolean",
    "ComputedText",
    "CopiedText",
    "Date",
    "DateTime",
    "Decimal",
    "Email",
    "Enumeration",
    "Integer",
    "Moment",
    "Operator",
    "PeriodBound",
    "ResourceId",
    "Text",
]
