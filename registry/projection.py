"""The attributes of a record, shown by a function that is made once for each choice of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from marshmallow import fields, missing

from registry.attributes import JoinedText

Projection: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Shows some attributes of a record by their names."""


def projection(chosen: Mapping[str, fields.Field[Any]]) -> Projection:
    """Return what shows these attributes as `Schema.dump` does, in their order.

    chosen: fields by name. `Schema.dump` looks at each record for hooks, accessors and nested
    schemas, which makes it an order of magnitude slower on a large collection.
    """

    def show(record: Mapping[str, Any]) -> dict[str, Any]:
        shown = {name: field.serialize(name, record) for name, field in chosen.items()}
        return {name: value for name, value in shown.items() if value is not missing}

    if not all(isinstance(field, fields.String | JoinedText) for field in chosen.values()):
        return show
    return _compiled(chosen, show)


def _compiled(chosen: Mapping[str, fields.Field[Any]], show: Projection) -> Projection:
    """Return a function for texts, which leaves to `show` a record that holds something else."""
    stored: dict[str, str] = {}  # the variable of each stored field
    tests, members = [], []
    for name, field in chosen.items():
        parts = field.parts if isinstance(field, JoinedText) else (name,)
        for part in parts:
            stored.setdefault(part, f"text_{len(stored)}")
        members.append(f"{name!r}: f'{' '.join(f'{{{stored[part]}}}' for part in parts)}'")
        if not isinstance(field, JoinedText):
            members[-1] = f"{name!r}: {stored[name]}"
    nullable = {name for name, field in chosen.items() if field.dump_default is None}
    for name, variable in stored.items():
        test = f"({variable} := get({name!r})).__class__ is str"
        tests.append(f"({test} or {variable} is None)" if name in nullable else test)
    source = f"""
def shown(record):
    get = record.get
    if {" and ".join(tests) or "True"}:
        return {{{", ".join(members)}}}
    return show(record)
"""
    names: dict[str, Any] = {"show": show}
    exec(source, names)  # noqa: S102 - made of declared names alone
    made: Projection = names["shown"]
    return made
