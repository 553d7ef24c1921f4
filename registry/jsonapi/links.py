"""Relative URLs of resources and relationships (JSON:API 1.0, Links)."""

from registry.model.resource_type import ResourceType


def collection_path(resource: ResourceType) -> str:
    """Return the path of the collection of a type, `/persons`."""
    return f"/{resource.collection}"


def resource_path(resource: ResourceType, identifier: int | str) -> str:
    """Return the path of one resource, `/persons/1`."""
    return f"/{resource.collection}/{identifier}"


def relationship_path(resource: ResourceType, identifier: int | str, name: str) -> str:
    """Return the path of resource linkage, `/persons/1/relationships/computers`."""
    return f"/{resource.collection}/{identifier}/relationships/{name}"


def related_path(resource: ResourceType, identifier: int | str, name: str) -> str:
    """Return the path of the related resources, `/persons/1/computers`."""
    return f"/{resource.collection}/{identifier}/{name}"


def relationship_links(resource: ResourceType, identifier: int | str, name: str) -> dict[str, str]:
    """Return the links of a relationship object, `self` and `related`."""
    path = resource_path(resource, identifier)
    return {"self": f"{path}/relationships/{name}", "related": f"{path}/{name}"}
