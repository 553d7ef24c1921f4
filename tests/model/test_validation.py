"""Validation of the attributes of requests."""

from __future__ import annotations

from typing import Any

import pytest
from marshmallow import Schema, ValidationError

from registry.model.attributes import Email, Text
from registry.model.resource_type import ResourceType
from registry.model.validation import load_attributes


class PlaceSchema(Schema):
    """Attributes that are required, with a default, and optional."""

    name = Text(required=True)
    area = Text(default="here")
    contact = Email()
    code = Text(read_only=True)


PLACE = ResourceType("place", "places", PlaceSchema)


def test_only_creation_sets_defaults() -> None:
    created = load_attributes(PLACE, {"name": "Lab"}, creating=True)
    assert created == {"name": "Lab", "area": "here", "contact": None}
    assert load_attributes(PLACE, {"area": "there"}, creating=False) == {"area": "there"}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"name": None, "area": None, "contact": None}, {"name", "area"}),
        ({"area": "", "contact": "x"}, {"name", "area", "contact"}),
        ({"name": 5}, {"name"}),
    ],
)
def test_errors_of_all_attributes_are_raised_by_name(
    values: dict[str, Any], names: set[str]
) -> None:
    with pytest.raises(ValidationError) as raised:
        load_attributes(PLACE, values, creating=True)
    assert raised.value.messages_dict.keys() == names
