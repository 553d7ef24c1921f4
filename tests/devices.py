"""A test-only type that has attributes of all types."""

from __future__ import annotations

from marshmallow import Schema

from registry.model.attributes import (
    Boolean,
    ComputedText,
    Date,
    DateTime,
    Decimal,
    Email,
    Enumeration,
    Integer,
    Text,
)
from registry.model.resource_type import ResourceType
from registry.resources import RESOURCES


class DeviceSchema(Schema):
    """Attributes that are required, optional, read-only or computed, with and without default."""

    name = Text(required=True)
    contact = Email()
    color = Enumeration("red", "green", "blue", default="red")
    active = Boolean()
    size = Integer()
    price = Decimal()
    bought = Date()
    seen = DateTime()
    rank = Integer(default=7, nullable=True)
    state = Enumeration("new", "old", default="new", read_only=True)
    label = ComputedText("name", "color")


device = ResourceType(type="device", collection="devices", schema=DeviceSchema)

WITH_DEVICES = (*RESOURCES, device)
