"""Operations of JSON:API Atomic Operations, as Python objects for JSON."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from registry.transfer.rows import COMPUTER, OWNER, Attributes

Operation: TypeAlias = Mapping[str, Any]

ResourceIdentifier: TypeAlias = Mapping[str, str]
"""Refers to a resource: `type` and `id`, or `lid` for one that an earlier operation adds."""


def identifier(type_name: str, id_: str) -> ResourceIdentifier:
    """Return the identifier of a stored resource."""
    return {"type": type_name, "id": id_}


def local_identifier(type_name: str, lid: str) -> ResourceIdentifier:
    """Return the identifier of a resource that the same request adds."""
    return {"type": type_name, "lid": lid}


def add_person(person: ResourceIdentifier, attributes: Attributes) -> Operation:
    """Return the operation that creates a person. person: a local identifier."""
    return {"op": "add", "data": {**person, "attributes": attributes}}


def update_person(person: ResourceIdentifier, attributes: Attributes) -> Operation:
    """Return the operation that changes attributes of a person."""
    return {"op": "update", "data": {**person, "attributes": attributes}}


def add_computer(
    attributes: Attributes, owner: ResourceIdentifier | None, lid: str = ""
) -> Operation:
    """Return the operation that creates a computer. lid: if later operations refer to it."""
    computer: dict[str, Any] = {"type": COMPUTER, "attributes": attributes}
    if lid:
        computer["lid"] = lid
    if owner is not None:
        computer["relationships"] = {OWNER: {"data": owner}}
    return {"op": "add", "data": computer}


def set_owner(computer: ResourceIdentifier, owner: ResourceIdentifier | None) -> Operation:
    """Return the operation that sets or removes the owner of a computer."""
    return {"op": "update", "ref": {**computer, "relationship": OWNER}, "data": owner}


def remove(resource: ResourceIdentifier) -> Operation:
    """Return the operation that deletes a stored resource."""
    return {"op": "remove", "ref": resource}
