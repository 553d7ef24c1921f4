"""What conditions can name: the fields of a type, and of related resources by their paths."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from registry.jsonapi.error_details import quoted
from registry.jsonapi.filter_errors import InvalidFilter
from registry.jsonapi.filtering import Filter, Related
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.model.stored_fields import StoredField, attribute_fields, stored_fields


@dataclass(frozen=True, slots=True)
class FilterScope:
    """What conditions can name. relationships: none in the conditions on related resources."""

    fields: Mapping[str, StoredField]
    relationships: Mapping[str, Relationship]
    graph: Graph

    @classmethod
    def of(cls, resource: ResourceType, graph: Graph) -> Self:
        """Return the scope of the conditions on resources of a type."""
        return cls(stored_fields(resource), resource.relationships, graph)

    def related(self, relationship: Relationship) -> "FilterScope":
        """Return the scope of the conditions on related resources."""
        return FilterScope(attribute_fields(self.graph[relationship.target]), {}, self.graph)

    def paths(self) -> dict[str, tuple[StoredField, Relationship]]:
        """Return the fields of related resources by path, with the relationship."""
        return {
            f"{name}.{field.name}": (replace(field, name=f"{name}.{field.name}"), relationship)
            for name, relationship in self.relationships.items()
            for field in self.related(relationship).fields.values()
        }

    def filter(self, part: Filter, relationship: Relationship | None) -> Filter:
        """Return the filter by related resources that satisfy the part; the part if None."""
        if relationship is None:
            return part
        return Related(relationship, self.graph[relationship.target], part)

    def find(self, name: str) -> tuple[StoredField, Relationship | None]:
        """Return the field with this name, and the relationship if it is a path.

        Raises InvalidFilter below `name` if there is no such field.
        """
        if name in self.fields:
            return self.fields[name], None
        paths = self.paths()
        if name in paths:
            return paths[name]
        detail = f"Unknown filter field {quoted(name)}; available: {quoted(*self.fields, *paths)}."
        raise InvalidFilter(detail, "name")


def related_fields(resource: ResourceType, graph: Graph) -> list[StoredField]:
    """Return the fields of related resources that conditions can name, such as `owner.email`."""
    return [field for field, _ in FilterScope.of(resource, graph).paths().values()]
