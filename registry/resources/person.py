"""A person, who may own computers (section 2.1 of the service description)."""

from __future__ import annotations

from marshmallow import Schema, fields

from registry.attributes import EmailAddress, ShortText
from registry.resource import Record, Resource


class PersonSchema(Schema):
    """The attributes of a person."""

    first_name = ShortText(required=True, metadata={"example": "Grace"})
    last_name = ShortText(required=True, metadata={"example": "Hopper"})
    full_name = fields.Method(
        "join_names",
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

    def join_names(self, record: Record) -> str:
        """Return the full name, whether or not the names it is made of are returned too."""
        return f"{record.get('first_name', '')} {record.get('last_name', '')}"


person = Resource(
    type="person", collection="persons", schema=PersonSchema, hidden={"password": None}
)
