"""Which scopes a request requires: one for each type that it reads or writes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from registry.access.principal import Action, Principal, sufficient_scopes
from registry.jsonapi.changes import Change, Write
from registry.jsonapi.error_objects import DATA, MAX_ERRORS, RequestError
from registry.jsonapi.error_types import InsufficientScope, challenge
from registry.jsonapi.filtering import filtered_fields, related_filters
from registry.jsonapi.operation_documents import OPERATIONS_POINTER
from registry.jsonapi.query import TYPES, WITH_COUNT, FeedQuery, Include, Query, QueryScope
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType


@dataclass(frozen=True, slots=True)
class Requirement:
    """An action on a type for which a request needs a scope.

    resource: None for all types. pointer, parameter: the part of the request that needs it, as in
    error objects; both are None if its path and method do.
    """

    action: Action
    resource: ResourceType | None
    pointer: str | None = None
    parameter: str | None = None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that are each sufficient, the narrowest first."""
        return sufficient_scopes(self.action, self.resource)


def authorize(principal: Principal, requirements: Iterable[Requirement]) -> None:
    """Raise RequestError with an InsufficientScope for each requirement that is not met."""
    unmet = [need for need in requirements if not principal.has_one_of(need.scopes)]
    if unmet:
        scope = " ".join(dict.fromkeys(need.scopes[0] for need in unmet))
        headers = challenge(error="insufficient_scope", scope=scope)
        errors = []
        for need in islice(dict.fromkeys(unmet), MAX_ERRORS):
            part = f"`{need.parameter}`" if need.parameter else "This part of the document"
            part = part if need.parameter or need.pointer else "This"
            detail = f"{part} requires the scope `{need.scopes[0]}`, which the access token lacks."
            errors.append(
                InsufficientScope(detail, need.pointer, parameter=need.parameter, headers=headers)
            )
        raise RequestError(errors)


def readable_types(principal: Principal | None, graph: Graph) -> frozenset[str]:
    """Return the types that a principal may read; all of them without authentication."""
    return frozenset(
        name
        for name, resource in graph.items()
        if principal is None or principal.has_one_of(sufficient_scopes(Action.READ, resource))
    )


def readable_with(resource: ResourceType, graph: Graph) -> list[ResourceType]:
    """Return the types a client must be allowed to read to see this type.

    That is itself, or for a history the types at its two ends. Of revisions, each client sees those
    of the types that it may read.
    """
    if resource.subject:
        return []
    return [graph[link.target] for link in resource.links] if resource.read_only else [resource]


def required_by_query(
    query: Query, scope: QueryScope, including: str = "include"
) -> Iterator[Requirement]:
    """Yield what the parameters require: to read each type that they include, count or filter by.

    including: the parameter that names the include paths.
    """
    graph, (_, relationships) = scope.graph, scope.start
    for included in _included(query.include or {}, relationships, graph):
        yield from _to_read(included, graph, including)
    for type_name, names in query.counts.items():
        for name in names:
            counted = graph[graph[type_name].relationships[name].target]
            yield from _to_read(counted, graph, WITH_COUNT)
    for name, condition in query.filters.items():
        for related in related_filters(condition):
            yield from _to_read(related.target, graph, name)
        for resource, stored_name in filtered_fields(condition, scope.resource):
            for linked in _linked_by(stored_name, resource, graph):
                yield from _to_read(linked, graph, name)
    for key in query.order:
        relationship = key.relationship
        owner = graph[relationship.target] if relationship else scope.resource
        for resource in (owner, *_linked_by(key.stored_name, owner, graph)):
            yield from _to_read(resource, graph, "sort")


def _to_read(resource: ResourceType, graph: Graph, parameter: str) -> Iterator[Requirement]:
    for readable in readable_with(resource, graph):
        yield Requirement(Action.READ, readable, parameter=parameter)


def required_by_feed(
    query: FeedQuery, readable: Collection[str], graph: Graph
) -> Iterator[Requirement]:
    """Yield what a follower requires: to read the types it names, or else any of `readable`."""
    if query.types is None and not readable:
        yield Requirement(Action.READ, None)
    for name in query.types or ():
        yield Requirement(Action.READ, graph[name], parameter=TYPES)


def required_by_change(change: Change, graph: Graph) -> Iterator[Requirement]:
    """Yield what relationships require: a link is part of both ends, so both types are written."""
    for linkage in change.linkages:
        position = DATA / "relationships" / linkage.relationship.name
        target = graph[linkage.relationship.target]
        yield Requirement(Action.WRITE, target, pointer=position)


def required_by_operations(operations: Sequence[Write], graph: Graph) -> Iterator[Requirement]:
    """Yield what operations require: to write their types and the types that they link to."""
    for index, operation in enumerate(operations):
        position = OPERATIONS_POINTER / index
        targets = (linkage.relationship.target for linkage in operation.change.linkages)
        for resource in (operation.resource, *(graph[target] for target in targets)):
            yield Requirement(Action.WRITE, resource, pointer=position)


def _included(
    include: Include, relationships: Mapping[str, Relationship], graph: Graph
) -> Iterator[ResourceType]:
    for name, further in include.items():
        if name in relationships:  # not the subject: who may not read it gets no such revision
            target = graph[relationships[name].target]
            yield target
            yield from _included(further, target.relationships, graph)


def _linked_by(stored_name: str, resource: ResourceType, graph: Graph) -> Iterator[ResourceType]:
    """Yield the type whose ids a stored field has, if it is a foreign key."""
    for link in resource.links:
        if link.foreign_key == stored_name:
            yield graph[link.target]
