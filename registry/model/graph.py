"""The graph of all types: adds the inverses of links and validates the declarations."""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from marshmallow import ValidationError

from registry.model.attributes import Attribute, ComputedText, Enumeration, Text
from registry.model.authorship import AUTHORSHIP
from registry.model.history import history_types
from registry.model.record import LAST_WRITE, OBSOLETE_FIELDS, TEXT_BLOCK, VERSION
from registry.model.resource_type import Relationship, ResourceType

_MEMBER_NAME = re.compile(r"[a-z][a-z0-9_]*")


class InvalidDeclaration(ValueError):
    """A declaration that cannot work; the message names it and the reason."""


class Graph(dict[str, ResourceType]):
    """All types by name, with their relationships in both directions, and those of histories.

    Raises InvalidDeclaration.
    """

    def __init__(self, declared: Iterable[ResourceType]) -> None:
        resources = tuple(declared)
        resources += tuple(history_types(resources))
        _check_unique("type", [one.type for one in resources])
        _check_unique("collection", [one.collection for one in resources])
        for resource_type in resources:
            _check_attributes(resource_type)
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
    relationships = [
        Relationship(link.name, link.target, link.foreign_key, False, resource_type.read_only)
        for link in resource_type.links
    ]
    relationships += [
        Relationship(link.inverse, other.type, link.foreign_key, True, other.read_only)
        for other in resources
        for link in other.links
        if link.target == resource_type.type
    ]
    _check_names(resource_type, [relationship.name for relationship in relationships])
    return {relationship.name: relationship for relationship in relationships}


def _check_names(resource_type: ResourceType, relationships: list[str]) -> None:
    """JSON:API 1.0: attributes and relationships share one namespace with `type` and `id`.

    They also share one with the authorship, which filters and sorts name in the same way.
    """
    stored = [link.foreign_key for link in resource_type.links]
    stored += resource_type.tracking_fields
    fields = ["type", "id", *AUTHORSHIP, *resource_type.attributes, *relationships]
    reserved = ["_id", VERSION, LAST_WRITE, TEXT_BLOCK, *OBSOLETE_FIELDS, *AUTHORSHIP]
    stored_names = [*reserved, *resource_type.attributes, *resource_type.hidden, *stored]
    _check_unique(f"field of {resource_type.type}", fields)
    _check_unique(f"stored field of {resource_type.type}", stored_names)
    for name in [resource_type.type, resource_type.collection, *fields]:
        if not _MEMBER_NAME.fullmatch(name):
            reason = "is not a valid name: use a-z, 0-9 and _"
            raise InvalidDeclaration(f"`{name}` of {resource_type.type} {reason}")


def _check_attributes(resource_type: ResourceType) -> None:
    for name, attribute in resource_type.attributes.items():
        if defect := _defect(attribute, resource_type) or _unique_defect(attribute):
            raise InvalidDeclaration(f"attribute {resource_type.type}.{name} {defect}")
    for name, copy in resource_type.copies.items():
        if copy.metadata["example"] is None:
            reason = f"copies {copy.source} of {copy.end}, which must be a text attribute"
            raise InvalidDeclaration(f"attribute {resource_type.type}.{name} {reason}")


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
            raise InvalidDeclaration(f"{target} is not declared")
        opposite = links.get((link.target, link.inverse))
        if opposite and (opposite.target, opposite.inverse) == (type_name, name):
            pair = f"{type_name}.{name} and {link.target}.{link.inverse}"
            reason = "many-to-many links are not supported; declare the link on one side"
            raise InvalidDeclaration(f"{pair} are each other's inverse: {reason}")


def _check_unique(kind: str, names: list[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise InvalidDeclaration(f"{kind} declared twice: {', '.join(repeated)}")
