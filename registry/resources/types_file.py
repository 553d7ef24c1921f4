"""Types and attributes that a file in TOML declares, beside those of this package."""

import datetime
import decimal
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from marshmallow import Schema, ValidationError
from marshmallow.fields import Field

from registry.model import fields
from registry.model.graph import Graph
from registry.model.resource_type import (
    DeclarationPath,
    History,
    InvalidDeclaration,
    Link,
    ResourceType,
)
from registry.resources import RESOURCES

Table: TypeAlias = Mapping[str, Any]

_MAX_BYTES = 2**18

_MAX_VALUES = 100
"""Values of an enumeration, which error messages list."""

_TOML_ERROR = re.compile(r"(.*) \(at line ([0-9]+), column [0-9]+\)")

_TOML_KEY = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_STATEMENT = re.compile(
    rf"\s*(?P<table>\[*)\s*(?P<names>{_TOML_KEY}(?:\s*\.\s*{_TOML_KEY})*)\s*[\]=]"
)
"""The beginning of a line that declares something."""

_CLASSES: Mapping[str, type[Field[Any]]] = {
    "text": fields.String,
    "email": fields.Email,
    "integer": fields.Integer,
    "decimal": fields.Decimal,
    "boolean": fields.Boolean,
    "date": fields.Date,
    "datetime": fields.DateTime,
}

_ATTRIBUTE_OPTIONS: Mapping[str, type] = {
    "type": str,
    "enum": list,
    "required": bool,
    "default": object,
    "nullable": bool,
    "unique": bool,
    "example": object,
    "description": str,
}
_LINK_OPTIONS: Mapping[str, type] = {"link": str, "inverse": str}
"""The options of an attribute and of a link, with the class of their values."""

_TOML_NAMES: Mapping[type, str] = {str: "text", bool: "true or false", list: "a list of texts"}

RESERVED_COLLECTIONS = frozenset(
    {
        *("api", "changes", "health", "metrics", "operations"),
        *("counters", "idempotency_keys", "incomplete_restore", "registry", "tokens"),
    }
)
"""The paths of the service, and the collections that are not resources."""


class InvalidTypesFile(ValueError):
    """A file of types is not valid; the message is one line, which names the file and the line."""


@dataclass(frozen=True, slots=True)
class TypesFile:
    """A valid file of types. name: for messages. text: its content."""

    name: str
    text: str

    def __str__(self) -> str:
        return self.name

    def resources(self) -> tuple[ResourceType, ...]:
        """Return the types of this package and of the file."""
        return _declared(_parsed(self.text))

    def place(self, path: DeclarationPath) -> str:
        """Return the name of the file, and the line that declares a path, if one does."""
        line = _line_of(path, self.text)
        return self.name if line is None else f"{self.name}, line {line}"


def read_types(name: str) -> TypesFile:
    """Read a file of types. Raises InvalidTypesFile."""
    try:
        if Path(name).exists() and not Path(name).is_file():  # a pipe may never end
            raise ValueError("not a regular file")
        with Path(name).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"larger than {_MAX_BYTES:,} bytes")
        # With a last line that ends, as errors otherwise name the end instead of the line.
        types = TypesFile(name, content.decode("utf-8-sig").replace("\r\n", "\n") + "\n")
        Graph(types.resources())
    except OSError as error:
        raise InvalidTypesFile(f"{name}: {error.strerror}") from None
    except InvalidDeclaration as error:
        raise InvalidTypesFile(f"{types.place(error.path)}: {error}") from None
    except RecursionError:
        raise InvalidTypesFile(f"{name}: nested too deeply") from None
    except ValueError as error:  # of TOML, mostly with the line, or of UTF-8
        found = _TOML_ERROR.fullmatch(str(error))
        shown = f", line {found[2]}: {found[1]}" if found else f": {error}"
        raise InvalidTypesFile(f"{name}{shown}") from None
    return types


def declared_types(types: TypesFile | None) -> tuple[ResourceType, ...]:
    """Return the types of this package, and of a file if there is one."""
    return types.resources() if types else RESOURCES


def _parsed(text: str) -> Table:
    return tomllib.loads(text, parse_float=decimal.Decimal)


def _line_of(path: DeclarationPath, text: str) -> int | None:
    """Return the first line that looks as if it declares a path, or its nearest parent."""
    lines: dict[DeclarationPath, int] = {}
    table: DeclarationPath = ()
    for number, line in enumerate(text.split("\n"), 1):
        if statement := _STATEMENT.match(line):
            names = tuple(name.strip("\"'") for name in re.findall(_TOML_KEY, statement["names"]))
            table, declared = (names, names) if statement["table"] else (table, (*table, *names))
            for end in range(1, len(declared) + 1):
                lines.setdefault(declared[:end], number)
    declared = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in lines), ())
    return lines.get(declared)


def _declared(tables: Table) -> tuple[ResourceType, ...]:
    """Return the types of this package and of parsed tables. Raises InvalidDeclaration."""
    types, existing = {each.type: each for each in RESOURCES}, Graph(RESOURCES)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InvalidDeclaration(f"`{name}` is not a table: declare a type as [{name}]", name)
        taken = existing[name].relationships.keys() if name in types else ()
        types[name] = _with_attributes(name, table, types.get(name), taken)
    for name, table in tables.items():
        # After all attributes, as histories copy some of the targets.
        links = tuple(
            _link(types, name, *declared) for declared in table.items() if _is_link(declared[1])
        )
        types[name] = replace(types[name], links=(*types[name].links, *links))
    return tuple(types.values())


def _with_attributes(
    name: str, table: Table, existing: ResourceType | None, relationships: Iterable[str]
) -> ResourceType:
    """Return a type with the attributes of its table: a new one, or one of this package.

    relationships: the names of those that it has.
    """
    declared = dict(table)
    if existing is None:
        collection = declared.pop("collection", None)
        if not isinstance(collection, str):
            advice = f'such as collection = "{name}s"'
            raise InvalidDeclaration(f"the new type {name} needs its collection, {advice}", name)
        if collection in RESERVED_COLLECTIONS:
            reserved = f"the collection {collection} is reserved: choose another"
            raise InvalidDeclaration(reserved, name, "collection")
        existing = ResourceType(name, collection, Schema)
    elif "collection" in declared:
        reason = f"the collection of {name} is {existing.collection}: leave it out"
        raise InvalidDeclaration(reason, name, "collection")
    taken = {*existing.schema().fields, *relationships}
    for field in declared:
        if field in taken:
            raise InvalidDeclaration(f"{name}.{field} exists: choose another name", name, field)
    attributes = {
        field: _attribute(name, field, options)
        for field, options in declared.items()
        if not _is_link(options)
    }
    if not (existing.attributes or attributes):
        raise InvalidDeclaration(f"the new type {name} needs an attribute", name)
    schema = existing.schema.from_dict({**attributes}, name=existing.schema.__name__)
    unique = {
        field
        for field, options in declared.items()
        if isinstance(options, dict) and options.get("unique")
    }
    return replace(
        existing, schema=schema, unique=existing.unique | unique, added=frozenset(declared)
    )


def _is_link(options: Any) -> bool:
    return isinstance(options, dict) and "link" in options


def _attribute(type_name: str, name: str, declared: Any) -> Field[Any]:
    path = type_name, name
    options = declared if isinstance(declared, dict) else {"type": declared}
    _check_options(options, _ATTRIBUTE_OPTIONS, path)
    make, required = _maker(options, path), options.get("required", False)
    if "default" in options and required:
        reason = "has a default, so it cannot be required"
        raise InvalidDeclaration(f"{type_name}.{name} {reason}", *path)
    nullable = options.get("nullable", not required and "default" not in options)
    if not (nullable or required or "default" in options):
        reason = "must be required or nullable, or have a default"
        raise InvalidDeclaration(f"attribute {type_name}.{name} {reason}", *path)
    values = {}
    for option in ("default", "example"):
        if option in options:
            try:
                values[option] = make().deserialize(_json_value(options[option]))
            except ValidationError as error:
                reason = f"the {option} of {type_name}.{name}: {' '.join(map(str, error.messages))}"
                raise InvalidDeclaration(reason, *path, option) from None
    metadata = {key: options[key] for key in ("description",) if key in options}
    if "example" in values:
        metadata["example"] = make().serialize(name, {name: values["example"]})
    default = {} if required else {"load_default": values.get("default")}
    return make(required=required, allow_none=nullable, metadata=metadata, **default)


def _maker(options: Table, path: DeclarationPath) -> Callable[..., Field[Any]]:
    """Return the constructor of the attribute that these options declare."""
    kind, values = options.get("type", "text"), options.get("enum")
    if kind not in _CLASSES or (values is None and "type" not in options):
        found = repr(kind) if "type" in options else "no type"
        reason = f"has {found}: use {', '.join(_CLASSES)}, or enum or link"
        raise InvalidDeclaration(f"{'.'.join(path)} {reason}", *path)
    if values is None:
        return _CLASSES[kind]
    is_valid = kind == "text" and all(
        isinstance(text, str) and 0 < len(text) <= fields.MAX_TEXT for text in values
    )
    if not is_valid or not 0 < len(values) <= _MAX_VALUES or len({*values}) < len(values):
        reason = f"the enum of {'.'.join(path)} must be 1 to {_MAX_VALUES} different texts"
        raise InvalidDeclaration(reason, *path, "enum")
    return partial(fields.Enumeration, *values)


def _check_options(options: Table, known: Mapping[str, type], path: DeclarationPath) -> None:
    for option, value in options.items():
        if option not in known:
            reason = f"has no option {option!r}; choose from {', '.join(known)}"
            raise InvalidDeclaration(f"{'.'.join(path)} {reason}", *path, option)
        if not isinstance(value, known[option]):
            reason = f"must be {_TOML_NAMES[known[option]]}"
            raise InvalidDeclaration(f"{option} of {'.'.join(path)} {reason}", *path, option)


def _json_value(value: Any) -> Any:
    """Return what JSON has for a value of TOML: text for times, dates and decimal numbers."""
    match value:
        case datetime.date():  # or a datetime
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
    return value


def _link(types: Mapping[str, ResourceType], type_name: str, name: str, options: Table) -> Link:
    """Return a link with a history, whose periods copy a text that identifies each end."""
    path = type_name, name
    _check_options(options, _LINK_OPTIONS, path)
    if missing := _LINK_OPTIONS.keys() - options:
        reason = f"needs {missing.pop()}, the name of the relationship of the target"
        raise InvalidDeclaration(f"the link {'.'.join(path)} {reason}", *path)
    target = types.get(options["link"])
    if target is None:
        reason = f"the target of {'.'.join(path)}, {options['link']!r}, is not declared"
        raise InvalidDeclaration(f"{reason}; choose from {', '.join(types)}", *path)
    return Link(
        name=name,
        target=target.type,
        foreign_key=name,
        inverse=options["inverse"],
        history=History(
            type=history_type(type_name, name),
            collection=f"{history_type(type_name, name)}s",
            source_copies=_copies(type_name, types[type_name]),
            target_copies=_copies(name, target),
        ),
    )


def history_type(type_name: str, link_name: str) -> str:
    """Return the type of the periods of a declared link; its collection appends an s."""
    return f"{type_name}_{link_name}_period"


def _copies(end: str, resource: ResourceType) -> dict[str, str]:
    """Return the name of a copy and the text that it copies: computed, or the first required."""
    texts = {fields.String, fields.Email}
    named = [
        *resource.computed,
        *(
            name
            for name, attribute in resource.attributes.items()
            if type(attribute.field) in texts and attribute.required
        ),
    ]
    return {f"{end}_{name}": name for name in named[:1]}
