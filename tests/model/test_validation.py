"""Validation of the attributes of requests."""

from __future__ import annotations

from typing import Any

import pytest
from marshmallow import Schema, ValidationError, validates_schema

from registry.model.attributes import Email, Text
from registry.model.resource_type import ResourceType
from registry.model.validation import validator_for


class PlaceSchema(Schema):
    """Attributes with a validator of the schema."""

    name = Text(required=True)
    area = Text(default="here")
    contact = Email()

    @validates_schema
    def differ(self, data: dict[str, Any], **_: Any) -> None:
        """Refuse an area that has the name of the place."""
        if data.get("name") == data.get("area"):
            raise ValidationError("The names must differ.", "area")


validate = validator_for(ResourceType("place", "places", PlaceSchema))


def test_only_creation_sets_defaults() -> None:
    created = validate({"name": "Lab"}, True)
    assert created == {"name": "Lab", "area": "here", "contact": None}
    assert validate({"area": "there"}, False) == {"area": "there"}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"name": "Lab", "area": "Lab"}, {"area"}),
        ({"area": "", "contact": "x"}, {"name", "area", "contact"}),
        ({"name": 5, "other": 1}, {"name", "other"}),
    ],
)
def test_errors_of_all_attributes_are_raised_by_name(
    values: dict[str, Any], names: set[str]
) -> None:
    with pytest.raises(ValidationError) as raised:
        validate(values, True)
    assert raised.value.messages_dict.keys() == names
