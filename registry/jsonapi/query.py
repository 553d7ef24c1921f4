"""What a query string asks for (JSON:API 1.0, Fetching Data), and how its values are parsed."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from registry.jsonapi.error_objects import ErrorCollector, quoted, unknown_type
from registry.jsonapi.error_types import InvalidParameter
from registry.jsonapi.filtering import Filter, parse_filter
from registry.jsonapi.pagination import (
    BY_ID,
    MEMBERS,
    Order,
    Page,
    parse_page,
    parse_size,
    parse_sort,
)
from registry.jsonapi.searching import SEARCH, parse_search
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType

Include: TypeAlias = "Mapping[str, Include]"
"""Include paths as a tree: `computers.owner` is `{"computers": {"owner": {}}}`."""

IncludePath: TypeAlias = tuple[str, ...]
"""A relationship path: `computers.owner` is `("computers", "owner")`."""

MAX_INCLUDE_STEPS = 3

_PAGE = {name: f"page[{name}]" for name in MEMBERS}

WITH_COUNT = "withCount"
"""The query parameter for the numbers of members of relationships."""

AFTER, TYPES = "page[after]", "filter[type]"
"""The query parameters of the change feed."""


@dataclass(frozen=True, slots=True)
class Query:
    """The parsed query string of one request.

    fields: sparse fieldsets by type, in the order of the request. include: the relationships to
    include; None if the parameter was not sent. include_sizes: the maximum number of resources to
    include at the end of a to-many path. counts: the to-many relationships whose members are
    counted, by the type that has them. order, filters (combined by AND, by the name of their
    parameter) and page apply to a collection; without a page, it is returned as a whole.
    """

    fields: Mapping[str, Set[str]] = field(default_factory=dict)
    include: "Include | None" = None
    include_sizes: Mapping[IncludePath, int] = field(default_factory=dict)
    counts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    order: Order = BY_ID
    filters: Mapping[str, Filter] = field(default_factory=dict)
    page: Page | None = None

    def attributes(self, resource: ResourceType) -> frozenset[str]:
        """Return the names of the attributes to show of resources of this type."""
        names = self.fields.get(resource.type)
        if names is None:
            return resource.attribute_names
        return frozenset(names & resource.readable.keys())

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


@dataclass(frozen=True, slots=True)
class FeedQuery:
    """The parameters of the change feed; None for those that were not sent. after: a position."""

    types: tuple[str, ...] | None
    after: str | None


def unknown_parameter(name: str, supported: Collection[str] = ()) -> InvalidParameter:
    """Return the error for a parameter that the request does not support."""
    detail = f"Unknown query parameter {quoted(name)}; supported: {quoted(*supported)}."
    return InvalidParameter(detail, parameter=name)


def reject_parameters(names: Iterable[str]) -> None:
    """Raise ApiErrors with an InvalidParameter for each: the path supports none."""
    errors = ErrorCollector()
    for name in dict.fromkeys(names):
        errors.add(unknown_parameter(name))
    errors.raise_any()


class QueryParser:
    """Parses the values of parameters one by one, and at the end those that depend on each other.

    Its methods raise InvalidParameter, or ApiErrors with several errors. parameter: as it was sent.
    """

    def __init__(self, scope: QueryScope) -> None:
        self.errors = ErrorCollector()
        self._scope = scope
        self._fields: dict[str, Set[str]] = {}
        self._filters: dict[str, Filter] = {}
        self._texts: dict[str, str] = {}
        self._include_sizes: dict[str, str] = {}

    def keep(self, parameter: str, value: str) -> None:
        """Take a value that depends on those of other parameters, to parse it at the end."""
        self._texts[parameter] = value

    def include_size(self, _: str, value: str, path: str) -> None:
        """Take the maximum number of resources to include at the end of a path."""
        self._include_sizes[path] = value

    def filter(self, parameter: str, value: str | list[str], *brackets: str) -> None:
        """Take a filter. brackets: its field and operator; none if the value is JSON."""
        resource, graph = self._scope.resource, self._scope.graph
        self._filters[parameter] = parse_filter(parameter, brackets, value, resource, graph)

    def search(self, parameter: str, value: str) -> None:
        """Take the words to search for, unless an attribute has this name."""
        resource = self._scope.resource
        if SEARCH in resource.filterable:
            self.filter(parameter, value, SEARCH)
        else:
            self._filters[parameter] = parse_search(parameter, value, resource)

    def fields(self, parameter: str, value: str, type_name: str) -> None:
        """Take the fields of a type, separated by commas (JSON:API 1.0, Sparse Fieldsets)."""
        if (resource := self._scope.graph.get(type_name)) is None:
            detail = unknown_type(type_name, self._scope.graph)
            raise InvalidParameter(detail, parameter=parameter)
        names = dict.fromkeys(value.split(",") if value else ()).keys()
        if unknown := names - resource.fieldset_names:
            refused, supported = sorted(unknown), sorted(resource.fieldset_names)
            detail = f"Unknown fields of `{type_name}`: {quoted(*refused)}; available: "
            raise InvalidParameter(f"{detail}{quoted(*supported)}.", parameter=parameter)
        self._fields[type_name] = names

    def query(self) -> Query:
        """Return the query. Raises ApiErrors if any parameter is not valid."""
        scope, errors, texts = self._scope, self.errors, self._texts
        order, included, sizes, page = None, None, dict[IncludePath, int](), None
        counts: Mapping[str, Sequence[str]] = {}
        with errors:
            order = parse_sort(texts.get("sort", ""), scope.resource, scope.graph)
        with errors:
            included = _parse_include(texts.get("include", ""), scope)
        with errors:
            if included is not None and WITH_COUNT in texts:
                counts = _parse_counts(texts[WITH_COUNT], included[0], scope)
        for path, value in self._include_sizes.items():
            parameter, steps = f"page[{path}][size]", tuple(path.split("."))
            with errors:
                if included is not None and steps not in included[1]:
                    detail = f"{quoted(path)} is not a to-many relationship that `include` names."
                    raise InvalidParameter(detail, parameter=parameter)
                sizes[steps] = parse_size(value, parameter)
        with errors:
            if members := {name: texts[sent] for name, sent in _PAGE.items() if sent in texts}:
                page = parse_page(members, scope.page_size, scope.resource, order)
        errors.raise_any()
        tree = included[0] if included is not None and "include" in texts else None
        return Query(self._fields, tree, sizes, counts, order or BY_ID, self._filters, page)


class FeedParser:
    """Parses the parameters of the change feed; as QueryParser."""

    def __init__(self, graph: Graph) -> None:
        self.errors = ErrorCollector()
        self._known = [resource.type for resource in graph.writable]
        self._types: tuple[str, ...] | None = None
        self._after: str | None = None

    def after(self, _: str, value: str) -> None:
        """Take a position."""
        self._after = value

    def types(self, parameter: str, value: str) -> None:
        """Take names of types, separated by commas."""
        self._types = tuple(value.split(","))
        for unknown in dict.fromkeys(self._types):
            if unknown not in self._known:
                detail = unknown_type(unknown, self._known)
                self.errors.add(InvalidParameter(detail, parameter=parameter))

    def query(self) -> FeedQuery:
        """Return the query. Raises ApiErrors if any parameter is not valid."""
        self.errors.raise_any()
        return FeedQuery(self._types, self._after)


def _parse_include(value: str, scope: QueryScope) -> tuple[Include, set[IncludePath]]:
    """Return include paths as a tree, and those that lead to several resources."""
    root, to_many, errors = dict[str, Include](), set[IncludePath](), ErrorCollector()
    for path in dict.fromkeys(value.split(",")) if value else ():
        tree, steps, (resource, relationships) = root, path.split("."), scope.start
        with errors:
            if len(steps) > MAX_INCLUDE_STEPS:
                detail = f"{quoted(path)} has {len(steps)} steps; the maximum is"
                raise InvalidParameter(f"{detail} {MAX_INCLUDE_STEPS}.", parameter="include")
            for number, step in enumerate(steps, 1):
                if step not in relationships:
                    detail = (
                        f"{quoted(step)} in {quoted(path)} is not a relationship of "
                        f"`{resource.type}` that can be included; available: "
                        f"{quoted(*relationships)}."
                    )
                    raise InvalidParameter(detail, parameter="include")
                if relationships[step].to_many and not (scope.linkage and number == 1):
                    to_many.add(tuple(steps[:number]))
                resource = scope.graph[relationships[step].target]
                relationships = resource.relationships
                tree = tree.setdefault(step, {})  # type: ignore[assignment] # built here: mutable
    errors.raise_any()
    return root, to_many


def _parse_counts(value: str, include: Include, scope: QueryScope) -> Mapping[str, Sequence[str]]:
    """Return the to-many relationships to count, by the type that has them."""
    counts, errors, sent = dict[str, list[str]](), ErrorCollector(), value.split(",")
    for text in sent:
        *path, name = text.split(".")
        tree, (resource, relationships) = include, scope.start
        is_shown = scope.linkage is None or bool(path)
        for step in path:
            is_shown = is_shown and step in tree
            if is_shown:
                tree, resource = tree[step], scope.graph[relationships[step].target]
                relationships = resource.relationships
        with errors:
            if len(path) >= MAX_INCLUDE_STEPS:
                detail = f"{quoted(text)} has {len(path) + 1} steps; the maximum is"
                raise InvalidParameter(f"{detail} {MAX_INCLUDE_STEPS}.", parameter=WITH_COUNT)
            if not is_shown:
                detail = f"{quoted(text)} must begin with a path that `include` names."
                raise InvalidParameter(detail, parameter=WITH_COUNT)
            if name not in relationships or not relationships[name].to_many:
                available = [each.name for each in relationships.values() if each.to_many]
                detail = f"{quoted(name)} is not a to-many relationship of `{resource.type}`"
                detail = f"{detail}; available: {quoted(*available)}."
                raise InvalidParameter(detail, parameter=WITH_COUNT)
            names = counts.setdefault(resource.type, [])
            if name not in names:
                names.append(name)
    if repeated := [text for text, number in Counter(sent).items() if number > 1]:
        detail = f"{quoted(*repeated)} must not be repeated."
        errors.add(InvalidParameter(detail, parameter=WITH_COUNT))
    errors.raise_any()
    return counts
