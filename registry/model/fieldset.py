"""Sparse fieldsets: what is read of records, and shown of them, by `Schema(only=...)`."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from marshmallow import Schema
from marshmallow.fields import Field

from registry.model.compiled_dump import Dump, compile_dump, overrides_dump
from registry.model.fields import ComputedText
from registry.model.implicit_attributes import CopiedText
from registry.model.record import Record
from registry.model.resource_type import ResourceType

_COMPILED_AFTER = 100
"""Resources that a fieldset shows before its function is compiled, which takes as long as dumping
a hundred: a client that cycles through fieldsets cannot cause more work than that."""


_KNOWN_MODULES = {each.__module__ for each in (Field, ComputedText, CopiedText)}
"""The modules whose fields serialize from their own value, or from what `_stored_fields` names."""


class Fieldset:
    """Some of the attributes of a type, and of the numbers of members of its relationships.

    schema: with these attributes only. fields: the stored fields to read, without the id.
    """

    def __init__(self, resource: ResourceType, names: frozenset[str]) -> None:
        shown = [name for name in resource.readable if name in names]
        self.schema = resource.record_schema(only=shown)
        counts = (field for name, field in resource.count_fields.items() if name in names)
        self.fields = (*_stored_fields(resource, self.schema), *counts)
        self._shown = 0

    def dump(self, record: Record) -> dict[str, Any]:
        """Return the attributes of a resource in JSON, by name."""
        shown: dict[str, Any] = self.schema.dump(record)
        return shown

    def dump_all(self, records: Sequence[Record]) -> list[dict[str, Any]]:
        """Return the attributes of resources, each as `dump` does; in time, by its function."""
        self._shown += len(records)
        if self._shown > _COMPILED_AFTER and (dump := self._compiled):
            return dump(records)
        shown: list[dict[str, Any]] = self.schema.dump(records, many=True)
        return shown

    @cached_property
    def _compiled(self) -> Dump | None:
        return compile_dump(self.schema)


def _stored_fields(resource: ResourceType, schema: Schema) -> tuple[str, ...]:
    """Return the fields of records that a schema dumps, and all foreign keys."""
    names, dumped = list[str](), [*schema.dump_fields.values()]
    if overrides_dump(type(schema)) or any(map(_may_read_others, dumped)):
        dumped += [each.field for each in resource.readable.values()]
    for field in dumped:
        match field:
            case ComputedText(parts=parts):
                names += parts
            case Field(name=str(name)):
                names.append(name)
    return tuple(dict.fromkeys([*names, *(link.foreign_key for link in resource.links)]))


def _may_read_others(field: Field[Any]) -> bool:
    """Whether the class of a field serializes in its own way, which can read all of a record."""
    own = type(field)
    methods = (own.serialize, own.get_value, own._serialize)
    return any(method.__module__ not in _KNOWN_MODULES for method in methods)


@lru_cache(maxsize=256)  # bounded, as clients choose the names; a schema of ten fields takes 10 kB
def fieldset(resource: ResourceType, names: frozenset[str]) -> Fieldset:
    """Return the attributes and the counts of relationships of these names; ignore others."""
    return Fieldset(resource, names)
