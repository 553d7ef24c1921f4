"""A person, who may own computers."""

from marshmallow import Schema

from registry.model.attributes import ComputedText, Email, Text
from registry.model.resource_type import ResourceType


class PersonSchema(Schema):
    """The attributes of a person."""

    first_name = Text(required=True, example="Grace")
    last_name = Text(required=True, example="Hopper")
    full_name = ComputedText(
        "first_name",
        "last_name",
        example="Grace Hopper",
        description="The first name, one space, the last name.",
    )
    email = Email(example="grace.hopper@example.com")


person = ResourceType(
    type="person", collection="persons", schema=PersonSchema, hidden={"password": Text()}
)
