"""The graph of all types: adds the inverses of links and validates the declarations."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from marshmallow import ValidationError

from registry.model.attributes import Attribute, ComputedText, Enumeration, Text
from registry.model.authorship import AUTHORSHIP
from registry.model.record import OBSOLETE_FIELDS, TEXT_BLOCK, VERSION
from registry.model.resource_type import Relationship, ResourceType

_MEMBER_NAME = re.compile(r"[a-z][a-z0-9_]*")


class InvalidDeclaration(ValueError):
    """A declaration that cannot work; the message names it and the reason."""


class Graph(Mapping[str, ResourceType]):
    """All types by name, with their relationships in both directions.

    Raises InvalidDeclaration.
    """

    def __init__(self, declared: Iterable[ResourceType]) -> None:
        resources = tuple(declared)
        _check_unique("type", [resource.type for resource in resources])
        _check_unique("collection", [resource.collection for resource in resources])
        for resource in resources:
            _check_attributes(resource)
        _check_links(resources)
        self._resources = {
            resource.type: replace(resource, relationships=_relationships(resource, resources))
            for resource in resources
        }

    def with_unique(self, names: Collection[str]) -> "Graph":
        """Return the graph in which these attributes are unique too, such as `computer.serial`.

        Raises InvalidDeclaration for a name of anything but an attribute that can be unique.
        """
        possible = [
            f"{resource.type}.{name}"
            for resource in self.values()
            for name, attribute in resource.attributes.items()
            if attribute.can_be_unique
        ]
        if unknown := [name for name in names if name not in possible]:
            choices = ", ".join(possible)
            raise InvalidDeclaration(
                f"{unknown[0]!r} is not an attribute that can be unique; choose from {choices}"
            )
        return Graph(
            replace(resource, unique=frozenset(_names_in(names, resource)))
            for resource in self.values()
        )

    def __getitem__(self, name: str) -> ResourceType:
        return self._resources[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._resources)

    def __len__(self) -> int:
        return len(self._resources)


def _names_in(names: Collection[str], resource: ResourceType) -> list[str]:
    """Return the attributes of a type among names such as `computer.serial`."""
    return [name for name in resource.attributes if f"{resource.type}.{name}" in names]


def _relationships(
    resource: ResourceType, resources: tuple[ResourceType, ...]
) -> dict[str, Relationship]:
    relationships = [
        Relationship(link.name, link.target, link.foreign_key, to_many=False)
        for link in resource.links
    ]
    relationships += [
        Relationship(link.inverse, other.type, link.foreign_key, to_many=True)
        for other in resources
        for link in other.links
        if link.target == resource.type
    ]
    _check_names(resource, [relationship.name for relationship in relationships])
    return {relationship.name: relationship for relationship in relationships}


def _check_names(resource: ResourceType, relationships: list[str]) -> None:
    """JSON:API 1.0: attributes and relationships share one namespace with `type` and `id`.

    They also share one with the authorship, which filters and sorts name in the same way.
    """
    foreign_keys = [link.foreign_key for link in resource.links]
    fields = ["type", "id", *AUTHORSHIP, *resource.attributes, *relationships]
    reserved = ["_id", VERSION, TEXT_BLOCK, *OBSOLETE_FIELDS, *AUTHORSHIP]
    stored_names = [*reserved, *resource.attributes, *resource.hidden, *foreign_keys]
    _check_unique(f"field of {resource.type}", fields)
    _check_unique(f"stored field of {resource.type}", stored_names)
    for name in [resource.type, resource.collection, *fields]:
        if not _MEMBER_NAME.fullmatch(name):
            reason = "is not a valid name: use a-z, 0-9 and _"
            raise InvalidDeclaration(f"`{name}` of {resource.type} {reason}")


def _check_attributes(resource: ResourceType) -> None:
    for name, attribute in resource.attributes.items():
        if defect := _defect(attribute, resource) or _unique_defect(attribute):
            raise InvalidDeclaration(f"attribute {resource.type}.{name} {defect}")


def _defect(attribute: object, resource: ResourceType) -> str | None:
    """Return why the declaration of an attribute cannot work, or None if it can."""
    if not isinstance(attribute, Attribute):
        kind = type(attribute).__name__
        return f"is a {kind}: declare it with a type of registry.model.attributes"
    if isinstance(attribute, ComputedText):
        parts = [resource.attributes.get(part) for part in attribute.parts]
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
    links = {(resource.type, link.name): link for resource in resources for link in resource.links}
    types = {resource.type for resource in resources}
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
