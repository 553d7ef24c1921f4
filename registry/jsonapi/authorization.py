"""Which scopes a request requires: one for each type that it reads or writes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from registry.access.principal import Action, Principal, sufficient_scopes
from registry.jsonapi.changes import Change, Write
from registry.jsonapi.error_objects import DATA, MAX_ERRORS, ApiErrors
from registry.jsonapi.error_types import InsufficientScope
from registry.jsonapi.filtering import filtered_fields, related_filters
from registry.jsonapi.operation_documents import operation_position
from registry.jsonapi.query import Include, Query, QueryScope
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType


@dataclass(frozen=True, slots=True)
class Requirement:
    """An action on a type for which a request needs a scope.

    resource: None for all types. pointer, parameter: the part of the request that needs it, as in
    error objects; both are None if its path and method do. scopes: each of them is sufficient.
    """

    action: Action
    resource: ResourceType | None
    pointer: str | None = None
    parameter: str | None = None
    scopes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        # Computed once: for each request, authorization would take three times as long.
        object.__setattr__(self, "scopes", sufficient_scopes(self.action, self.resource))

    @property
    def scope(self) -> str:
        """The narrowest scope that is sufficient."""
        return self.scopes[0]


def authorize(principal: Principal, requirements: Iterable[Requirement]) -> None:
    """Raise ApiErrors with an InsufficientScope for each requirement that is not met."""
    lacking = [one for one in requirements if not principal.has_one_of(one.scopes)]
    if lacking:
        scope = " ".join(dict.fromkeys(one.scope for one in lacking))
        distinct = islice(dict.fromkeys(lacking), MAX_ERRORS)
        raise ApiErrors([_error(one, scope) for one in distinct])


def required_by_method(method: str, types: Iterable[ResourceType]) -> list[Requirement]:
    """Return what every request with a method requires, to a path that stands for these types."""
    action = Action.READ if method in {"GET", "HEAD"} else Action.WRITE
    return [Requirement(action, resource) for resource in types]


def required_by_query(query: Query, scope: QueryScope) -> Iterator[Requirement]:
    """Yield what the parameters require beyond the types that the path names.

    They read each type on an include path, and each one by which they filter or sort.
    """
    graph, (_, relationships) = scope.graph, scope.start
    for included in _included(query.include or {}, relationships, graph):
        yield Requirement(Action.READ, included, parameter="include")
    for condition, name in zip(query.filters, query.filter_parameters, strict=True):
        for related in related_filters(condition):
            yield Requirement(Action.READ, related.target, parameter=name)
        for type_name, stored_name in filtered_fields(condition, scope.resource.type):
            for linked in _linked_by(stored_name, graph[type_name], graph):
                yield Requirement(Action.READ, linked, parameter=name)
    for key in query.order:
        relationship = key.relationship
        owner = graph[relationship.target] if relationship else scope.resource
        for one in (owner, *_linked_by(key.stored_name, owner, graph)):
            yield Requirement(Action.READ, one, parameter="sort")


def required_by_change(change: Change, graph: Graph) -> Iterator[Requirement]:
    """Yield what the relationships of a resource object require.

    A link is part of the resources at both ends: whoever changes it writes both types. Deleting a
    resource is the exception: it requires only its own type.
    """
    for linkage in change.linkages:
        position = DATA / "relationships" / linkage.relationship.name
        target = graph[linkage.relationship.target]
        yield Requirement(Action.WRITE, target, pointer=position.pointer)


def required_by_operations(operations: Sequence[Write], graph: Graph) -> Iterator[Requirement]:
    """Yield what operations require. operations: all of the request, in order.

    Each operation writes the type of its resource and the types that it links it to.
    """
    for index, operation in enumerate(operations):
        position = operation_position(index)
        targets = (linkage.relationship.target for linkage in operation.change.linkages)
        for resource in (operation.resource, *(graph[target] for target in targets)):
            yield Requirement(Action.WRITE, resource, pointer=position.pointer)


def _included(
    include: Include, relationships: Mapping[str, Relationship], graph: Graph
) -> Iterator[ResourceType]:
    for name, further in include.items():
        target = graph[relationships[name].target]
        yield target
        yield from _included(further, target.relationships, graph)


def _linked_by(stored_name: str, resource: ResourceType, graph: Graph) -> Iterator[ResourceType]:
    """Yield the type whose ids a stored field has, if it is a foreign key."""
    for link in resource.links:
        if link.foreign_key == stored_name:
            yield graph[link.target]


def _error(requirement: Requirement, scope: str) -> InsufficientScope:
    pointer, parameter = requirement.pointer, requirement.parameter
    part = f"`{parameter}`" if parameter else "This part of the document" if pointer else "This"
    detail = f"{part} requires the scope `{requirement.scope}`, which the access token lacks."
    return InsufficientScope(detail, scope, pointer=pointer, parameter=parameter)
