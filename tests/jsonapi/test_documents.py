"""Resource objects of records, by generated code."""

import datetime
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import Schema

from registry.jsonapi.documents import resource_objects
from registry.jsonapi.query import Query
from registry.model.attributes import Boolean, ComputedText, DateTime, Decimal, Email, Integer, Text
from registry.model.resource_type import ResourceType
from registry.resources import RESOURCES

DECLARED = {
    "price": st.decimals(allow_nan=False, allow_infinity=False, places=2),
    "bought": st.datetimes(timezones=st.just(datetime.UTC)),
    "weight": st.integers(-(2**63), 2**63 - 1),
    "active": st.booleans(),
}


class AssetSchema(Schema):
    """Attributes of several types."""

    name = Text(required=True)
    weight = Integer()
    contact = Email()
    label = ComputedText("name", "contact")
    price = Decimal()
    bought = DateTime()
    active = Boolean(default=True)


asset = ResourceType("asset", "assets", AssetSchema)
TYPES = [asset, *RESOURCES]


@given(data=st.data(), resource=st.sampled_from(TYPES))
def test_a_record_is_serialized_as_marshmallow_dumps_it(
    data: st.DataObject, resource: ResourceType
) -> None:
    names = list(resource.attributes)
    selected = data.draw(st.lists(st.sampled_from(names), unique=True))
    values = {name: DECLARED.get(name, st.text()) for name in [*names, "x"]}
    optional = {name: values.pop(name) for name in names if resource.attributes[name].nullable}
    record: dict[str, Any] = data.draw(st.fixed_dictionaries(values, optional=optional))
    dumped = resource.schema(only=selected).dump(record)
    expected = {}
    for name, attribute in resource.attributes.items():
        if name in selected and isinstance(attribute, ComputedText):
            expected[name] = attribute.compute(record)
        elif name in selected and (dumped.get(name) is not None or attribute.nullable):
            expected[name] = dumped.get(name)
    query = Query(fields={resource.type: set(selected)})
    (text,) = resource_objects(resource, [{"_id": 1, **record}], {}, query)
    assert f'"attributes":{orjson.dumps(expected, default=str).decode()},"links"' in text
