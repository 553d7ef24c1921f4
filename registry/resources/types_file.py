"""Types and attributes that a file in TOML declares, beside those of this package."""

import datetime
import decimal
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from marshmallow import Schema, ValidationError, post_load, validate
from marshmallow import fields as options
from marshmallow.fields import Field

from registry.model import fields
from registry.model.base_schema import RecordSchema
from registry.model.graph import Graph
from registry.model.resource_type import History, InvalidDeclaration, Link, ResourceType
from registry.resources import RESOURCES

Table: TypeAlias = Mapping[str, Any]

_MAX_BYTES = 2**18

_MAX_VALUES = 100
"""Values of an enumeration, which error messages list."""

_CLASSES: Mapping[str, type[Field[Any]]] = {
    "text": fields.String,
    "email": fields.Email,
    "integer": fields.Integer,
    "decimal": fields.Decimal,
    "boolean": fields.Boolean,
    "date": fields.Date,
    "datetime": fields.DateTime,
}

_USE = f"Use {', '.join(_CLASSES)}, or else enum or link."
"""The error about the type of an attribute."""

RESERVED_COLLECTIONS = frozenset(
    {
        *("api", "changes", "health", "metrics", "operations"),
        *("counters", "idempotency_keys", "incomplete_restore", "registry", "tokens"),
    }
)
"""The paths of the service, and the collections that are not resources."""


class InvalidTypesFile(ValueError):
    """A file of types is not valid; the message is one line, which names the file and the place."""


@dataclass(frozen=True, slots=True)
class TypesFile:
    """The content of a valid file of types."""

    text: str

    def resources(self) -> tuple[ResourceType, ...]:
        """Return the types of this package and of the file."""
        return _declared(tomllib.loads(self.text, parse_float=_decimal))


def read_types(name: str) -> TypesFile:
    """Read a file of types. Raises InvalidTypesFile."""
    try:
        if Path(name).exists() and not Path(name).is_file():  # a pipe may never end
            raise ValueError("not a regular file")
        with Path(name).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"larger than {_MAX_BYTES:,} bytes")
        types = TypesFile(content.decode("utf-8-sig"))
        Graph(types.resources())
    except OSError as error:
        raise InvalidTypesFile(f"{name}: {error.strerror}") from None
    except RecursionError:
        raise InvalidTypesFile(f"{name}: nested too deeply") from None
    except ValueError as error:  # of TOML with its line, of UTF-8, or an InvalidDeclaration
        raise InvalidTypesFile(f"{name}: {error}") from None
    return types


def declared_types(types: TypesFile | None) -> tuple[ResourceType, ...]:
    """Return the types of this package, and of a file if there is one."""
    return types.resources() if types else RESOURCES


def _decimal(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:  # the exponent has too many digits
        raise ValueError(f"{text} is out of range") from None


def _declared(tables: Table) -> tuple[ResourceType, ...]:
    """Return the types of this package and of parsed tables. Raises InvalidDeclaration."""
    types = {each.type: each for each in RESOURCES}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InvalidDeclaration(f"`{name}` is not a table: declare a type as [{name}]")
        types[name] = _with_attributes(name, table, types.get(name))
    for name, table in tables.items():
        # After all attributes, as histories copy some of the targets.
        links = tuple(_link(types, name, *item) for item in table.items() if _is_link(item[1]))
        types[name] = replace(types[name], links=(*types[name].links, *links))
    return tuple(types.values())


def _with_attributes(name: str, table: Table, existing: ResourceType | None) -> ResourceType:
    """Return a type with the attributes of its table: a new one, or one of this package."""
    declared = dict(table)
    if existing is None:
        collection = declared.pop("collection", None)
        if not isinstance(collection, str):
            advice = f'such as collection = "{name}s"'
            raise InvalidDeclaration(f"the new type {name} needs its collection, {advice}")
        if collection in RESERVED_COLLECTIONS:
            raise InvalidDeclaration(
                f"{name}: the collection {collection} is reserved: choose another"
            )
        existing = ResourceType(name, collection, Schema)
    elif "collection" in declared:
        reason = f"the collection of {name} is {existing.collection}: leave it out"
        raise InvalidDeclaration(reason)
    # The generated schema replaces a field `Meta`, as classes of marshmallow have this member.
    if taken := sorted(declared.keys() & {"Meta", *existing.schema().fields}):
        raise InvalidDeclaration(f"{name}.{taken[0]} exists: choose another name")
    attributes = {
        field: _Attribute().read(each if isinstance(each, dict) else {"type": each}, name, field)
        for field, each in declared.items()
        if not _is_link(each)
    }
    if not (existing.attributes or attributes):
        raise InvalidDeclaration(f"the new type {name} needs an attribute")
    schema = existing.schema.from_dict({**attributes}, name=existing.schema.__name__)
    unique = {
        field for field, each in declared.items() if isinstance(each, dict) and each.get("unique")
    }
    return replace(existing, schema=schema, unique=existing.unique | unique)


def _is_link(declared: Any) -> bool:
    return isinstance(declared, dict) and "link" in declared


class _Options(Schema):
    """What a table declares."""

    def read(self, declared: Table, *path: str) -> Any:
        """Return what a table at a path declares. Raises InvalidDeclaration."""
        try:
            return self.load(declared)
        except ValidationError as error:
            reason: Any = error.messages  # by name, and by the index in a list
            while isinstance(reason, dict):
                name, reason = next(iter(reason.items()))
                path = (*path, str(name))
            raise InvalidDeclaration(f"{'.'.join(path)}: {reason[0]}") from None


class _Attribute(_Options):
    """The options of an attribute."""

    type = options.String(validate=validate.OneOf(_CLASSES, error=_USE))
    enum = options.List(
        options.String(validate=validate.Length(1, fields.MAX_TEXT)),
        validate=validate.Length(1, _MAX_VALUES),
    )
    required = fields.Boolean(load_default=False)
    default = options.Raw()
    nullable = fields.Boolean()
    unique = fields.Boolean()
    example = options.Raw()
    description = options.String()

    @post_load
    def field(self, declared: Table, **_: Any) -> Field[Any]:
        """Return the field of the schema of the type. Raises ValidationError."""
        make = _constructor(declared)
        required, has_default = declared["required"], "default" in declared
        if required and has_default:
            raise ValidationError("A required attribute cannot have one.", "default")
        nullable = declared.get("nullable", not required and not has_default)
        if not (nullable or required or has_default):
            raise ValidationError("Without it, add required or a default.", "nullable")
        metadata = {name: declared[name] for name in ("description",) if name in declared}
        if "example" in declared:
            example = _loaded(make(), "example", declared)
            metadata["example"] = make().serialize("example", {"example": example})
        loaded = {} if required else {"load_default": _loaded(make(), "default", declared)}
        return make(required=required, allow_none=nullable, metadata=metadata, **loaded)


def _constructor(declared: Table) -> Callable[..., Field[Any]]:
    kind, values = declared.get("type"), declared.get("enum")
    if values is None:
        if kind is None:
            raise ValidationError(_USE, "type")
        return _CLASSES[kind]
    if kind not in {None, "text"}:
        raise ValidationError("Only text can have one.", "enum")
    if len({*values}) < len(values):
        raise ValidationError("The values must be different.", "enum")
    return partial(fields.Enumeration, *values)


def _loaded(field: Field[Any], option: str, declared: Table) -> Any:
    """Return the value of an option as the attribute loads it, None without the option.

    Raises ValidationError, by the name of the option.
    """
    value = declared.get(option)
    # TOML has values of these types, JSON has text.
    if isinstance(field, fields.Date | fields.DateTime) and isinstance(value, datetime.date):
        value = value.isoformat()
    elif isinstance(field, fields.Decimal) and isinstance(value, decimal.Decimal):
        value = str(value)
    if value is None:
        return None
    bound = RecordSchema.from_dict({option: field})()  # which checks what MongoDB cannot store
    return bound.load({option: value})[option]


class _Link(_Options):
    """The options of a link. inverse: the name of the relationship of the target."""

    link = options.String(required=True)
    inverse = options.String(required=True)


def _link(types: Mapping[str, ResourceType], type_name: str, name: str, declared: Table) -> Link:
    """Return a link with a history, whose periods copy a text that identifies each end."""
    loaded = _Link().read(declared, type_name, name)
    if loaded["link"] not in types:
        reason = f"the target {loaded['link']!r} is not declared; choose from {', '.join(types)}"
        raise InvalidDeclaration(f"{type_name}.{name}: {reason}")
    target, period = types[loaded["link"]], f"{type_name}_{name}_period"
    return Link(
        name=name,
        target=target.type,
        foreign_key=name,
        inverse=loaded["inverse"],
        history=History(
            type=period,
            collection=f"{period}s",
            source_copies=_copies(type_name, types[type_name]),
            target_copies=_copies(name, target),
        ),
    )


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
