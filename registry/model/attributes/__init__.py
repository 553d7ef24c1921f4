"""The attribute types that resources are declared with."""

from registry.model.attributes.base import EQUALITY, Attribute, Operator
from registry.model.attributes.date import Date, DateTime
from registry.model.attributes.identifier import ResourceId
from registry.model.attributes.scalar import Boolean, Decimal, Integer
from registry.model.attributes.text import ComputedText, Email, Enumeration, Text

__all__ = [
    "EQUALITY",
    "Attribute",
    "Boolean",
    "ComputedText",
    "Date",
    "DateTime",
    "Decimal",
    "Email",
    "Enumeration",
    "Integer",
    "Operator",
    "ResourceId",
    "Text",
]
