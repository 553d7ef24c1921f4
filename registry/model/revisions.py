"""Revisions: the type of the resources that tell what each write has changed."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from marshmallow.fields import Field

from registry.model.attributes import Kind
from registry.model.base_schema import RecordSchema
from registry.model.fields import DateTime, Enumeration
from registry.model.implicit_attributes import PrincipalName
from registry.model.record import Record
from registry.model.resource_type import Link, ResourceType

REVISION, REVISIONS = "revision", "revisions"
"""The type, and its collection, which is also the relationship of the resources that changed."""

AT, AUTHOR, ACTION, BEFORE, AFTER = "at", "author", "action", "before", "after"

CREATED, UPDATED, DELETED = "created", "updated", "deleted"
"""The values of `action`."""


class _Time(DateTime):
    """When a resource was written. The index that expires revisions serves its filters."""

    kind = replace(DateTime.kind, is_indexed=False)


class _Action(Enumeration):
    """What a write has done; no index, as each costs every write."""

    def __init__(self, **options: Any) -> None:
        super().__init__(CREATED, UPDATED, DELETED, **options)
        self.kind = replace(self.kind, is_indexed=False)


class _Values(Field[Any]):
    """The values of what a write has changed, in JSON; a link is a resource identifier."""

    kind = Kind(
        stored_type=dict,
        expected="an object",
        schema={"type": "object"},
        example={"email": "grace.hopper@example.com"},
        operators=(),
    )


_AUTHOR = "Who did: the name of an access token, or `issuer#subject` of a JWT; null if not known."


class RevisionSchema(RecordSchema):
    """The attributes of revisions."""

    at = _Time(dump_only=True, metadata={"description": "When the resource was written."})
    author = PrincipalName(dump_only=True, allow_none=True, metadata={"description": _AUTHOR})
    action = _Action(dump_only=True, metadata={"description": "What the write has done."})
    before = _Values(dump_only=True, metadata={"description": "What it has changed, before."})
    after = _Values(dump_only=True, metadata={"description": "The same, after it."})


def revision_type(resources: Iterable[ResourceType]) -> ResourceType:
    """Return the type of the revisions of some types, with a link to each, of which it has one."""
    links = (
        Link(name=name, target=each.type, foreign_key=name, inverse=REVISIONS)
        for each in resources
        for name in [f"resource_{each.type}"]
    )
    return ResourceType(REVISION, REVISIONS, RevisionSchema, tuple(links), subject="resource")


def subject_of(resource_type: ResourceType, record: Record) -> tuple[str, int] | None:
    """Return the type and the id of the resource whose revision this is.

    None if the type is not declared any more.
    """
    for link in resource_type.links:
        if (id_ := record.get(link.foreign_key)) is not None:
            return link.target, id_
    return None
