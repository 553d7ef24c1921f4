"""A computer, which a person may own."""

from marshmallow import Schema

from registry.model import fields
from registry.model.resource_type import History, Link, ResourceType


class ComputerSchema(Schema):
    """The attributes of a computer."""

    serial = fields.String(required=True, metadata={"example": "SN-0001"})


computer = ResourceType(
    type="computer",
    collection="computers",
    schema=ComputerSchema,
    links=(
        Link(
            name="owner",
            target="person",
            foreign_key="person",
            inverse="computers",
            history=History(
                type="assignment",
                collection="assignments",
                source_copies={"serial": "serial"},
                target_copies={"owner_name": "full_name"},
            ),
        ),
    ),
)
