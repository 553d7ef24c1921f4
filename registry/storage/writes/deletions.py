"""Deletion of a resource and the links to it."""

from registry.model.record import Record
from registry.model.resource import Relationship, Resource
from registry.storage.errors import VersionConflict
from registry.storage.records import Stage, Versions, id_filter, key_of, next_version
from registry.storage.transactions import Transaction
from registry.storage.visible_fields import visible


async def delete(
    transaction: Transaction, resource: Resource, id_: int, versions: Versions = None
) -> Record | None:
    """Delete a resource and all links to it; return its last record, None if there is none.

    The versions of related resources are incremented. Raises PyMongoError, or VersionConflict if
    the record has none of the versions.
    """
    collection, session = transaction.collection(resource), transaction.session
    record: Record | None = await collection.find_one_and_delete(
        id_filter(id_, versions), visible(resource), session=session
    )
    if record is not None:
        for relationship in resource.relationships.values():
            await _unlink(transaction, relationship, record)
    elif versions is not None and await collection.find_one(
        {"_id": id_}, {"_id": True}, session=session
    ):
        raise VersionConflict
    return record


async def _unlink(transaction: Transaction, relationship: Relationship, record: Record) -> None:
    """Unlink related resources."""
    field, change = relationship.foreign_key, next_version({})
    if relationship.to_many:
        query: Record = {field: record["_id"]}
        update: Stage = {field: None, **change}
    elif (target := key_of(record, field)) is not None:
        query, update = {"_id": target}, change
    else:
        return
    targets = transaction.collection(transaction.graph[relationship.target])
    await targets.update_many(query, [{"$set": update}], session=transaction.session)
