"""The attributes of requests, validated without the overhead of `Schema.load`."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import Schema, ValidationError, validates_schema

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
from registry.model.validation import schema_validator
from registry.resources import RESOURCES
from registry.resources.person import PersonSchema

VALUES = st.one_of(
    st.text(),
    st.sampled_from(["x" * 255, "x" * 256, "", "ada@x.org", "Ada <ada@x.org>", "ada@x", "a@ü.org"]),
    st.sampled_from(["red", "1.50", "2026-02-28", "2026-02-28T12:00:00Z"]),
    st.none(),
    st.integers(),
    st.booleans(),
    st.lists(st.text(), max_size=1),
)


class PlainSchema(Schema):
    """Attributes with and without defaults, in whichever order they are asked for."""

    note = Text(nullable=False)
    name = Text(required=True)
    place = Text(default="here")
    contact = Email()
    label = ComputedText("name", "place")


class MixedSchema(PlainSchema):
    """Attributes of all types."""

    weight = Integer()
    color = Enumeration("red", "green", default="red")
    active = Boolean(default=True)
    price = Decimal(nullable=True)
    bought = Date()
    seen = DateTime()
    model = Integer(read_only=True)


class StrictSchema(PlainSchema):
    """A rule about two attributes at once."""

    @validates_schema
    def differ(self, data: dict[str, Any], **_: Any) -> None:
        """Refuse a place that is named like what stands there."""
        if data.get("name") == data.get("place"):
            raise ValidationError("Two names are the same.", "place")


SCHEMAS = [PlainSchema, MixedSchema, StrictSchema, *(resource.schema for resource in RESOURCES)]


def outcome(load: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return load(*arguments, **options)
    except ValidationError as error:
        return error.messages_dict


@given(data=st.data(), schema=st.sampled_from(SCHEMAS), whole=st.booleans())
def test_attributes_are_taken_as_marshmallow_loads_them(
    data: st.DataObject, schema: type[Schema], whole: bool
) -> None:
    made = schema()
    names = dict.fromkeys([*made.load_fields, "unknown"], VALUES)
    sent: dict[str, Any] = data.draw(st.fixed_dictionaries({}, optional=names))
    wanted = outcome(made.load, sent, partial=not whole)
    assert outcome(schema_validator(schema), sent, whole) == wanted


def test_a_rule_about_several_attributes_is_kept() -> None:
    sent = {"name": "Lab", "place": "Lab"}
    with pytest.raises(ValidationError, match="the same"):
        schema_validator(StrictSchema)(sent, True)


def test_marshmallow_is_not_asked_about_what_is_plain() -> None:
    class Watched(PersonSchema):
        def load(self, *_: Any, **__: Any) -> NoReturn:
            raise AssertionError

    sent = {"first_name": "Ada", "last_name": "King", "email": "ada@example.com"}
    validate = schema_validator(Watched)
    assert validate(sent, True) == sent
    assert validate({"last_name": "King"}, False) == {"last_name": "King"}
    with pytest.raises(AssertionError):
        validate({**sent, "first_name": ""}, True)
