"""Stored records -> `attributes` and `meta` of resource objects, by generated functions.

Values are inserted into JSON text as they are. Whether any of them needs escapes, which is rare, is
checked afterwards for many records at once. Escaping the values of each record would take twice as
long.
"""

import linecache
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import orjson

from registry.model.attributes import Attribute, ComputedText
from registry.model.authorship import AUTHORSHIP, CREATED_AT, CREATED_BY, UPDATED_AT, UPDATED_BY
from registry.model.record import Record

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Serializer:
    """Python source that serializes a part of a record.

    lines: statements that set variables from `record` and `escaped`: the JSON text, and the values
    inserted in it as they are, with the prefix `raw_`. Unless `is_verbatim` holds for these, the
    JSON text is only valid with `escaped`. namespace: the globals of the statements.
    """

    lines: tuple[str, ...]
    namespace: Mapping[str, Any]


def is_verbatim(text: str) -> bool:
    """Whether JSON contains a text as it is, without escapes."""
    return len(orjson.dumps(text)) == len(text.encode()) + len('""')


def attribute_serializer(attributes: Mapping[str, Attribute]) -> Serializer:
    """Return the serializer of attributes, in their order: `attributes`, an object.

    Values of the declared types are serialized by inlined expressions. A record with other values,
    by an external writer, is passed to `serialize`.
    """
    variables: dict[str, str] = {}  # by stored name
    namespace: dict[str, Any] = {"dumps": orjson.dumps, "serialize": _best_effort(attributes)}
    checks, values_by_name = [], {}
    is_text = all(one.stored_type is str and one.is_json for one in attributes.values())
    for name, attribute in attributes.items():
        stored = attribute.parts if isinstance(attribute, ComputedText) else (name,)
        values = [variables.setdefault(field, f"value_{len(variables)}") for field in stored]
        values_by_name[name] = values
        namespace |= {f"class_{name}": attribute.stored_type, f"json_{name}": attribute.to_json}
        null = f" or {values[0]} is None" if attribute.nullable else ""
        checks += [f"({value}.__class__ is class_{name}{null})" for value in values]
    inlined = _inserted if is_text else _dumped
    lines = (
        *(f"{variable} = record.get({field!r})" for field, variable in variables.items()),
        f"if {' and '.join(['not escaped'] * is_text + checks) or 'True'}:",
        *(f"    {line}" for line in inlined(attributes, values_by_name)),
        "else:",
        "    attributes, raw_attributes = serialize(record), ''",
    )
    return Serializer(lines, namespace)


def authorship_serializer() -> Serializer:
    """Return the serializer of authorship: `meta`, a member with a comma before it.

    It is empty if nothing is known. A record with values of other types, by an external writer, is
    passed to `serialize_authorship`.
    """
    times = (CREATED_AT, UPDATED_AT)
    lines = [f"{name} = record.get({name!r})" for name in AUTHORSHIP]
    keyword = "if"
    for known in (times, tuple(AUTHORSHIP), (*times, UPDATED_BY), (*times, CREATED_BY), ()):
        lines += [f"{keyword} {_is_known(known)}:", *(f"    {line}" for line in _meta(known))]
        keyword = "elif"
    lines += ["else:", "    meta, raw_meta = serialize_authorship(record), ''"]
    return Serializer(tuple(lines), {"serialize_authorship": _serialize_authorship})


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
    return function


def _inserted(
    attributes: Mapping[str, Attribute], values_by_name: Mapping[str, list[str]]
) -> Iterator[str]:
    """Yield the statements that insert texts into an object."""
    members = []
    for name, attribute in attributes.items():
        values = values_by_name[name]
        if attribute.nullable:
            (value,) = values
            yield f"""json_{value} = 'null' if {value} is None else f'"{{{value}}}"'"""
            members.append(f'"{name}":{{json_{value}}}')
        else:
            members.append(f'"{name}":"{" ".join(f"{{{value}}}" for value in values)}"')
    yield f"attributes = f'{{{{{','.join(members)}}}}}'"
    variables = {value: None for values in values_by_name.values() for value in values}
    yield f"raw_attributes = f'{''.join(f'{{{value}}}' for value in variables)}'"


def _dumped(
    attributes: Mapping[str, Attribute], values_by_name: Mapping[str, list[str]]
) -> Iterator[str]:
    """Yield the statements that serialize a dict of values of several types."""
    members = []
    for name, attribute in attributes.items():
        values = values_by_name[name]
        expression = values[0] if attribute.is_json else f"json_{name}({values[0]})"
        if isinstance(attribute, ComputedText):
            expression = f'f"{" ".join(f"{{{value}}}" for value in values)}"'
        members.append(f'"{name}": {expression}')
    yield f"attributes, raw_attributes = dumps({{{', '.join(members)}}}).decode(), ''"


def _is_known(names: Collection[str]) -> str:
    """Return the condition for records with these members of the authorship alone, as texts."""
    texts = [f"{name}.__class__ is str" for name in names]
    nulls = [f"{name} is None" for name in AUTHORSHIP if name not in names]
    return " and ".join(["not escaped", *texts, *nulls])


def _meta(names: Collection[str]) -> Iterator[str]:
    """Yield the statements that insert these members of the authorship into `meta`."""
    members = ",".join(f'"{name}":"{{{name}}}"' for name in AUTHORSHIP if name in names)
    yield f"""meta = f',"meta":{{{{{members}}}}}'""" if members else "meta = ''"
    yield f"raw_meta = {' + '.join(names) or repr('')}"


def _best_effort(attributes: Mapping[str, Attribute]) -> Callable[[Record], str]:
    """Return the serializer of records whose values may be of any BSON type.

    An attribute that is missing or null is omitted, unless it is nullable.
    """

    def serialize(record: Record) -> str:
        values: dict[str, Any] = {}
        for name, attribute in attributes.items():
            if isinstance(attribute, ComputedText):
                values[name] = attribute.compute(record)
            elif (value := record.get(name)) is not None or attribute.nullable:
                values[name] = attribute.to_json(value)
        return orjson.dumps(values, default=str).decode()

    return serialize


def _serialize_authorship(record: Record) -> str:
    """Return the member `meta` with a comma before it, empty if nothing is known."""
    known = {
        name: attribute.to_json(record[name])
        for name, attribute in AUTHORSHIP.items()
        if record.get(name) is not None
    }
    return f',"meta":{orjson.dumps(known, default=str).decode()}' if known else ""
