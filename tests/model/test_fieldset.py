"""Sparse fieldsets by `Schema(only=...)`, and the function that is compiled from it for lists."""

from itertools import combinations
from typing import Any

import pytest
from marshmallow import Schema, fields, post_dump, pre_dump

from registry.model import fieldset as module
from registry.model.compiled_dump import compile_dump
from registry.model.fields import ComputedText, Date, Integer, String
from registry.model.fieldset import Fieldset, fieldset
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.resources import RESOURCES
from registry.resources.person import PersonSchema

PERSON = Graph(RESOURCES)["person"]
RECORD = {"_id": 1, "first_name": "Ada", "last_name": "L", "email": None, "password": "hash"}
MANY = 1_000


def of_type(schema: type[Schema]) -> ResourceType:
    return ResourceType("thing", "things", schema)


def test_a_schema_of_the_package_serializes_by_itself() -> None:
    sent = {"first_name": "Ada", "last_name": "L", "email": "a@b.org", "password": "hash"}
    names = {"first_name": "Ada", "last_name": "L", "email": "a@b.org"}
    assert PersonSchema().dump(sent) == names | {"full_name": "Ada L"}
    assert PersonSchema(only=["full_name"]).dump(sent) == {"full_name": "Ada L"}
    assert PersonSchema().load(names) == names


def test_the_fields_of_a_request_decide_what_is_read_and_shown() -> None:
    chosen = fieldset(PERSON, frozenset({"full_name", "email", "unknown"}))
    assert chosen.fields == ("first_name", "last_name", "email")
    assert chosen.dump(RECORD) == {"full_name": "Ada L", "email": None}
    assert fieldset(PERSON, frozenset()).fields == ()
    assert fieldset(PERSON, frozenset()).dump_all([RECORD]) == [{}]


class Hooked(Schema):
    name = String(required=True)
    kind = String(load_default=None)

    @post_dump
    def greet(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        return data | {"name": f"Hello {data['name']}"}


class Prepared(Schema):
    name = String(required=True)

    @pre_dump(pass_collection=True)
    def number(self, data: Any, many: bool, **_: Any) -> Any:
        return [resource | {"name": f"{resource['name']}!"} for resource in data] if many else data


class Reader(Schema):
    name = String(required=True)

    def get_attribute(self, obj: Any, attr: str, default: Any) -> Any:
        return f"<{super().get_attribute(obj, attr, default)}>"


@pytest.mark.parametrize("schema", [Hooked, Prepared, Reader])
def test_a_schema_that_changes_how_it_dumps_is_not_compiled(schema: type[Schema]) -> None:
    resource = of_type(schema)
    shown = Fieldset(resource, frozenset({"name"}))
    assert compile_dump(shown.schema) is None
    records = [{"_id": 1, "name": "Ada", "kind": "x"}] * MANY
    assert shown.dump_all(records) == resource.record_schema(only=["name"]).dump(records, many=True)


def test_a_schema_with_hooks_of_dump_reads_all_attributes() -> None:
    assert {"name", "kind"} <= {*Fieldset(of_type(Hooked), frozenset({"name"})).fields}


class Initial(fields.String):
    """Shows what another field has."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        return super()._serialize(value, attr, obj, **kwargs) and obj["name"][:1]


class Backwards(ComputedText):
    """Joins the parts in another order."""

    def get_value(self, obj: Any, *arguments: Any, **options: Any) -> str:
        return super().get_value(obj, *arguments, **options)[::-1]


class Mixed(Schema):
    name = String(required=True)
    initial = Initial(load_default="-")
    whole = ComputedText("name", "shown")
    back = Backwards("name")
    day = Date(load_default=None)
    plain = fields.Integer(load_default=1)
    size = Integer()
    shown = String(load_default=None, dump_default="nothing")


def test_any_fieldset_is_compiled_to_what_the_schema_dumps() -> None:
    resource = of_type(Mixed)
    full = {"name": "Ada", "initial": "-", "day": "2026-02-28", "plain": 1, "size": 2, "shown": "s"}
    names = resource.attributes.keys()
    for count in range(3):
        for chosen in combinations(names, count):
            schema = resource.record_schema(only=chosen)
            dump = compile_dump(schema)
            assert dump
            for record in (full, {"name": "Ada", "plain": 5}, full | {"day": None, "shown": None}):
                assert dump([record] * 2) == schema.dump([record] * 2, many=True)


def test_what_a_field_shows_of_others_is_read() -> None:
    assert {"name", "day"} <= {*Fieldset(of_type(Mixed), frozenset({"initial"})).fields}


def test_only_what_is_shown_in_long_lists_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = list[Schema]()

    def count(schema: Schema) -> None:
        compiled.append(schema)

    monkeypatch.setattr(module, "compile_dump", count)
    names = [*PERSON.readable]
    for chosen in (frozenset(some) for size in range(9) for some in combinations(names, size)):
        assert len(Fieldset(PERSON, chosen).dump_all([RECORD] * 50)) == 50
    assert not compiled
    shown = Fieldset(PERSON, frozenset(names))
    for _ in range(30):
        shown.dump_all([RECORD] * 50)
    assert compiled == [shown.schema]
