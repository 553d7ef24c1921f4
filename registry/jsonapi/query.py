"""Query string -> Query: what the client wants to see (JSON:API 1.0, Fetching Data)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from registry.jsonapi.errors import ErrorCollector, InvalidParameter, quoted
from registry.jsonapi.filtering import Filter, parse_filter
from registry.jsonapi.pagination import MEMBERS, Page, Sizes, parse_page, parse_size
from registry.jsonapi.sorting import BY_ID, Order, parse_sort
from registry.model.graph import Graph
from registry.model.resource import Relationship, Resource
from registry.model.stored_fields import fieldset_names

Include: TypeAlias = "Mapping[str, Include]"
"""Relationship paths as a tree: `computers.owner` is `{"computers": {"owner": {}}}`."""

Steps: TypeAlias = tuple[str, ...]
"""A relationship path: `computers.owner` is `("computers", "owner")`."""

MAX_INCLUDE_STEPS = 3

_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of one request.

    fields: the names asked for, of each type that is restricted. include: the relationships to
    follow; None when the parameter was not sent. bounds: at most how many resources to include at
    the end of a path. order, filters (all of which have to hold) and page: of a collection; a page
    of None is the whole of it.
    """

    fields: Mapping[str, frozenset[str]] = field(default_factory=dict)
    include: Include | None = None
    bounds: Mapping[Steps, int] = field(default_factory=dict)
    order: Order = BY_ID
    filters: tuple[Filter, ...] = ()
    page: Page | None = None

    def attributes(self, resource: Resource) -> frozenset[str]:
        """Return the names of the attributes to show of resources of this type."""
        return self.fields.get(resource.type, resource.attribute_names)


EVERYTHING = Query()
"""What a request without parameters wants to see."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What the parameters of a request are about.

    resource: the type of the primary data. graph: all types. sizes: of its pages and of what it
    includes. many: whether the primary data are a collection. linkage: the type that `include`
    starts at, and the relationship it starts with, when the primary data are identifiers.
    """

    resource: Resource
    graph: Graph
    sizes: Sizes
    many: bool = False
    linkage: tuple[Resource, Relationship] | None = None

    @property
    def start(self) -> tuple[Resource, Mapping[str, Relationship]]:
        """The type that `include` starts at, and the relationships it may start with."""
        if self.linkage is None:
            return self.resource, self.resource.relationships
        owner, relationship = self.linkage
        return owner, {relationship.name: relationship}

    @property
    def names(self) -> list[str]:
        """The parameters that there are."""
        listing = ["sort", "filter", "filter[...]", "page[...]"] if self.many else []
        return ["include", *(f"fields[{name}]" for name in self.graph), *listing]


def parse(parameters: Iterable[tuple[str, str]], scope: Scope) -> Query:
    """Return the query of a request.

    parameters: decoded names and values, in order. Raises ApiErrors with one error for each
    parameter that is unknown, given twice, or names something that does not exist.
    """
    problems, resource, graph = ErrorCollector(), scope.resource, scope.graph
    lists: dict[str, str] = {}
    fields: dict[str, frozenset[str]] = {}
    filters: list[Filter] = []
    page: dict[str, str] = {}
    bounds: dict[str, str] = {}
    for name, value in _once(parameters, problems):
        with problems:
            match _brackets(name):
                case ["include"]:
                    lists[name] = value
                case ["sort"] if scope.many:
                    lists[name] = value
                case ["fields", type_name]:
                    fields[type_name] = _fields(name, type_name, value, graph)
                case ["filter", *brackets] if scope.many:
                    filters.append(parse_filter(name, brackets, value, resource))
                case ["page", member] if scope.many and member in MEMBERS:
                    page[member] = value
                case ["page", path, "size"]:
                    bounds[path] = value
                case _:
                    raise _unknown(name, scope)
    order, include = BY_ID, None
    with problems:
        order = parse_sort(lists.get("sort", ""), resource, graph)
    with problems:
        include = _include(lists["include"], scope) if "include" in lists else None
    problems.raise_any()
    included, part = dict[Steps, int](), None
    with problems:
        included = _bounds(bounds, include or {}, scope)
    with problems:
        part = parse_page(page, scope.sizes, resource, order) if page else None
    problems.raise_any()
    return Query(fields, include, included, order, tuple(filters), part)


def _once(
    parameters: Iterable[tuple[str, str]], problems: ErrorCollector
) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for name, value in parameters:
        if name in seen:
            problems.add(
                InvalidParameter(f"{quoted(name)} is given more than once.", parameter=name)
            )
        else:
            yield name, value
        seen.add(name)


def _brackets(name: str) -> list[str]:
    """Return the parts of a name: `filter[serial][prefix]` is filter, serial, prefix."""
    found = _NAME.fullmatch(name)
    return [found[1], *found[2][1:-1].split("][")] if found and found[2] else [name]


def _unknown(name: str, scope: Scope) -> InvalidParameter:
    return InvalidParameter(
        f"There is no parameter {quoted(name)} here; there are {quoted(*scope.names)}.",
        parameter=name,
    )


def _fields(parameter: str, type_name: str, value: str, graph: Graph) -> frozenset[str]:
    """JSON:API 1.0, Sparse Fieldsets; an empty value asks for no fields."""
    if type_name not in graph:
        raise InvalidParameter(
            f"There is no type {quoted(type_name)}; there are {quoted(*graph)}.",
            parameter=parameter,
        )
    names = frozenset(value.split(",")) if value else frozenset[str]()
    unknown = names - fieldset_names(graph[type_name])
    if unknown:
        raise InvalidParameter(
            f"`{type_name}` has no field {quoted(*sorted(unknown))}; "
            f"there are {quoted(*sorted(fieldset_names(graph[type_name])))}.",
            parameter=parameter,
        )
    return names


def _include(value: str, scope: Scope) -> Include:
    """JSON:API 1.0, Inclusion of Related Resources; an empty value asks for none."""
    tree: dict[str, Include] = {}
    for path in value.split(",") if value else ():
        steps = path.split(".")
        _check_path(path, steps, scope)
        _graft(tree, steps)
    return tree


def _check_path(path: str, steps: list[str], scope: Scope) -> None:
    if len(steps) > MAX_INCLUDE_STEPS:
        raise InvalidParameter(
            f"{quoted(path)} has {len(steps)} steps; at most {MAX_INCLUDE_STEPS} are followed.",
            parameter="include",
        )
    resource, known = scope.start
    for step in steps:
        if step not in known:
            raise InvalidParameter(
                f"{quoted(step)} in {quoted(path)} is no relationship of `{resource.type}` that "
                f"can be included here; there are {quoted(*known)}.",
                parameter="include",
            )
        resource = scope.graph[resource.relationships[step].target]
        known = resource.relationships


def _graft(tree: dict[str, Include], steps: list[str]) -> None:
    for step in steps:
        tree = tree.setdefault(step, {})  # type: ignore[assignment] # built here, so mutable


def _bounds(sent: Mapping[str, str], include: Include, scope: Scope) -> dict[Steps, int]:
    """Return the sizes that `page[path][size]` gives to included to-many relationships."""
    found = {}
    for path, value in sent.items():
        parameter, steps = f"page[{path}][size]", tuple(path.split("."))
        if not _leads_to_many(steps, include, scope):
            raise InvalidParameter(
                f"{quoted(path)} is no to-many relationship that `include` asks for.",
                parameter=parameter,
            )
        found[steps] = parse_size(value, parameter, scope.sizes)
    return found


def _leads_to_many(steps: Steps, include: Include, scope: Scope) -> bool:
    resource, known = scope.start
    for step in steps:
        if step not in include:
            return False
        include, relationship = include[step], known[step]
        resource = scope.graph[relationship.target]
        known = resource.relationships
    return relationship.to_many and not (scope.linkage and len(steps) == 1)
