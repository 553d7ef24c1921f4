"""Query string -> Query: what the client wants to see (JSON:API 1.0, Fetching Data)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from registry.jsonapi.errors import InvalidParameter, Problems, quoted
from registry.resource import Graph, Resource

Include: TypeAlias = "Mapping[str, Include]"
"""Relationship paths as a tree: `computers.owner` is `{"computers": {"owner": {}}}`."""

MAX_INCLUDE_STEPS = 3

_FIELDS = re.compile(r"fields\[([^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of one request.

    fields: the names asked for, of each type that is restricted. include: the relationships to
    follow from the primary resources; None when the parameter was not sent.
    """

    fields: Mapping[str, frozenset[str]]
    include: Include | None

    def attributes(self, resource: Resource) -> frozenset[str]:
        """Return the names of the attributes to show of resources of this type."""
        return self.fields.get(resource.type, frozenset(resource.attributes))


def parse(parameters: Iterable[tuple[str, str]], resource: Resource, graph: Graph) -> Query:
    """Return the query of a request whose primary data are of the given type.

    parameters: decoded names and values, in order. Raises ApiErrors with one InvalidParameter for
    each parameter that is unknown, given twice or names something that does not exist.
    """
    problems = Problems()
    fields: dict[str, frozenset[str]] = {}
    include: Include | None = None
    seen: set[str] = set()
    for name, value in parameters:
        try:
            if name in seen:
                raise InvalidParameter(f"{quoted(name)} is given more than once.", parameter=name)
            seen.add(name)
            if name == "include":
                include = _include(value, resource, graph)
            elif match := _FIELDS.fullmatch(name):
                fields[match[1]] = _fields(name, match[1], value, graph)
            else:
                known = quoted("include", *(f"fields[{name}]" for name in graph))
                raise InvalidParameter(
                    f"There is no parameter {quoted(name)}; there are {known}.", parameter=name
                )
        except InvalidParameter as error:
            problems.add(error)
    problems.raise_any()
    return Query(fields, include)


def _fields(parameter: str, type_name: str, value: str, graph: Graph) -> frozenset[str]:
    """JSON:API 1.0, Sparse Fieldsets; an empty value asks for no fields."""
    if type_name not in graph:
        raise InvalidParameter(
            f"There is no type {quoted(type_name)}; there are {quoted(*graph)}.",
            parameter=parameter,
        )
    names = frozenset(value.split(",")) if value else frozenset[str]()
    unknown = names - graph[type_name].field_names
    if unknown:
        raise InvalidParameter(
            f"`{type_name}` has no field {quoted(*sorted(unknown))}; "
            f"there are {quoted(*sorted(graph[type_name].field_names))}.",
            parameter=parameter,
        )
    return names


def _include(value: str, resource: Resource, graph: Graph) -> Include:
    """JSON:API 1.0, Inclusion of Related Resources; an empty value asks for none."""
    tree: dict[str, Include] = {}
    for path in value.split(",") if value else ():
        steps = path.split(".")
        _check_path(path, steps, resource, graph)
        _graft(tree, steps)
    return tree


def _check_path(path: str, steps: list[str], resource: Resource, graph: Graph) -> None:
    if len(steps) > MAX_INCLUDE_STEPS:
        raise InvalidParameter(
            f"{quoted(path)} has {len(steps)} steps; at most {MAX_INCLUDE_STEPS} are followed.",
            parameter="include",
        )
    for step in steps:
        if step not in resource.relationships:
            raise InvalidParameter(
                f"{quoted(step)} in {quoted(path)} is no relationship of `{resource.type}`; "
                f"there are {quoted(*resource.relationships)}.",
                parameter="include",
            )
        resource = graph[resource.relationships[step].target]


def _graft(tree: dict[str, Include], steps: list[str]) -> None:
    for step in steps:
        tree = tree.setdefault(step, {})  # type: ignore[assignment] # built here, so mutable
