"""A person, who may own computers."""

from marshmallow import Schema

from registry.model import fields
from registry.model.resource_type import ResourceType


class PersonSchema(Schema):
    """The attributes of a person."""

    first_name = fields.String(required=True, metadata={"example": "Grace"})
    last_name = fields.String(required=True, metadata={"example": "Hopper"})
    full_name = fields.ComputedText(
        "first_name",
        "last_name",
        metadata={
            "example": "Grace Hopper",
            "description": "The first name, one space, the last name.",
        },
    )
    email = fields.Email(load_default=None)
    password = fields.String(load_default=None, load_only=True, dump_only=True)


person = ResourceType(type="person", collection="persons", schema=PersonSchema)
