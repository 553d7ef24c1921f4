"""The attribute types that resources are declared with."""

from registry.model.attributes.base import Attribute
from registry.model.attributes.boolean import Boolean
from registry.model.attributes.date import Date, DateTime
from registry.model.attributes.identifier import ResourceId
from registry.model.attributes.number import Decimal, Integer
from registry.model.attributes.text import ComputedText, Email, Enumeration, Text

__all__ = [
    "Attribute",
    "Boolean",
    "ComputedText",
    "Date",
    "DateTime",
    "Decimal",
    "Email",
    "Enumeration",
    "Integer",
    "ResourceId",
    "Text",
]
