"""The declaration of a resource type; the declared types are in `registry.resources`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, cast

from marshmallow import Schema

from registry.model.attributes import Attribute, ComputedText
from registry.model.authorship import AUTHORSHIP
from registry.model.record import Record

SchemaClass: TypeAlias = type[Schema]  # within `ResourceType`, `type` is a field


@dataclass(frozen=True, slots=True)
class Link:
    """A to-one relationship, declared by the type that stores the foreign key.

    name: of the relationship, `owner`. target: its type, `person`. foreign_key: the stored field
    with the id of the target, and an alias in `fields`. inverse: the name of the to-many
    relationship of the target, `computers`.
    """

    name: str
    target: str
    foreign_key: str
    inverse: str


@dataclass(frozen=True, slots=True)
class Relationship:
    """One direction of a link.

    foreign_key: a stored field of the type itself if to-one, of the target if to-many.
    """

    name: str
    target: str
    foreign_key: str
    to_many: bool


@dataclass(frozen=True, eq=False)
class ResourceType:
    """The declaration of a type.

    type: JSON:API type, `person`. collection: path segment and MongoDB collection, `persons`.
    schema: of the attributes. hidden: stored fields that are never returned, with their default at
    creation. unique: the names of attributes that are unique without being declared so.
    relationships: derived by the graph, never declared.
    """

    type: str
    collection: str
    schema: SchemaClass
    links: tuple[Link, ...] = ()
    hidden: Mapping[str, Attribute] = field(default_factory=dict)
    unique: frozenset[str] = frozenset()
    relationships: Mapping[str, Relationship] = field(default_factory=dict)

    @cached_property
    def attributes(self) -> Mapping[str, Attribute]:
        """The declared attributes by name, in the order of declaration."""
        return cast("Mapping[str, Attribute]", self.schema().fields)  # the graph checks it

    @cached_property
    def attribute_names(self) -> frozenset[str]:
        """The names of the declared attributes, which responses have by default."""
        return frozenset(self.attributes)

    @cached_property
    def readable(self) -> Mapping[str, Attribute]:
        """The attributes that responses can have, by name: those declared, and the authorship."""
        return {**self.attributes, **AUTHORSHIP}

    def json_value(self, name: str, record: Record) -> Any:
        """Return the value of a readable attribute in JSON, as responses show it."""
        attribute = self.readable[name]
        if isinstance(attribute, ComputedText):
            return attribute.compute(record)
        return attribute.to_json(record.get(name))

    @cached_property
    def writable(self) -> frozenset[str]:
        """The names of the attributes that requests may contain."""
        return frozenset(name for name, one in self.attributes.items() if not one.dump_only)

    @cached_property
    def read_only_defaults(self) -> Mapping[str, Any]:
        """The values at creation of hidden and read-only attributes, other than computed ones."""
        names = self.attribute_names - self.writable - self.computed.keys()
        fields = {**self.hidden, **{name: self.attributes[name] for name in names}}
        return {name: one.load_default for name, one in fields.items()}

    @cached_property
    def computed(self) -> Mapping[str, ComputedText]:
        """The attributes that are computed from others."""
        return {name: one for name, one in self.attributes.items() if isinstance(one, ComputedText)}

    @cached_property
    def unique_attributes(self) -> Mapping[str, Attribute]:
        """The attributes of which no two resources have the same value."""
        attributes = self.attributes.items()
        return {name: one for name, one in attributes if one.unique or name in self.unique}

    def has_unique(self, names: Iterable[str]) -> bool:
        """Whether one of these is the name of a unique attribute."""
        return not self.unique_attributes.keys().isdisjoint(names)
