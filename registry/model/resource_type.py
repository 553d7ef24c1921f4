"""The declaration of a resource type; the declared types are in `registry.resources`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, cast

from marshmallow import Schema, ValidationError, missing

from registry.model.attributes import Attribute, ComputedText, DateTime, Integer
from registry.model.implicit_attributes import AT, AUTHORSHIP, SINCE, CopiedText, Moment, ResourceId
from registry.model.record import ID, VERSION, Record

SchemaClass: TypeAlias = type[Schema]  # within `ResourceType`, `type` is a field


@dataclass(frozen=True, slots=True)
class History:
    """The history of a link: a read-only type, whose resources are the periods between changes.

    type, collection: as of a ResourceType; the collection is also the name of its relationship at
    both ends. source_copies, target_copies: attributes that a period copies from the type that
    declares the link and from its target, each with the name that it gets.
    """

    type: str
    collection: str
    source_copies: Mapping[str, str]
    target_copies: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Link:
    """A to-one relationship, declared by the type that stores the foreign key.

    name: of the relationship, `owner`. target: its type, `person`. foreign_key: the stored field
    with the id of the target, and an alias in `fields`. inverse: the name of the to-many
    relationship of the target, `computers`. history: declares the type that records its
    periods; None keeps none.
    """

    name: str
    target: str
    foreign_key: str
    inverse: str
    history: History | None = None

    @property
    def period_field(self) -> str:
        """The stored field with the id of the period in force, if one is stored."""
        return f"{self.name}_period"

    @property
    def changed_field(self) -> str:
        """The stored time of the last change: each is later, whatever the clock says."""
        return f"{self.name}_changed"


@dataclass(frozen=True, slots=True)
class StoredField:
    """A field that resources can be filtered and sorted by: its names in API and database."""

    name: str
    stored_name: str
    attribute: Attribute


@dataclass(frozen=True, slots=True)
class Relationship:
    """One direction of a link. inverse: the name of the other one.

    foreign_key: a stored field of the type itself if to-one, of the target if to-many.
    """

    name: str
    target: str
    inverse: str
    foreign_key: str
    to_many: bool
    read_only: bool = False


@dataclass(frozen=True, eq=False)
class ResourceType:
    """The declaration of a type.

    type: JSON:API type, `person`. collection: path segment and MongoDB collection, `persons`.
    schema: of the attributes. hidden: stored fields that are never returned, with their default at
    creation. unique: the names of attributes that are unique without being declared so.
    added: the names of attributes and links that a file of types declares.
    authorship: further attributes, which responses have only if `fields` names them.
    relationships, history_of: derived by the graph, never declared. The latter is the link of whose
    history the resources are the periods; the service alone writes them.
    """

    type: str
    collection: str
    schema: SchemaClass
    links: tuple[Link, ...] = ()
    hidden: Mapping[str, Attribute] = field(default_factory=dict)
    unique: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    authorship: Mapping[str, Attribute] = field(default_factory=lambda: AUTHORSHIP)
    history_of: Link | None = None
    relationships: Mapping[str, Relationship] = field(default_factory=dict)

    @cached_property
    def attributes(self) -> Mapping[str, Attribute]:
        """The declared attributes by name, in the order of declaration."""
        return cast("Mapping[str, Attribute]", self.schema().fields)  # as declared

    @cached_property
    def attribute_names(self) -> frozenset[str]:
        """The names of the declared attributes, which responses have by default."""
        return frozenset(self.attributes)

    @cached_property
    def readable(self) -> Mapping[str, Attribute]:
        """The attributes that responses can have, by name: those declared, and the authorship."""
        return {**self.attributes, **self.authorship}

    @property
    def read_only(self) -> bool:
        """Whether requests must not write the resources."""
        return self.history_of is not None

    @property
    def writable_relationships(self) -> Mapping[str, Relationship]:
        """The relationships that requests may contain, by name."""
        return {name: one for name, one in self.relationships.items() if not one.read_only}

    @cached_property
    def to_one(self) -> Mapping[str, Relationship]:
        """The relationships to one resource, by name."""
        return {name: one for name, one in self.relationships.items() if not one.to_many}

    @cached_property
    def copies(self) -> Mapping[str, CopiedText]:
        """The attributes that are copied from related resources."""
        return {name: one for name, one in self.attributes.items() if isinstance(one, CopiedText)}

    @property
    def tracking_fields(self) -> list[str]:
        """The stored fields of the links that have a history."""
        tracked = [link for link in self.links if link.history]
        return [name for link in tracked for name in (link.period_field, link.changed_field)]

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
        """The unique attributes, by name."""
        attributes = self.attributes.items()
        return {name: one for name, one in attributes if one.unique or name in self.unique}

    def has_unique(self, names: Iterable[str]) -> bool:
        """Whether one of these is the name of a unique attribute."""
        return not self.unique_attributes.keys().isdisjoint(names)

    @cached_property
    def own_fields(self) -> Mapping[str, StoredField]:
        """The fields of the resources themselves, without links, by name: `id`, attributes."""
        own = {name: one for name, one in self.attributes.items() if name not in self.copies}
        return {"id": StoredField("id", ID, ResourceId(nullable=False)), **_stored(own)}

    @cached_property
    def stored_fields(self) -> Mapping[str, StoredField]:
        """The fields to filter and sort by: own ones, foreign keys, copies and the authorship."""
        key = ResourceId(nullable=True)
        links = {link.name: StoredField(link.name, link.foreign_key, key) for link in self.links}
        return {**self.own_fields, **links, **_stored(self.copies), **_stored(self.authorship)}

    @cached_property
    def moment_fields(self) -> Mapping[str, StoredField]:
        """What selects the periods of a history that are in force at a moment, by name."""
        return {AT: StoredField(AT, SINCE, Moment())} if self.read_only else {}

    @cached_property
    def indexed_fields(self) -> frozenset[str]:
        """The stored fields that have an index, with the id, for filters and sorts.

        Each change has to update the index: with one for `updated_at`, mongod takes a fifth more
        CPU for a batch of updates.
        """
        fields = self.stored_fields.values()
        return frozenset(one.stored_name for one in fields if one.attribute.is_indexed)

    @cached_property
    def record_attributes(self) -> Mapping[str, Attribute]:
        """The attribute that declares each field of a record, by the name of the field."""
        stored = {one.stored_name: one.attribute for one in self.stored_fields.values()}
        tracking: dict[str, Attribute] = {}
        for link in self.links:
            if link.history:
                tracking |= {link.period_field: Integer(), link.changed_field: DateTime()}
        return {**stored, **tracking, VERSION: Integer(), **self.hidden}

    @cached_property
    def fieldset_names(self) -> frozenset[str]:
        """The names allowed in `fields[type]` (JSON:API 1.0, Sparse Fieldsets)."""
        foreign_keys = (link.foreign_key for link in self.links)
        return frozenset({"id", *self.readable, *self.relationships, *foreign_keys})

    def load(
        self, values: Mapping[str, Any], names: Iterable[str]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the values to store by name, and what is wrong with the others.

        names: of the attributes to load: required ones must be given, others get their defaults.
        """
        loaded, defects = dict[str, Any](), dict[str, str]()
        for name in names:
            attribute, value = self.attributes[name], values.get(name)
            if attribute.dump_only:
                continue
            try:
                # marshmallow handles what is null or missing; for other values, it is slow.
                if value is None:
                    loaded[name] = attribute.deserialize(values.get(name, missing))
                else:
                    loaded[name] = attribute.load(value)
            except ValidationError as error:
                defects[name] = " ".join(map(str, error.messages))
        return loaded, defects


def _stored(attributes: Mapping[str, Attribute]) -> dict[str, StoredField]:
    """Return the fields of attributes that are stored under their names."""
    return {name: StoredField(name, name, one) for name, one in attributes.items()}
