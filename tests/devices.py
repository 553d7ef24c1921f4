"""A type that only tests declare: it has attributes of all types, and a link."""

from marshmallow import Schema

from registry.model import fields
from registry.model.resource_type import Link, ResourceType
from registry.resources import RESOURCES


class DeviceSchema(Schema):
    """Attributes that are required, optional, read-only or computed, with and without default."""

    name = fields.String(required=True)
    note = fields.String(load_default=None)
    contact = fields.Email(load_default=None)
    color = fields.Enumeration("red", "green", "blue", load_default="red")
    active = fields.Boolean(load_default=None)
    size = fields.Integer(load_default=None)
    price = fields.Decimal(load_default=None)
    bought = fields.Date(load_default=None)
    seen = fields.DateTime(load_default=None)
    rank = fields.Integer(load_default=7, allow_none=True)
    state = fields.Enumeration("new", "old", load_default="new", dump_only=True)
    label = fields.ComputedText("name", "color")


device = ResourceType(
    type="device",
    collection="devices",
    schema=DeviceSchema,
    links=(Link("holder", target="person", foreign_key="holder_id", inverse="devices"),),
)

WITH_DEVICES = (*RESOURCES, device)
