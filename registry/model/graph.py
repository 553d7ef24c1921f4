"""The graph of all types, which adds the inverse of each link and checks the declarations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from marshmallow import ValidationError

from registry.model.attributes import Attribute, ComputedText, Enumeration, Text
from registry.model.record import VERSION
from registry.model.resource import Relationship, Resource

_MEMBER_NAME = re.compile(r"[a-z][a-z0-9_]*")


class InvalidDeclaration(ValueError):
    """The declared types cannot work together; the message says which and why."""


class Graph(Mapping[str, Resource]):
    """All types by name, each with its relationships in both directions.

    Raises InvalidDeclaration if the types do not fit together.
    """

    def __init__(self, declared: Iterable[Resource]) -> None:
        resources = tuple(declared)
        _refuse_repeated("type", [resource.type for resource in resources])
        _refuse_repeated("collection", [resource.collection for resource in resources])
        for resource in resources:
            _check_attributes(resource)
        _refuse_many_to_many(resources)
        known = {resource.type for resource in resources}
        self._resources = {
            resource.type: replace(
                resource, relationships=_relationships(resource, resources, known)
            )
            for resource in resources
        }

    def __getitem__(self, name: str) -> Resource:
        return self._resources[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._resources)

    def __len__(self) -> int:
        return len(self._resources)


def _relationships(
    resource: Resource, resources: tuple[Resource, ...], known: set[str]
) -> dict[str, Relationship]:
    for link in resource.links:
        if link.target not in known:
            raise InvalidDeclaration(
                f"{resource.type}.{link.name} leads to `{link.target}`, which is not declared"
            )
    found = [
        Relationship(link.name, link.target, link.foreign_key, False) for link in resource.links
    ]
    found += [
        Relationship(link.inverse, other.type, link.foreign_key, True)
        for other in resources
        for link in other.links
        if link.target == resource.type
    ]
    _check_names(resource, [relationship.name for relationship in found])
    return {relationship.name: relationship for relationship in found}


def _check_names(resource: Resource, relationships: list[str]) -> None:
    """JSON:API 1.0: attributes and relationships share one namespace with `type` and `id`."""
    columns = [link.foreign_key for link in resource.links]
    fields = ["type", "id", *resource.attributes, *relationships]
    stored = ["_id", VERSION, *resource.attributes, *resource.hidden, *columns]
    _refuse_repeated(f"field of {resource.type}", fields)
    _refuse_repeated(f"stored field of {resource.type}", stored)
    for name in [resource.type, resource.collection, *fields]:
        if not _MEMBER_NAME.fullmatch(name):
            raise InvalidDeclaration(
                f"`{name}` of {resource.type} is not a valid name: use a-z, 0-9 and _"
            )


def _check_attributes(resource: Resource) -> None:
    for name, attribute in resource.attributes.items():
        place = f"attribute {resource.type}.{name}"
        if not isinstance(attribute, Attribute):
            raise InvalidDeclaration(
                f"{place} is a {type(attribute).__name__}: declare it with a type of "
                "registry.model.attributes"
            )
        if defect := _defect(attribute, resource):
            raise InvalidDeclaration(f"{place} {defect}")


def _defect(attribute: Attribute, resource: Resource) -> str | None:
    """Return what cannot work about an attribute."""
    if isinstance(attribute, ComputedText):
        parts = [resource.attributes.get(part) for part in attribute.parts]
        if all(isinstance(part, Text) and not isinstance(part, ComputedText) for part in parts):
            return None
        return f"is computed from {', '.join(attribute.parts)}, which are not all text attributes"
    if isinstance(attribute, Enumeration) and len(set(attribute.values)) != max(
        len(attribute.values), 1
    ):
        return "has to have values, which differ"
    if attribute.required and attribute.dump_only:
        return "is required, but clients cannot send it as it is read-only"
    return None if attribute.required else _default_defect(attribute)


def _default_defect(attribute: Attribute) -> str | None:
    if attribute.load_default is None:
        return None if attribute.nullable else "has to be required, nullable or to have a default"
    try:
        attribute.deserialize(attribute.to_json(attribute.load_default))
    except ValidationError as error:
        return f"has a default that cannot be stored: {' '.join(map(str, error.messages))}"
    return None


def _refuse_many_to_many(resources: Iterable[Resource]) -> None:
    links = [(resource, link) for resource in resources for link in resource.links]
    for resource, link in links:
        for other, back in links:
            opposite = (back.target, back.name, back.inverse)
            if opposite == (resource.type, link.inverse, link.name) and other.type == link.target:
                raise InvalidDeclaration(
                    f"{resource.type}.{link.name} and {other.type}.{back.name} are each other's "
                    "inverse: many-to-many links are not supported; declare the link on one side"
                )


def _refuse_repeated(what: str, names: list[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise InvalidDeclaration(f"{what} declared twice: {', '.join(repeated)}")
