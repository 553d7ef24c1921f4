"""Records: the stored form of resources, and what is asked of MongoDB to read and write them."""

from __future__ import annotations

from typing import Any, TypeAlias

from registry.jsonapi.payload import Change
from registry.resource import VERSION, Linked, Record, Resource

Versions: TypeAlias = frozenset[int] | None
"""The versions of which a record has to have one in order to be written; None for any."""

Stage: TypeAlias = dict[str, Any]
"""A stage of an aggregation pipeline."""

NEXT_VERSION = {VERSION: {"$add": [{"$cond": [{"$isNumber": f"${VERSION}"}, f"${VERSION}", 0]}, 1]}}
"""The version after the present one; other tools may have stored none."""


def new_record(resource: Resource, number: int, change: Change) -> Record:
    """Return the record of a resource that a request creates."""
    record = {
        "_id": number,
        **resource.hidden,
        **{link.column: None for link in resource.links},
        **change.attributes,
        **keys(change),
        VERSION: 1,
    }
    return record | {name: text.join(record) for name, text in resource.joined.items()}


def visible(resource: Resource) -> dict[str, bool] | None:
    """Return the projection by which hidden fields never leave the database."""
    return dict.fromkeys(resource.hidden, False) or None


def hiding(resource: Resource) -> list[Stage]:
    """Return what does the same at the end of a pipeline."""
    return [{"$unset": list(resource.hidden)}] if resource.hidden else []


def chosen(number: int, versions: Versions) -> dict[str, Any]:
    """Return the query of the record with this id, if it has one of the versions.

    The version of a record that has none is 0.
    """
    if versions is None:
        return {"_id": number}
    return {"_id": number, VERSION: {"$in": [*versions, *([None] if 0 in versions else [])]}}


def keys(change: Change) -> dict[str, Linked]:
    """Return the keys that the to-one linkages set on the record itself."""
    return {
        linkage.relationship.column: linkage.linked
        for linkage in change.linkages
        if not linkage.relationship.to_many
    }


def changes(resource: Resource, change: Change) -> list[Stage]:
    """Return the update of a record. A literal is no operator, whatever a client has sent."""
    values = change.attributes | keys(change)
    literals = {name: {"$literal": value} for name, value in values.items()}
    return [{"$set": literals | NEXT_VERSION}, *joining(resource)]


def joining(resource: Resource) -> list[Stage]:
    """Return the update that makes the joined fields anew; none for a type that has none."""
    joined = {name: _concatenation(text.parts) for name, text in resource.joined.items()}
    return [{"$set": joined}] if joined else []


def _concatenation(parts: tuple[str, ...]) -> Stage:
    texts: list[Any] = []
    for part in parts:
        text = {"input": f"${part}", "to": "string", "onError": "", "onNull": ""}
        texts += [" ", {"$convert": text}]
    return {"$concat": texts[1:]}
