"""The graph of all types: adds the inverses of links and validates the declarations."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from marshmallow.fields import Field, String

from registry.model.base_schema import PeriodSchema
from registry.model.fields import DateTime
from registry.model.implicit_attributes import (
    AUTHORSHIP,
    SINCE,
    UNTIL,
    CopiedText,
    unindexed,
)
from registry.model.record import ID, LAST_WRITE, VERSION
from registry.model.resource_type import (
    History,
    InvalidDeclaration,
    Link,
    Relationship,
    ResourceType,
)
from registry.model.revisions import REVISION, REVISIONS, revision_type

_MEMBER_NAME = re.compile(r"[a-z]([a-z0-9_]{0,61}[a-z0-9])?")

_MEMBERS = ("attributes", "data", "errors", "id", "included", "jsonapi", "lid", "links", "meta")
_RESERVED = {*_MEMBERS, "relationships", "type", *AUTHORSHIP, VERSION, LAST_WRITE}
"""Members of JSON:API documents, and what every type or record has."""

_MAX_TYPES = 50
"""Types, including histories: what is derived from each is kept in caches of 64."""

_MAX_INDEXES = 63
"""MongoDB's limit for a collection, without the index of the ids."""


class Graph(dict[str, ResourceType]):
    """All types by name, with relationships in both directions, and those of histories.

    revision_days: how long revisions are kept; None without any.
    """

    def __init__(self, declared: Iterable[ResourceType], revision_days: int | None = None) -> None:
        self.revision_days = revision_days
        own = tuple(declared)
        resources = (*own, *history_types(own))
        for resource_type in resources:
            if resource_type.type == REVISION or resource_type.collection == REVISIONS:
                reason = f"the type {REVISION} and the collection {REVISIONS} are reserved"
                raise InvalidDeclaration(f"{resource_type.type}: {reason}: choose another name")
        if revision_days is not None:
            resources = (*resources, revision_type(own))
        if len(resources) > _MAX_TYPES:
            raise InvalidDeclaration(
                f"there are {len(resources)} types, including histories; allowed are {_MAX_TYPES}"
            )
        _check_distinct("type", [resource_type.type for resource_type in resources])
        _check_distinct("collection", [resource_type.collection for resource_type in resources])
        for resource_type in resources:
            _check_attributes(resource_type)
            _check_indexes(resource_type)
        _check_links(resources)
        super().__init__(
            (
                resource_type.type,
                replace(resource_type, relationships=_relationships(resource_type, resources)),
            )
            for resource_type in resources
        )

    def with_unique(self, names: Collection[str]) -> "Graph":
        """Return the graph in which attributes such as `computer.serial` are unique too."""
        possible = [
            f"{resource_type.type}.{name}"
            for resource_type in self.values()
            for name, attribute in resource_type.attributes.items()
            if attribute.can_be_unique
        ]
        if unknown := [name for name in names if name not in possible]:
            choices = ", ".join(possible)
            raise InvalidDeclaration(
                f"{unknown[0]!r} is not an attribute that can be unique; choose from {choices}"
            )
        by_type: dict[str, set[str]] = {}
        for type_name, _, attribute_name in (name.partition(".") for name in names):
            by_type.setdefault(type_name, set()).add(attribute_name)
        changed = (
            replace(each, unique=each.unique.union(by_type.get(each.type, ())))
            for each in self.writable
        )
        return Graph(changed, self.revision_days)

    @property
    def revisions(self) -> ResourceType | None:
        """The type of the revisions, if they are kept."""
        return None if self.revision_days is None else self[REVISION]

    @property
    def writable(self) -> list[ResourceType]:
        """The types that requests may write."""
        return [resource_type for resource_type in self.values() if not resource_type.read_only]


def _relationships(
    resource_type: ResourceType, resources: tuple[ResourceType, ...]
) -> dict[str, Relationship]:
    relationships = []
    for link in () if resource_type.subject else resource_type.links:
        ends, key = (link.name, link.target, link.inverse), link.foreign_key
        relationships.append(Relationship(*ends, key, False, resource_type.read_only))
    for other in resources:
        for link in other.links:
            if link.target == resource_type.type:
                ends, key = (link.inverse, other.type, link.name), link.foreign_key
                counted, fixed = link.count_field, other.read_only
                relationships.append(Relationship(*ends, key, True, fixed, count_field=counted))
    _check_names(resource_type, [relationship.name for relationship in relationships])
    return {relationship.name: relationship for relationship in relationships}


def _check_names(resource_type: ResourceType, relationships: Iterable[str]) -> None:
    """Check that attributes, relationships, `type`, `id` and the authorship share one namespace."""
    type_name = resource_type.type
    links = [link.foreign_key for link in resource_type.links]
    own = resource_type.attributes if resource_type.read_only else resource_type.schema().fields
    fields = [*own, *relationships]
    _check_distinct(f"field of {type_name}", fields)
    _check_distinct(f"stored field of {type_name}", [*resource_type.tracking_fields, *own, *links])
    for name in (type_name, resource_type.collection, *fields, *links):
        if not _MEMBER_NAME.fullmatch(name):
            reason = "is not a valid name: use at most 63 of a-z, 0-9 and _, and begin with a-z"
            raise InvalidDeclaration(f"`{name}` of {type_name} {reason}")
        if name in _RESERVED:
            raise InvalidDeclaration(f"`{name}` of {type_name} is not a valid name: it is reserved")


def _check_attributes(resource_type: ResourceType) -> None:
    for name, attribute in resource_type.attributes.items():
        if name in resource_type.unique and not attribute.can_be_unique:
            reason = "is unique, so it must be writable and must not have a default"
            raise InvalidDeclaration(f"attribute {resource_type.type}.{name} {reason}")

    for name, text in resource_type.computed.items():
        for part in text.parts:
            joined = resource_type.attributes.get(part)
            if joined is None or not isinstance(joined.field, String):
                reason = f"is computed from {part}, which is not a text attribute"
                raise InvalidDeclaration(f"{resource_type.type}.{name} {reason}")


def _check_indexes(resource_type: ResourceType) -> None:
    count = len(resource_type.indexed_fields - {ID}) + len(resource_type.unique_attributes)
    if count > _MAX_INDEXES:
        raise InvalidDeclaration(
            f"{resource_type.type} needs {count} indexes, one for each attribute and link and "
            f"another for each unique attribute; allowed are {_MAX_INDEXES}"
        )


def _check_links(resources: Iterable[ResourceType]) -> None:
    links = {
        (resource_type.type, link.name): link
        for resource_type in resources
        for link in resource_type.links
    }
    types = {resource_type.type for resource_type in resources}
    for (type_name, name), link in links.items():
        if link.target not in types:
            target = f"the target of {type_name}.{name}, `{link.target}`,"
            raise InvalidDeclaration(f"{target} is not declared")
        opposite = links.get((link.target, link.inverse))
        if opposite and (opposite.target, opposite.inverse) == (type_name, name):
            pair = f"{type_name}.{name} and {link.target}.{link.inverse}"
            reason = "many-to-many links are not supported; declare the link on one side"
            raise InvalidDeclaration(f"{pair} are each other's inverse: {reason}")


def _check_distinct(kind: str, names: Iterable[str]) -> None:
    known = set[str]()
    for name in names:
        if name in known:
            raise InvalidDeclaration(f"{kind} declared twice: {name}")
        known.add(name)


@dataclass(frozen=True, slots=True)
class TrackedLink:
    """A link with a history, the types at its ends, and the generated type of its periods."""

    source: ResourceType
    link: Link
    target: ResourceType
    periods: ResourceType

    @property
    def source_key(self) -> str:
        """The stored field of a period with the id of the resource that declares the link."""
        return self.source.type

    @property
    def target_key(self) -> str:
        """The stored field of a period with the id of the target."""
        return self.link.name


def tracked_links(graph: Mapping[str, ResourceType]) -> Iterator[TrackedLink]:
    """Yield the links of all types that have a history."""
    for source in graph.values():
        for link in source.links:
            if link.history:
                yield TrackedLink(source, link, graph[link.target], graph[link.history.type])


def history_types(resources: Iterable[ResourceType]) -> Iterator[ResourceType]:
    """Yield the types of the periods that the links of some types declare."""
    types = {resource_type.type: resource_type for resource_type in resources}
    for source in types.values():
        for link in source.links:
            if link.history and link.target in types:
                yield _history_type(source, link, link.history, types[link.target])


def _history_type(
    source: ResourceType, link: Link, history: History, target: ResourceType
) -> ResourceType:
    attributes: dict[str, Field[Any]] = {
        SINCE: _bound("When it began; null if that was before records began."),
        UNTIL: _bound("When it ended; null while it lasts.", example=None),
    }
    links = list[Link]()
    for end, end_type, copies in (
        (source.type, source, history.source_copies),
        (link.name, target, history.target_copies),
    ):
        for name, source_name in copies.items():
            attributes[name] = _copied_attribute(end, source_name, end_type)
        # Of a link from a type to itself, both ends would have the same name.
        suffix = f"_as_{end}" if links and target is source else ""
        inverse = f"{history.collection}{suffix}"
        links.append(Link(name=end, target=end_type.type, foreign_key=end, inverse=inverse))
    return ResourceType(
        type=history.type,
        collection=history.collection,
        schema=PeriodSchema.from_dict(attributes),
        links=tuple(links),
        history_of=link,
    )


def _bound(description: str, **metadata: Any) -> DateTime:
    """Return the beginning or the end of a period; those of a resource are few."""
    return DateTime(dump_only=True, allow_none=True, metadata=unindexed(description, **metadata))


def _copied_attribute(end: str, source_name: str, end_type: ResourceType) -> CopiedText:
    """Return the attribute of a period that copies one of the type at an end of the link."""
    attribute = end_type.attributes.get(source_name)
    description = f"The `{source_name}` of the {end_type.type} when the period ended; null before."
    example = attribute.example if attribute else None
    return CopiedText(end, source_name, metadata={"example": example, "description": description})
