"""What a resource is: declared once, in one place, and checked at start."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from marshmallow import Schema

from registry.attributes import JoinedText
from registry.projection import Projection, projection
from registry.validation import Validation, validation

Record: TypeAlias = dict[str, Any]
"""A stored document: `_id`, the attributes, and the keys of links."""


@dataclass(frozen=True, slots=True)
class FirstPage:
    """The first of the ids on the far side of a to-many relationship, rising.

    size: how many there are at most; more: whether others follow.
    """

    ids: list[int]
    size: int
    more: bool


Linked: TypeAlias = "int | list[int] | FirstPage | None"
"""Ids on the far side of a relationship: one or None when to-one, all or a page when to-many."""

LARGEST_ID = 2**63 - 1
"""The largest integer that MongoDB stores."""

VERSION = "version"
"""The stored field that counts the changes of a record, so that of two that write it at once, one
sees what the other did."""

SchemaClass: TypeAlias = type[Schema]

_MEMBER_NAME = re.compile(r"[a-z][a-z0-9_]*")


class WrongDeclaration(ValueError):
    """The declared types do not fit together; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Link:
    """A to-one relationship, declared by the type that stores the key.

    name: the relationship, `owner`. target: the type it leads to, `person`. column: the stored
    field that holds the id of the target; clients may use it as another name in `fields`.
    inverse: the to-many relationship that the target gets, `computers`.
    """

    name: str
    target: str
    column: str
    inverse: str


@dataclass(frozen=True, slots=True)
class Relationship:
    """One direction of a link, as the type sees it that has the relationship.

    column is a field of this type's records when to-one, of the target's when to-many.
    """

    name: str
    target: str
    column: str
    to_many: bool


@dataclass(frozen=True, eq=False)
class Resource:
    """A type of resource, its attributes, and what is stored beside them.

    type: JSON:API type, `person`. collection: path segment and MongoDB collection, `persons`.
    schema: marshmallow schema of the attributes. hidden: stored fields that are never returned,
    each with its value at creation. relationships: derived by the graph, never declared.
    """

    type: str
    collection: str
    schema: SchemaClass
    links: tuple[Link, ...] = ()
    hidden: Mapping[str, Any] = field(default_factory=dict)
    relationships: Mapping[str, Relationship] = field(default_factory=dict)

    @cached_property
    def full_schema(self) -> Schema:
        """The schema with all attributes."""
        return self.schema()

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The names of all attributes, in the order of declaration."""
        return tuple(self.full_schema.fields)

    @cached_property
    def all_attributes(self) -> frozenset[str]:
        """The same names, to choose from."""
        return frozenset(self.attributes)

    @cached_property
    def writable(self) -> frozenset[str]:
        """The names of the attributes that clients may send."""
        return frozenset(self.full_schema.load_fields)

    @cached_property
    def validation(self) -> Validation:
        """What checks the attributes that clients send."""
        return validation(self.full_schema)

    @cached_property
    def field_names(self) -> frozenset[str]:
        """The names allowed in `fields[type]`: section 2.4 of the service description."""
        return frozenset(
            {"id", *self.attributes, *self.relationships, *(link.column for link in self.links)}
        )

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The stored field of each name that resources can be picked by: id, attributes, links."""
        keys = {link.name: link.column for link in self.links}
        return {"id": "_id", **{name: name for name in self.attributes}, **keys}

    @cached_property
    def joined(self) -> Mapping[str, JoinedText]:
        """The attributes that are made of others, and stored beside them."""
        fields = self.full_schema.fields
        return {name: one for name, one in fields.items() if isinstance(one, JoinedText)}

    @cached_property
    def shown_columns(self) -> tuple[str, ...]:
        """The stored fields that answers are made of, beside `_id`: no hidden one, none twice."""
        return (*self.columns_of(self.all_attributes), VERSION)

    @property
    def collection_path(self) -> str:
        """The path of all resources of the type, `/persons`."""
        return f"/{self.collection}"

    @property
    def detail_path(self) -> str:
        """The template of the path of one resource, `/persons/{id}`."""
        return self.path("{id}")

    def path(self, identifier: int | str) -> str:
        """Return the relative path of a resource, `/persons/1`."""
        return f"/{self.collection}/{identifier}"

    def relationship_path(self, identifier: int | str, name: str) -> str:
        """Return the relative path of a linkage, `/persons/1/relationships/computers`."""
        return f"/{self.collection}/{identifier}/relationships/{name}"

    def related_path(self, identifier: int | str, name: str) -> str:
        """Return the relative path of what a relationship leads to, `/persons/1/computers`."""
        return f"/{self.collection}/{identifier}/{name}"

    def relationship_links(self, identifier: int | str, name: str) -> dict[str, str]:
        """Return the links of a relationship object, `self` and `related`."""
        return {
            "self": self.relationship_path(identifier, name),
            "related": self.related_path(identifier, name),
        }

    def columns_of(self, names: frozenset[str]) -> tuple[str, ...]:
        """Return the stored fields of the named attributes and of the links; none twice."""
        texts = {name: field.parts for name, field in self.joined.items()}
        shown = [name for name in self.attributes if name in names]
        parts = [part for name in shown for part in texts.get(name, (name,))]
        return tuple(dict.fromkeys([*parts, *(link.column for link in self.links)]))

    def projection(self, names: frozenset[str]) -> Projection:
        """Return what shows the named attributes of a record; other names are ignored."""
        return _projection(self.schema, names)


class Graph(Mapping[str, Resource]):
    """All types by name, each with its relationships in both directions.

    Raises WrongDeclaration if the types do not fit together.
    """

    def __init__(self, declared: Iterable[Resource]) -> None:
        resources = tuple(declared)
        _refuse_repeated("type", [resource.type for resource in resources])
        _refuse_repeated("collection", [resource.collection for resource in resources])
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
            raise WrongDeclaration(
                f"{resource.type}.{link.name} leads to `{link.target}`, which is not declared"
            )
    found = [Relationship(link.name, link.target, link.column, False) for link in resource.links]
    found += [
        Relationship(link.inverse, other.type, link.column, True)
        for other in resources
        for link in other.links
        if link.target == resource.type
    ]
    _check_names(resource, [relationship.name for relationship in found])
    return {relationship.name: relationship for relationship in found}


def _check_names(resource: Resource, relationships: list[str]) -> None:
    """JSON:API 1.0: attributes and relationships share one namespace with `type` and `id`."""
    columns = [link.column for link in resource.links]
    fields = ["type", "id", *resource.attributes, *relationships]
    stored = ["_id", VERSION, *resource.attributes, *resource.hidden, *columns]
    _refuse_repeated(f"field of {resource.type}", fields)
    _refuse_repeated(f"stored field of {resource.type}", stored)
    for name in [resource.type, resource.collection, *fields]:
        if not _MEMBER_NAME.fullmatch(name):
            raise WrongDeclaration(f"`{name}` of {resource.type} is no name: use a-z, 0-9 and _")


def _refuse_repeated(what: str, names: list[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise WrongDeclaration(f"{what} declared twice: {', '.join(repeated)}")


@lru_cache(maxsize=1024)  # bounded, as it is the clients who choose the names
def _projection(schema: SchemaClass, names: frozenset[str]) -> Projection:
    return projection({name: one for name, one in schema().fields.items() if name in names})
