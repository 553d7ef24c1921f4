"""Filters: conditions on the resources of a type, and combinations of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from registry.model.attributes import Operator
from registry.model.resource_type import Relationship, ResourceType

Filter: TypeAlias = "Condition | Related | AllOf | AnyOf | Not"


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a stored field with a value as in a record.

    value: a tuple for IN, text for PREFIX and CONTAINS. Only EQ, NE and IN take null.
    """

    stored_name: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class Related:
    """Matches if the part matches a related resource: any of them if the relationship is to-many.

    So it never matches a resource without related ones. target: the type of the related resources.
    There is no other Related in the part.
    """

    relationship: Relationship
    target: ResourceType
    part: Filter


@dataclass(frozen=True, slots=True)
class AllOf:
    """Matches if every part does; always if there are none."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Matches if at least one part does. There is at least one."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Matches if the part does not."""

    part: Filter


def conjuncts(filters: Iterable[Filter]) -> Iterator[Filter]:
    """Yield the parts of filters that all have to match, none of which is an AllOf."""
    for part in filters:
        if isinstance(part, AllOf):
            yield from conjuncts(part.parts)
        else:
            yield part


def related_filters(condition: Filter) -> Iterator[Related]:
    """Yield the conditions on related resources that a filter contains."""
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from related_filters(part)
        case Not(part):
            yield from related_filters(part)
        case Related():
            yield condition


def names_related(condition: Filter) -> bool:
    """Return whether a filter contains conditions on related resources."""
    return any(True for _ in related_filters(condition))


def filtered_fields(
    condition: Filter, resource: ResourceType
) -> Iterator[tuple[ResourceType, str]]:
    """Yield the type and the stored name of each field that a filter compares, as often as it does.

    resource: the type of the resources to filter.
    """
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from filtered_fields(part, resource)
        case Not(part):
            yield from filtered_fields(part, resource)
        case Related(target=target, part=part):
            yield from filtered_fields(part, target)
        case Condition(stored_name):
            yield resource, stored_name
        case _:
            assert_never(condition)
