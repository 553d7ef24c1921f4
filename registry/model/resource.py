"""A type of resource as it is declared: one declaration per type, in `registry.resources`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, cast

from marshmallow import Schema

from registry.model.attributes import Attribute, ComputedText

SchemaClass: TypeAlias = type[Schema]


@dataclass(frozen=True, slots=True)
class Link:
    """A to-one relationship, declared by the type that stores the foreign key.

    name: the relationship, `owner`. target: the type it leads to, `person`. foreign_key: the
    stored field that holds the id of the target; clients may use it as another name in `fields`.
    inverse: the to-many relationship that the target gets, `computers`.
    """

    name: str
    target: str
    foreign_key: str
    inverse: str


@dataclass(frozen=True, slots=True)
class Relationship:
    """One direction of a link, as seen from the type that has the relationship.

    foreign_key is a field of this type's records when to-one, of the target's when to-many.
    """

    name: str
    target: str
    foreign_key: str
    to_many: bool


@dataclass(frozen=True, eq=False)
class Resource:
    """The declaration of a type.

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
    def attributes(self) -> Mapping[str, Attribute]:
        """The attributes by name, in the order of declaration."""
        return cast("Mapping[str, Attribute]", self.schema().fields)  # as the graph has checked

    @cached_property
    def attribute_names(self) -> frozenset[str]:
        """The names of all attributes."""
        return frozenset(self.attributes)

    @cached_property
    def writable(self) -> frozenset[str]:
        """The names of the attributes that clients may send."""
        return frozenset(name for name, one in self.attributes.items() if not one.dump_only)

    @cached_property
    def read_only_defaults(self) -> Mapping[str, Any]:
        """The values at creation of the attributes that clients cannot send."""
        computed = self.computed.keys()
        return {
            name: one.load_default
            for name, one in self.attributes.items()
            if one.dump_only and name not in computed
        }

    @cached_property
    def computed(self) -> Mapping[str, ComputedText]:
        """The attributes that are computed from others and stored beside them."""
        return {name: one for name, one in self.attributes.items() if isinstance(one, ComputedText)}
