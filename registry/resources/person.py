"""A person, who may own computers (section 2.1 of the service description)."""

from __future__ import annotations

from marshmallow import Schema

from registry.model.attributes import EmailAddress, JoinedText, ShortText
from registry.model.resource import Resource


class PersonSchema(Schema):
    """The attributes of a person."""

    first_name = ShortText(required=True, metadata={"example": "Grace"})
    last_name = ShortText(required=True, metadata={"example": "Hopper"})
    full_name = JoinedText(
        "first_name",
        "last_name",
        metadata={
            "type": "string",
            "example": "Grace Hopper",
            "description": "The first name, one space, the last name.",
        },
    )
    email = EmailAddress(
        allow_none=True,
        load_default=None,
        dump_default=None,
        metadata={"format": "email", "example": "grace.hopper@example.com"},
    )


person = Resource(
    type="person", collection="persons", schema=PersonSchema, hidden={"password": None}
)
