"""Query string -> `Query` (JSON:API 1.0, Fetching Data)."""

import re
from collections.abc import Collection, Iterable, Mapping, Set
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
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType

Include: TypeAlias = "Mapping[str, Include]"
"""Include paths as a tree: `computers.owner` is `{"computers": {"owner": {}}}`."""

IncludePath: TypeAlias = tuple[str, ...]
"""A relationship path: `computers.owner` is `("computers", "owner")`."""

MAX_INCLUDE_STEPS = 3

_BRACKETED = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")


@dataclass(frozen=True, slots=True)
class Query:
    """The parsed query string of one request.

    fields: sparse fieldsets by type, in the order of the request. include: the relationships to
    include; None if the parameter was not sent. include_sizes: the maximum number of resources to
    include at the end of a to-many path. order, filters (combined by AND, by the name of their
    parameter) and page apply to a collection; without a page, it is returned as a whole.
    """

    fields: Mapping[str, Set[str]] = field(default_factory=dict)
    include: "Include | None" = None
    include_sizes: Mapping[IncludePath, int] = field(default_factory=dict)
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

    @property
    def parameters(self) -> list[str]:
        """The names of the supported parameters."""
        fields = (f"fields[{name}]" for name in self.graph)
        common = ["include", "page[...][size]", *fields]
        if not self.many:
            return common
        return [*(f"page[{name}]" for name in MEMBERS), *common, "sort", "filter", "filter[...]"]


def parse_query(parameters: Iterable[tuple[str, str]], scope: QueryScope) -> Query:
    """Return the query of a request. Raises ApiErrors with all errors.

    parameters: decoded names and values, in order.
    """
    parser = _Parser(scope)
    for name, value in parameters:
        with parser.errors:
            parser.add(name, value)
    return parser.query()


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


class _Parser:
    """Parses parameters one by one, and those that depend on each other at the end."""

    def __init__(self, scope: QueryScope) -> None:
        self.errors = ErrorCollector()
        self._scope = scope
        self._names: set[str] = set()
        self._fields: dict[str, Set[str]] = {}
        self._filters: dict[str, Filter] = {}
        self._include: str | None = None
        self._sort = ""
        self._page: dict[str, str] = {}
        self._include_sizes: dict[str, str] = {}

    def add(self, name: str, value: str) -> None:
        """Parse a parameter. Raises InvalidParameter, or ApiErrors with several."""
        if name in self._names:
            raise InvalidParameter(f"{quoted(name)} is given more than once.", parameter=name)
        self._names.add(name)
        scope = self._scope
        match _split_brackets(name):
            case ["include"]:
                self._include = value
            case ["sort"] if scope.many:
                self._sort = value
            case ["fields", type_name]:
                self._fields[type_name] = _parse_fields(name, type_name, value, scope.graph)
            case ["filter", *brackets] if scope.many:
                self._filters[name] = parse_filter(
                    name, brackets, value, scope.resource, scope.graph
                )
            case ["page", member] if scope.many and member in MEMBERS:
                self._page[member] = value
            case ["page", path, "size"]:
                self._include_sizes[path] = value
            case _:
                raise unknown_parameter(name, scope.parameters)

    def query(self) -> Query:
        """Return the query. Raises ApiErrors if any parameter is not valid."""
        scope, errors = self._scope, self.errors
        order, included, sizes, page = None, None, dict[IncludePath, int](), None
        with errors:
            order = parse_sort(self._sort, scope.resource, scope.graph)
        with errors:
            included = _parse_include(self._include or "", scope)
        for path, value in self._include_sizes.items():
            parameter, steps = f"page[{path}][size]", tuple(path.split("."))
            with errors:
                if included is not None and steps not in included[1]:
                    detail = f"{quoted(path)} is not a to-many relationship that `include` names."
                    raise InvalidParameter(detail, parameter=parameter)
                sizes[steps] = parse_size(value, parameter)
        with errors:
            if self._page:
                page = parse_page(self._page, scope.page_size, scope.resource, order)
        errors.raise_any()
        tree = None if self._include is None or included is None else included[0]
        return Query(self._fields, tree, sizes, order or BY_ID, self._filters, page)


def _split_brackets(name: str) -> list[str]:
    """Return the parts of a name: `filter[serial][prefix]` is filter, serial, prefix."""
    match = _BRACKETED.fullmatch(name)
    return [match[1], *match[2][1:-1].split("][")] if match and match[2] else [name]


def _parse_fields(parameter: str, type_name: str, value: str, graph: Graph) -> Set[str]:
    """JSON:API 1.0, Sparse Fieldsets; an empty value selects no fields."""
    if type_name not in graph:
        raise InvalidParameter(unknown_type(type_name, graph), parameter=parameter)
    names = dict.fromkeys(value.split(",") if value else ()).keys()
    available = graph[type_name].fieldset_names
    if unknown := names - available:
        refused, supported = quoted(*sorted(unknown)), quoted(*sorted(available))
        detail = f"Unknown fields of `{type_name}`: {refused}; available: {supported}."
        raise InvalidParameter(detail, parameter=parameter)
    return names


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
