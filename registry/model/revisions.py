"""Revisions: the type of the resources that tell what each write has changed."""

from collections.abc import Iterable
from typing import Any

from marshmallow.fields import Field

from registry.model.attributes import Kind
from registry.model.base_schema import RecordSchema
from registry.model.fields import DateTime, Enumeration
from registry.model.implicit_attributes import PrincipalName, unindexed
from registry.model.record import Record
from registry.model.resource_type import Link, ResourceType

REVISION, REVISIONS = "revision", "revisions"
"""The type, and its collection, which is also the relationship of the resources that changed."""

AT, AUTHOR, ACTION, BEFORE, AFTER = "at", "author", "action", "before", "after"

CREATED, UPDATED, DELETED = "created", "updated", "deleted"
"""The values of `action`."""


class _Values(Field[Any]):
    """The values of what a write has changed, in JSON; a link is a resource identifier."""

    kind = Kind(
        stored_type=dict,
        expected="an object",
        schema={"type": "object"},
        example={"email": "grace.hopper@example.com"},
        operators=(),
    )


class RevisionSchema(RecordSchema):
    """The attributes of revisions."""

    # One index expires them by their time.
    at = DateTime(dump_only=True, metadata=unindexed("When the resource was written."))
    author = PrincipalName("Who made the change")
    action = Enumeration(
        *(CREATED, UPDATED, DELETED),
        dump_only=True,
        metadata=unindexed("What the write has done."),
    )
    before = _Values(dump_only=True, metadata=unindexed("What it has changed, before."))
    after = _Values(dump_only=True, metadata=unindexed("The same, after it."))


def revision_type(resources: Iterable[ResourceType]) -> ResourceType:
    """Return the type of the revisions of some types, with a link to each, of which it has one."""
    links = (
        # MongoDB removes those that expire, so no number of them would stay right.
        Link(name, each.type, foreign_key=name, inverse=REVISIONS, is_counted=False)
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
