"""Examples of request bodies, which Swagger UI sends unless the user edits them.

The other examples follow from the schemas. These leave relationships out: to link the resource with
the id 1 would take it from another one.
"""

import csv
from collections.abc import Iterable
from io import StringIO

from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.openapi.schemas import Json
from registry.protocol import OPERATIONS


def creation(resource_type: ResourceType) -> Json:
    """Return the document that creates a resource."""
    return {"data": _resource(resource_type, resource_type.writable)}


def rows(resource_type: ResourceType) -> str:
    """Return a CSV file that creates a resource."""
    attributes, file = creation(resource_type)["data"]["attributes"], StringIO()
    writer = csv.writer(file)
    writer.writerows([attributes.keys(), attributes.values()])
    return file.getvalue()


def update(resource_type: ResourceType) -> Json:
    """Return a document that changes one attribute."""
    return {"data": _resource(resource_type, [*resource_type.writable][:1], id="1")}


def linkage(relationship: Relationship) -> Json:
    """Return a document that changes a relationship."""
    identifier = {"type": relationship.target, "id": "1"}
    return {"data": [identifier] if relationship.to_many else identifier}


def operations(graph: Graph) -> Json:
    """Return a document that adds a resource of each type, and links them."""
    members: list[Json] = []
    for resource_type in graph.writable:
        data = _resource(resource_type, resource_type.writable) | _local(resource_type.type)
        members.append({"op": "add", "data": data})
    for resource_type in graph.writable:
        for link in resource_type.links:
            ref = {**_local(resource_type.type), "relationship": link.name}
            members.append({"op": "update", "ref": ref, "data": _local(link.target)})
    return {OPERATIONS: members}


def _local(type_name: str) -> Json:
    return {"type": type_name, "lid": f"new-{type_name}"}


def _resource(resource_type: ResourceType, names: Iterable[str], **identity: str) -> Json:
    attributes = {name: resource_type.writable[name].example for name in names}
    return {"type": resource_type.type, **identity, "attributes": attributes}
