"""Resource objects of records."""

import datetime
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import Schema

from registry.jsonapi.query import Query
from registry.jsonapi.resource_objects import Relationships, resource_objects
from registry.model import fields
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

    name = fields.String(required=True)
    weight = fields.Integer(load_default=None)
    contact = fields.Email(load_default=None)
    label = fields.ComputedText("name", "contact")
    price = fields.Decimal(load_default=None)
    bought = fields.DateTime(load_default=None)
    active = fields.Boolean(load_default=True)


asset = ResourceType("asset", "assets", AssetSchema)
TYPES = [asset, *RESOURCES]

MANY = 600


@given(data=st.data(), resource=st.sampled_from(TYPES))
def test_records_are_shown_as_marshmallow_dumps_them(
    data: st.DataObject, resource: ResourceType
) -> None:
    names = list(resource.attributes)
    selected = data.draw(st.lists(st.sampled_from(names), unique=True))
    values = {name: DECLARED.get(name, st.text()) for name in [*names, "x"]}
    optional = {name: values.pop(name) for name in names if resource.attributes[name].nullable}
    records: list[dict[str, Any]] = data.draw(
        st.lists(st.fixed_dictionaries(values, optional=optional), min_size=1, max_size=3)
    )
    query = Query(fields={resource.type: set(selected)})
    numbered = [{"_id": 1, **record} for record in records]
    schema = resource.record_schema(only=[name for name in names if name in selected])
    expected = [
        f'"attributes":{orjson.dumps(schema.dump(record)).decode()},"links"' for record in records
    ]
    for count in (1, MANY):  # by the schema, and by what is compiled from it
        texts = resource_objects(resource, numbered * count, Relationships(), query)
        for text, attributes in zip(texts, expected * count, strict=True):
            assert attributes in text
