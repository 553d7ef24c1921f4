"""Stored records -> `attributes` of resource objects, by generated functions."""

import linecache
import weakref
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import orjson

from registry.model.attributes import Attribute, ComputedText

_numbers = count(1)


def attribute_serializer(attributes: Mapping[str, Attribute]) -> tuple[list[str], dict[str, Any]]:
    """Return Python statements that serialize attributes in their order, and their globals.

    They set `attributes`, a JSON string, from a valid `record`.
    """
    variables: dict[str, str] = {}  # by stored name
    namespace: dict[str, Any] = {"dumps": orjson.dumps}
    members = []
    for name, attribute in attributes.items():
        stored = attribute.parts if isinstance(attribute, ComputedText) else (name,)
        values = [variables.setdefault(field, f"value_{len(variables)}") for field in stored]
        members.append(f'"{name}": {_expression(name, attribute, values)}')
        namespace[f"json_{name}"] = attribute.to_json
    lines = [f"{variable} = record.get({field!r})" for field, variable in variables.items()]
    return [*lines, f"attributes = dumps({{{', '.join(members)}}}).decode()"], namespace


def compile_function(name: str, source: str, namespace: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function of this name that the source defines. Tracebacks show its lines.

    source: generated from declared names only, never from a request. namespace: its globals.
    """
    file = f"<generated {name} {next(_numbers)}>"
    scope = dict(namespace)
    exec(compile(source, file, "exec"), scope)  # noqa: S102 - contains nothing from requests
    # `linecache` keeps entries without a modification time.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    function: Callable[..., Any] = scope[name]
    weakref.finalize(function, linecache.cache.pop, file)
    return function


def _expression(name: str, attribute: Attribute, values: list[str]) -> str:
    if isinstance(attribute, ComputedText):
        return f'f"{" ".join(f"{{{value} or {chr(39) * 2}}}" for value in values)}"'
    return values[0] if attribute.is_json else f"json_{name}({values[0]})"
