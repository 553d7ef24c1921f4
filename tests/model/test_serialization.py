"""The attributes of records, shown without marshmallow's own round over each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import Schema, fields

from registry.model.attributes import EmailAddress, JoinedText, ShortText
from registry.model.codegen import compiled
from registry.model.serialization import projection
from registry.resources import RESOURCES

STORED = st.one_of(st.text(), st.none(), st.integers(), st.booleans(), st.floats(allow_nan=False))


class AssetSchema(Schema):
    """Attributes of which some are no text."""

    name = ShortText(required=True)
    weight = fields.Integer()
    contact = EmailAddress(allow_none=True, dump_default=None)
    label = JoinedText("name", "place")
    maker = fields.String(dump_default="unknown")


def shower(chosen: Mapping[str, fields.Field[Any]]) -> Callable[[Mapping[str, Any]], str]:
    """Return the function of the statements that show these attributes."""
    made = projection(chosen)
    lines = ["def made(record):", *made.lines, "return attributes"]
    return compiled("\n    ".join(lines), **made.known)


SCHEMAS = [AssetSchema, *(resource.schema for resource in RESOURCES)]


@given(data=st.data(), schema=st.sampled_from(SCHEMAS))
def test_a_record_is_shown_as_marshmallow_dumps_it(
    data: st.DataObject, schema: type[Schema]
) -> None:
    names = list(schema().fields)
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    stored = {name: STORED for name in [*names, "place", "version"] if name != "weight"}
    record: dict[str, Any] = data.draw(st.fixed_dictionaries({}, optional=stored))
    wanted = schema(only=chosen)
    show = shower({name: wanted.dump_fields[name] for name in chosen})
    assert show(record) == orjson.dumps(wanted.dump(record)).decode()


def test_a_record_of_texts_and_nulls_is_shown_in_the_order_of_the_choice() -> None:
    dump_fields = AssetSchema(only=["label", "contact", "name"]).dump_fields
    show = shower({name: dump_fields[name] for name in ("name", "label", "contact")})
    shown = show({"name": "{a}", "place": "'b'", "contact": None})
    assert shown == """{"name":"{a}","label":"{a} 'b'","contact":null}"""


def test_of_no_attributes_none_is_shown() -> None:
    assert shower({})({"name": "a"}) == "{}"
