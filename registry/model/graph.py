"""The graph of all types: adds the inverses of links and validates the declarations."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from marshmallow import ValidationError

from registry.model.attributes import Attribute, ComputedText, Enumeration, Text
from registry.model.authorship import AUTHORSHIP
from registry.model.history import history_types
from registry.model.record import ID, LAST_WRITE, TEXT_BLOCK, VERSION
from registry.model.resource_type import Relationship, ResourceType

_MEMBER_NAME = re.compile(r"[a-z]([a-z0-9_]{0,61}[a-z0-9])?")

_MEMBERS = ("attributes", "data", "errors", "id", "included", "jsonapi", "lid", "links", "meta")
_RESERVED = {*_MEMBERS, "relationships", "type", *AUTHORSHIP, VERSION, LAST_WRITE, TEXT_BLOCK}
"""Members of JSON:API documents, and what every type or record has."""

_MAX_TYPES = 50
"""Types with those of histories: what is derived from each is kept in caches of 64."""

_MAX_INDEXES = 64
"""Those of a collection of MongoDB."""

_UNDECLARED_INDEXES = 2
"""Those of the ids and of the text blocks."""

DeclarationPath: TypeAlias = tuple[str, ...]
"""The name of a type, or of a type and one of its attributes or links."""


class InvalidDeclaration(ValueError):
    """A declaration that cannot work; the message names it and the reason. path: where it is."""

    def __init__(self, message: str, *path: str) -> None:
        super().__init__(message)
        self.path: DeclarationPath = path


class Graph(dict[str, ResourceType]):
    """All types by name, with their relationships in both directions, and those of histories.

    Raises InvalidDeclaration.
    """

    def __init__(self, declared: Iterable[ResourceType]) -> None:
        resources = tuple(declared)
        histories = tuple(history_types(resources))
        paths = [(one, _path_of(one)) for one in (*histories, *resources)]
        resources += histories
        if len(resources) > _MAX_TYPES:
            raise InvalidDeclaration(
                f"there are {len(resources)} types, with those of histories; allowed are "
                f"{_MAX_TYPES}"
            )
        _check_unique("type", [(one.type, path) for one, path in paths])
        collections = [(one.collection, (*path, "collection")) for one, path in paths]
        _check_unique("collection", collections)
        for resource_type in resources:
            _check_attributes(resource_type)
            _check_indexes(resource_type)
        _check_links(resources)
        super().__init__(
            (one.type, replace(one, relationships=_relationships(one, resources)))
            for one in resources
        )

    def with_unique(self, names: Collection[str]) -> "Graph":
        """Return the graph in which these attributes are unique too, such as `computer.serial`.

        Raises InvalidDeclaration for a name of anything but an attribute that can be unique.
        """
        possible = [
            f"{one.type}.{name}"
            for one in self.values()
            for name, attribute in one.attributes.items()
            if attribute.can_be_unique
        ]
        if unknown := [name for name in names if name not in possible]:
            choices = ", ".join(possible)
            raise InvalidDeclaration(
                f"{unknown[0]!r} is not an attribute that can be unique; choose from {choices}"
            )
        return Graph(
            replace(
                one,
                unique=frozenset(name for name in one.attributes if f"{one.type}.{name}" in names),
            )
            for one in self.writable
        )

    @property
    def writable(self) -> list[ResourceType]:
        """The types that requests may write."""
        return [one for one in self.values() if not one.read_only]


def _relationships(
    resource_type: ResourceType, resources: tuple[ResourceType, ...]
) -> dict[str, Relationship]:
    relationships, declared = [], []
    for link in resource_type.links:
        ends, key = (link.name, link.target, link.inverse), link.foreign_key
        relationships.append(Relationship(*ends, key, False, resource_type.read_only))
        declared.append((link.name, _path_of(resource_type, link.name)))
    for other in resources:
        for link in other.links:
            if link.target == resource_type.type:
                ends, key = (link.inverse, other.type, link.name), link.foreign_key
                relationships.append(Relationship(*ends, key, True, other.read_only))
                declared.append((link.inverse, _path_of(other, link.name)))
    _check_names(resource_type, declared)
    return {relationship.name: relationship for relationship in relationships}


def _path_of(resource_type: ResourceType, *names: str) -> DeclarationPath:
    """Return the path of a declaration: of a history, that of its link."""
    if resource_type.history_of is not None:
        return resource_type.links[0].target, resource_type.history_of.name
    return resource_type.type, *names


def _check_names(
    resource_type: ResourceType, relationships: Sequence[tuple[str, DeclarationPath]]
) -> None:
    """JSON:API 1.0: attributes and relationships share one namespace with `type` and `id`.

    They also share one with the authorship, which filters and sorts name in the same way.
    """
    own = _path_of(resource_type)
    attributes = [(name, _path_of(resource_type, name)) for name in resource_type.attributes]
    links = [(one.foreign_key, _path_of(resource_type, one.name)) for one in resource_type.links]
    hidden = [(name, own) for name in (*resource_type.hidden, *resource_type.tracking_fields)]
    fields, stored = [*attributes, *relationships], [*hidden, *attributes, *links]
    _check_unique(f"field of {resource_type.type}", fields)
    _check_unique(f"stored field of {resource_type.type}", stored)
    for name, path in [
        (resource_type.type, own),
        (resource_type.collection, own),
        *fields,
        *links,
    ]:
        if not _MEMBER_NAME.fullmatch(name):
            reason = "is not a valid name: use at most 63 of a-z, 0-9 and _, and begin with a-z"
            raise InvalidDeclaration(f"`{name}` of {resource_type.type} {reason}", *path)
        if name in _RESERVED:
            reason = "is not a valid name: it is reserved"
            raise InvalidDeclaration(f"`{name}` of {resource_type.type} {reason}", *path)


def _check_attributes(resource_type: ResourceType) -> None:
    for name, attribute in resource_type.attributes.items():
        path = _path_of(resource_type, name)
        if defect := _defect(attribute, resource_type) or _unique_defect(attribute):
            raise InvalidDeclaration(f"attribute {resource_type.type}.{name} {defect}", *path)
    for name, copy in resource_type.copies.items():
        if copy.metadata["example"] is None:
            path = _path_of(resource_type, name)
            reason = f"copies {copy.source} of {copy.end}, which must be a text attribute"
            raise InvalidDeclaration(f"attribute {resource_type.type}.{name} {reason}", *path)


def _check_indexes(resource_type: ResourceType) -> None:
    count = len(resource_type.indexed_fields - {ID}) + len(resource_type.unique_attributes)
    if count > _MAX_INDEXES - _UNDECLARED_INDEXES:
        reason = (
            f"needs {count} indexes, one for each attribute and link and another for each unique "
            f"attribute; allowed are {_MAX_INDEXES - _UNDECLARED_INDEXES}"
        )
        raise InvalidDeclaration(f"{resource_type.type} {reason}", *_path_of(resource_type))


def _defect(attribute: object, resource_type: ResourceType) -> str | None:
    """Return why the declaration of an attribute cannot work, or None if it can."""
    if not isinstance(attribute, Attribute):
        kind = type(attribute).__name__
        return f"is a {kind}: declare it with a type of registry.model.attributes"
    if isinstance(attribute, ComputedText):
        parts = [resource_type.attributes.get(part) for part in attribute.parts]
        if all(isinstance(part, Text) and not isinstance(part, ComputedText) for part in parts):
            return None
        return f"is computed from {', '.join(attribute.parts)}, which must all be text attributes"
    if isinstance(attribute, Enumeration):
        values = attribute.values
        if not values or len(set(values)) < len(values):
            return "must have at least one value, and no value twice"
    if attribute.required and attribute.dump_only:
        return "is required, but requests must not contain read-only attributes"
    return None if attribute.required else _default_defect(attribute)


def _unique_defect(attribute: Attribute) -> str | None:
    if attribute.unique and not attribute.can_be_unique:
        return "is unique, so it must be writable and must not have a default"
    return None


def _default_defect(attribute: Attribute) -> str | None:
    if attribute.load_default is None:
        return None if attribute.nullable else "must be required or nullable, or have a default"
    try:
        attribute.deserialize(attribute.to_json(attribute.load_default))
    except ValidationError as error:
        return f"has an invalid default: {' '.join(map(str, error.messages))}"
    return None


def _check_links(resources: Iterable[ResourceType]) -> None:
    links = {(one.type, link.name): link for one in resources for link in one.links}
    types = {one.type for one in resources}
    for (type_name, name), link in links.items():
        if link.target not in types:
            target = f"the target of {type_name}.{name}, `{link.target}`,"
            raise InvalidDeclaration(f"{target} is not declared", type_name, name)
        opposite = links.get((link.target, link.inverse))
        if opposite and (opposite.target, opposite.inverse) == (type_name, name):
            pair = f"{type_name}.{name} and {link.target}.{link.inverse}"
            reason = "many-to-many links are not supported; declare the link on one side"
            raise InvalidDeclaration(f"{pair} are each other's inverse: {reason}", type_name, name)


def _check_unique(kind: str, declared: Iterable[tuple[str, DeclarationPath]]) -> None:
    names = set[str]()
    for name, path in declared:
        if name in names:
            raise InvalidDeclaration(f"{kind} declared twice: {name}", *path)
        names.add(name)
