"""A computer, which a person may own (section 2.2 of the service description)."""

from marshmallow import Schema

from registry.model.attributes import Text
from registry.model.resource import Link, Resource


class ComputerSchema(Schema):
    """The attributes of a computer."""

    serial = Text(required=True, example="SN-0001")


computer = Resource(
    type="computer",
    collection="computers",
    schema=ComputerSchema,
    links=(Link(name="owner", target="person", foreign_key="person", inverse="computers"),),
)
