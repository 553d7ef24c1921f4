"""A type that only tests declare: it has attributes of all types, and a link."""

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
from registry.model.resource_type import Link, ResourceType
from registry.resources import RESOURCES


class DeviceSchema(Schema):
    """Attributes that are required, optional, read-only or computed, with and without default."""

    name = Text(required=True)
    note = Text()
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


device = ResourceType(
    type="device",
    collection="devices",
    schema=DeviceSchema,
    links=(Link("holder", target="person", foreign_key="holder_id", inverse="devices"),),
)

WITH_DEVICES = (*RESOURCES, device)
