"""What a query string asks for (JSON:API 1.0, Fetching Data)."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from registry.jsonapi.filtering import Filter
from registry.jsonapi.pagination import (
    BY_ID,
    Order,
    Page,
)
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType

Include: TypeAlias = "Mapping[str, Include]"
"""Include paths as a tree: `computers.owner` is `{"computers": {"owner": {}}}`."""

IncludePath: TypeAlias = tuple[str, ...]
"""A relationship path: `computers.owner` is `("computers", "owner")`."""

MAX_INCLUDE_STEPS = 3

WITH_COUNT = "withCount"
"""The query parameter for the numbers of members of relationships."""

SEARCH = "search"
"""The field that `filter[search]` names. An attribute of this name has precedence."""

AFTER, TYPES = "page[after]", "filter[type]"
"""The query parameters of the change feed."""


@dataclass(frozen=True, slots=True)
class Query:
    """The parsed query string of one request.

    fields: sparse fieldsets by type, in the order of the request. include: the relationships to
    include; None if the parameter was not sent. include_sizes: the maximum number of resources to
    include at the end of a to-many path. counts: the to-many relationships whose members are
    counted, by the type that has them. order, filters (combined by AND, by the name of their
    parameter) and page apply to a collection; without a page, it is returned as a whole. readable:
    the types whose revisions the client may see; None for all.
    """

    fields: Mapping[str, Set[str]] = field(default_factory=dict)
    include: "Include | None" = None
    include_sizes: Mapping[IncludePath, int] = field(default_factory=dict)
    counts: Mapping[str, Iterable[str]] = field(default_factory=dict)
    order: Order = BY_ID
    filters: Mapping[str, Filter] = field(default_factory=dict)
    page: Page | None = None
    readable: frozenset[str] | None = None

    def shown(self, resource: ResourceType) -> frozenset[str]:
        """Return the names of the attributes to show of resources of this type.

        Also those of the relationships whose members are counted: all have one namespace.
        """
        names, counts = self.fields.get(resource.type), self.counts.get(resource.type)
        shown = resource.attribute_names
        if names is not None:
            shown = frozenset(names & resource.readable.keys())
        return shown.union(counts) if counts else shown

    def include_below(self, path: IncludePath) -> "Include":
        """Return the relationships to include of the resources at the end of a path."""
        include = self.include or {}
        for name in path:
            include = include.get(name, {})
        return include


NO_PARAMETERS = Query()
"""The query of a request without parameters."""


@dataclass(frozen=True, slots=True)
class QueryScope:
    """What the parameters of a request apply to.

    resource: the type of the primary data. graph: all types. page_size: the default. many: whether
    the primary data are a collection. linkage: if the primary data are resource identifiers, the
    type and the relationship they belong to; include paths start there.
    """

    resource: ResourceType
    graph: Graph
    page_size: int
    many: bool = False
    linkage: tuple[ResourceType, Relationship] | None = None

    @property
    def start(self) -> tuple[ResourceType, Mapping[str, Relationship]]:
        """The type that include paths start at, and the relationships they may start with."""
        if self.linkage is None:
            return self.resource, self.resource.relationships
        owner, relationship = self.linkage
        return owner, {relationship.name: relationship}

    @property
    def start_name(self) -> str:
        """Where include paths start: a type, or the relationship of linkage."""
        if self.linkage is None:
            return self.resource.type
        owner, relationship = self.linkage
        return f"{owner.type}.{relationship.name}"


@dataclass(frozen=True, slots=True)
class FeedQuery:
    """The parameters of the change feed; None for those that were not sent. after: a position."""

    types: tuple[str, ...] | None
    after: str | None
