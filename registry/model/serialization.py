"""The attributes of a record, shown by statements that are made once for each choice of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
from marshmallow import fields, missing

from registry.model.attributes import JoinedText
from registry.model.resource import Resource

_Show: TypeAlias = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class AttributeSerializer:
    """What shows some attributes of a record by their names, as JSON.

    lines: statements that make `attributes` of `record`. known: what they speak of by name.
    """

    lines: tuple[str, ...]
    known: Mapping[str, Any]


def serializer_for(resource: Resource, names: frozenset[str]) -> AttributeSerializer:
    """Return the serializer of the named attributes; other names are ignored."""
    return projection({name: one for name, one in resource.attributes.items() if name in names})


def projection(chosen: Mapping[str, fields.Field[Any]]) -> AttributeSerializer:
    """Return what shows these attributes as `Schema.dump` does, in their order.

    chosen: fields by name. `Schema.dump` looks at each record for hooks, accessors and nested
    schemas, which makes it several times slower on a large collection.
    """

    def show(record: Mapping[str, Any]) -> str:
        shown = {name: field.serialize(name, record) for name, field in chosen.items()}
        return orjson.dumps(
            {k: value for k, value in shown.items() if value is not missing}
        ).decode()

    if all(map(_is_text, chosen.values())):
        return _of_texts(chosen, show)
    return AttributeSerializer(("attributes = show(record)",), {"show": show})


def _is_text(field: fields.Field[Any]) -> bool:
    """Whether what is stored as a text is shown as it is, or joined of such texts."""
    if isinstance(field, JoinedText):
        return True
    return isinstance(field, fields.String) and type(field)._serialize is fields.String._serialize


def _of_texts(chosen: Mapping[str, fields.Field[Any]], show: _Show) -> AttributeSerializer:
    """Return what shows texts, and leaves to `show` a record that holds something else."""
    variables: dict[str, str] = {}  # by the stored field that they hold

    def source_of(name: str, field: fields.Field[Any]) -> str:
        parts = field.parts if isinstance(field, JoinedText) else (name,)
        texts = [variables.setdefault(part, f"text_{len(variables)}") for part in parts]
        if isinstance(field, JoinedText):
            return f'f"{" ".join(f"{{{text}}}" for text in texts)}"'
        return texts[0]

    members = [
        f'"{name}":{{dumps({source_of(name, field)}).decode()}}' for name, field in chosen.items()
    ]
    nullable = {name for name, field in chosen.items() if field.dump_default is None}
    tests = [
        f"(({variable} := get({name!r})).__class__ is str{_or_null(variable, name in nullable)})"
        for name, variable in variables.items()
    ]
    lines = (
        "get = record.get",
        f"if {' and '.join(tests) or 'True'}:",
        f"    attributes = f'{{{{{','.join(members)}}}}}'",
        "else:",
        "    attributes = show(record)",
    )
    return AttributeSerializer(lines, {"show": show, "dumps": orjson.dumps})


def _or_null(variable: str, nullable: bool) -> str:
    return f" or {variable} is None" if nullable else ""
