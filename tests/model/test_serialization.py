"""Serialization of the attributes of records."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import Schema

from registry.model.attributes import ComputedText, DateTime, Decimal, Email, Integer, Text
from registry.model.resource import Resource
from registry.model.serialization import serializer_for
from registry.resources import RESOURCES

STORED = st.one_of(st.text(), st.none(), st.integers(), st.booleans(), st.floats(allow_nan=False))


class AssetSchema(Schema):
    """Attributes of several types."""

    name = Text(required=True)
    weight = Integer()
    contact = Email()
    label = ComputedText("name", "contact")
    price = Decimal(nullable=True)
    bought = DateTime()


asset = Resource("asset", "assets", AssetSchema)
TYPES = [asset, *RESOURCES]


@given(data=st.data(), resource=st.sampled_from(TYPES))
def test_a_record_is_serialized_as_marshmallow_dumps_it(
    data: st.DataObject, resource: Resource
) -> None:
    names = list(resource.attributes)
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    stored = dict.fromkeys([*names, "version"], STORED)
    record: dict[str, Any] = data.draw(st.fixed_dictionaries({}, optional=stored))
    dumped = resource.schema(only=chosen).dump(record)
    computed = {name: one.compute(record) for name, one in resource.computed.items()}
    expected = {
        name: computed.get(name, dumped.get(name))
        for name, attribute in resource.attributes.items()
        if name in chosen
        and (name in computed or dumped.get(name) is not None or attribute.nullable)
    }
    serialized = serializer_for(resource, frozenset(chosen))(record)
    assert serialized == expected
    assert list(serialized) == list(expected)


def test_attributes_are_in_the_order_of_declaration() -> None:
    serialize = serializer_for(asset, frozenset({"label", "contact", "name"}))
    assert orjson.dumps(serialize({"name": "{a}", "contact": None})) == (
        b'{"name":"{a}","contact":null,"label":"{a} "}'
    )


def test_without_attributes_the_object_is_empty() -> None:
    assert serializer_for(asset, frozenset())({"name": "a"}) == {}
