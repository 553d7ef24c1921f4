"""The declaration of a resource type; the declared types are in `registry.resources`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from marshmallow import Schema, missing
from marshmallow.fields import Field

from registry.model.attributes import kind_of
from registry.model.base_schema import RecordSchema, ResourceSchema
from registry.model.fields import ComputedText, DateTime, Integer
from registry.model.implicit_attributes import AT, AUTHORSHIP, SINCE, CopiedText, Moment, ResourceId
from registry.model.record import ID, VERSION, Record
from registry.model.resource_field import ResourceField

SchemaClass: TypeAlias = type[Schema]  # within `ResourceType`, `type` is a field


class InvalidDeclaration(ValueError):
    """A declaration that cannot work; the message names it and the reason."""


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
    periods; None keeps none. is_counted: whether targets store how many resources are linked to
    them.
    """

    name: str
    target: str
    foreign_key: str
    inverse: str
    history: History | None = None
    is_counted: bool = True

    @property
    def period_field(self) -> str:
        """The stored field with the id of the period in force, if one is stored."""
        return f"{self.name}_period"

    @property
    def changed_field(self) -> str:
        """The stored time of the last change: each is later, whatever the clock says."""
        return f"{self.name}_changed"

    @property
    def count_field(self) -> str | None:
        """The field of a target with the number of resources that are linked to it, if stored.

        It is missing where none ever was. No attribute can have such a name.
        """
        return f"_{self.inverse}_count" if self.is_counted else None


@dataclass(frozen=True, slots=True)
class Relationship:
    """One direction of a link. inverse: the name of the other one.

    foreign_key: a stored field of the type itself if to-one, of the target if to-many. count_field:
    the stored field with the number of members; None if they are not counted.
    """

    name: str
    target: str
    inverse: str
    foreign_key: str
    to_many: bool
    read_only: bool = False
    count_field: str | None = None


_VERSION = ResourceField(VERSION, VERSION, Integer(required=True))

ID_FIELD = ResourceField(
    "id", ID, ResourceId(required=True), is_filterable=True, is_sortable=True, is_own=True
)
"""The id of resources of any type."""

_MOMENT = ResourceField(
    AT, SINCE, Moment(metadata={"indexed": False}), is_filterable=True, is_own=True
)
"""Selects the periods of a history that are in force at a moment; it is not stored."""


@dataclass(frozen=True, eq=False)
class ResourceType:
    """The declaration of a type.

    type: JSON:API type, `person`. collection: path segment and MongoDB collection, `persons`.
    schema: of the attributes; those that are both `load_only` and `dump_only` are stored, but
    nothing that clients know of. unique: the names of attributes that no two resources share; null
    is not compared.
    relationships, history_of, subject: derived by the graph, never declared. history_of: the link
    of whose history the resources are the periods. subject: the relationship that clients see in
    place of the links, of which each resource has one; it is not among the relationships. The
    service alone writes resources with either.
    """

    type: str
    collection: str
    schema: SchemaClass
    links: tuple[Link, ...] = ()
    unique: frozenset[str] = frozenset()
    history_of: Link | None = None
    subject: str | None = None
    relationships: Mapping[str, Relationship] = field(default_factory=dict)

    @cached_property
    def record_schema(self) -> SchemaClass:
        """The declared schema with the base of all schemas, which reads records."""
        if issubclass(self.schema, RecordSchema):
            return self.schema
        if self.schema is Schema:
            return ResourceSchema
        meta = type("Meta", (self.schema.Meta,), {"register": False})
        return type(self.schema.__name__, (self.schema, ResourceSchema), {"Meta": meta})

    @cached_property
    def _whole_schema(self) -> Schema:
        try:
            return self.record_schema()
        except ValueError as error:  # of a field, or such as `only` of an unknown name
            raise InvalidDeclaration(f"the schema of {self.type}: {error}") from error

    @cached_property
    def fields(self) -> tuple[ResourceField, ...]:
        """The fields of the resources: id, attributes, links, the authorship, and internal ones."""
        made = [self._attribute(*declared) for declared in self._whole_schema.fields.items()]
        return (
            ID_FIELD,
            *(attribute for attribute in made if attribute.is_declared),
            *(
                ResourceField(
                    link.name,
                    link.foreign_key,
                    ResourceId(allow_none=True),
                    is_filterable=self.subject is None,
                    is_sortable=self.subject is None,
                )
                for link in self.links
            ),
            *(attribute for attribute in made if not attribute.is_declared),
            *(
                ResourceField(name, name, field(allow_none=True))
                for link in self.links
                if link.history
                for name, field in ((link.period_field, Integer), (link.changed_field, DateTime))
            ),
            *(
                ResourceField(name, name, Integer(allow_none=True))
                for name in self.count_fields.values()
            ),
            *([_MOMENT] if self.history_of else [] if self.read_only else [_VERSION]),
        )

    def _attribute(self, name: str, attribute: Field[Any]) -> ResourceField:
        """Return an attribute. Raises InvalidDeclaration."""
        path = f"{self.type}.{name}"
        if attribute.data_key is not None or attribute.attribute is not None:
            reason = "must not have `data_key` or `attribute`: its name is that of the attribute"
            raise InvalidDeclaration(f"{path} {reason}")
        is_shown, is_copy = not attribute.load_only, isinstance(attribute, CopiedText)
        is_declared = is_shown and name not in AUTHORSHIP
        is_compared = is_shown and bool(kind_of(attribute).operators)
        return ResourceField(
            name,
            name,
            attribute,
            is_declared=is_declared,
            is_shown=is_shown,
            is_writable=not attribute.dump_only,
            is_filterable=is_compared,
            is_sortable=is_compared and not is_copy,
            is_own=is_declared and not is_copy,
        )

    @cached_property
    def attributes(self) -> Mapping[str, ResourceField]:
        """The attributes that responses have by default, by name, in the order of declaration."""
        return {each.name: each for each in self.fields if each.is_declared}

    @cached_property
    def attribute_names(self) -> frozenset[str]:
        """The names of the attributes that responses have by default."""
        return frozenset(self.attributes)

    @cached_property
    def readable(self) -> Mapping[str, ResourceField]:
        """The attributes that responses can have, by name: those declared, and the authorship."""
        return {each.name: each for each in self.fields if each.is_shown}

    @cached_property
    def writable(self) -> Mapping[str, ResourceField]:
        """The attributes that requests may contain, by name."""
        return {each.name: each for each in self.fields if each.is_writable}

    @cached_property
    def filterable(self) -> Mapping[str, ResourceField]:
        """What filters can name; sorting can name those that are sortable."""
        return {each.name: each for each in self.fields if each.is_filterable}

    @property
    def read_only(self) -> bool:
        """Whether requests must not write the resources."""
        return self.history_of is not None or self.subject is not None

    @property
    def writable_relationships(self) -> Mapping[str, Relationship]:
        """The relationships that requests may contain, by name."""
        return {name: each for name, each in self.relationships.items() if not each.read_only}

    @cached_property
    def followed(self) -> Mapping[str, Relationship]:
        """The relationships that an include tree can name: the subject is one for each link."""
        if not self.subject:
            return self.relationships
        return {
            link.name: Relationship(link.name, link.target, link.inverse, link.foreign_key, False)
            for link in self.links
        }

    @cached_property
    def to_one(self) -> Mapping[str, Relationship]:
        """The relationships to one resource, by name."""
        return {name: each for name, each in self.relationships.items() if not each.to_many}

    @cached_property
    def count_fields(self) -> Mapping[str, str]:
        """The stored fields with numbers of members, by the name of the to-many relationship."""
        return {
            name: each.count_field for name, each in self.relationships.items() if each.count_field
        }

    def member_counts(self, name: str, records: Iterable[Record]) -> list[int]:
        """Return how many members a to-many relationship of each record has."""
        field = self.count_fields[name]
        return [record.get(field, 0) for record in records]

    @cached_property
    def copies(self) -> Mapping[str, CopiedText]:
        """The attributes that are copied from related resources."""
        return {
            name: each.field
            for name, each in self.attributes.items()
            if isinstance(each.field, CopiedText)
        }

    @property
    def tracking_fields(self) -> list[str]:
        """The stored fields of the links that have a history."""
        tracked = [link for link in self.links if link.history]
        return [name for link in tracked for name in (link.period_field, link.changed_field)]

    def json_value(self, name: str, record: Record) -> Any:
        """Return the value of a readable attribute in JSON, as responses show it."""
        schema = self._whole_schema
        value = schema.fields[name].serialize(name, record, accessor=schema.get_attribute)
        return None if value is missing else value

    @cached_property
    def shown_writable(self) -> frozenset[str]:
        """The names of the attributes that requests may contain and responses show."""
        return frozenset(self.writable.keys() & self.attributes.keys())

    def is_read_only(self, name: str) -> bool:
        """Whether clients see the attribute of this name, but cannot set it."""
        return name in self.readable and name not in self.writable

    @property
    def unknown_message(self) -> str:
        """What `load` says of a name that no attribute has."""
        return self._whole_schema.error_messages["unknown"]

    @cached_property
    def read_only_defaults(self) -> Mapping[str, Any]:
        """The values at creation of hidden and read-only attributes, other than computed ones."""
        return {
            name: each.default
            for name, each in self._loadable.items()
            if not each.is_writable and each.default is not missing
        }

    @cached_property
    def computed(self) -> Mapping[str, ComputedText]:
        """The attributes that are computed from others."""
        return {
            name: each.field
            for name, each in self.attributes.items()
            if isinstance(each.field, ComputedText)
        }

    @cached_property
    def unique_attributes(self) -> Mapping[str, ResourceField]:
        """The unique attributes, by name."""
        return {name: each for name, each in self.attributes.items() if name in self.unique}

    def has_unique(self, names: Iterable[str]) -> bool:
        """Whether one of these is the name of a unique attribute."""
        return not self.unique_attributes.keys().isdisjoint(names)

    @cached_property
    def indexed_fields(self) -> frozenset[str]:
        """The stored fields that have an index, with the id, for filters and sorts.

        Each change has to update the index: with one for `updated_at`, mongod takes a fifth more
        CPU for a batch of updates.
        """
        own = frozenset(each.stored_name for each in self.fields if each.is_indexed)
        return own.union([link.foreign_key for link in self.links])

    @cached_property
    def record_attributes(self) -> Mapping[str, ResourceField]:
        """The field that declares each field of a record, by its stored name."""
        return {each.stored_name: each for each in self.fields if each is not _MOMENT}

    @cached_property
    def fieldset_names(self) -> frozenset[str]:
        """The names allowed in `fields[type]` (JSON:API 1.0, Sparse Fieldsets)."""
        foreign_keys = (link.foreign_key for link in self.links)
        links = [self.subject] if self.subject else [*self.relationships, *foreign_keys]
        return frozenset({"id", *self.readable, *links})

    def load(self, values: Mapping[str, Any], *, partial: bool) -> dict[str, Any]:
        """Return the stored forms of the attributes of a request, by name.

        partial: whether required attributes can be absent, and others get no defaults. Raises
        ValidationError with what is wrong by name, as `Schema.load` does.
        """
        loaded, loadable = self._whole_schema.load(values, partial=partial), self._loadable
        if not isinstance(loaded, (dict, Mapping)):  # `dict` first: it is found much faster
            raise TypeError(f"{self.type}: post_load must return a mapping, not {type(loaded)}")
        return {
            name: value if value is None else loadable[name].kind.store(value)
            for name, value in loaded.items()
            if name in loadable
        }

    @cached_property
    def _loadable(self) -> Mapping[str, ResourceField]:
        """The attributes that requests and hooks can set, by name."""
        return {
            each.name: each
            for each in self.fields
            if each.name in self._whole_schema.fields
            and not (each.is_computed or each.name in AUTHORSHIP)
        }
