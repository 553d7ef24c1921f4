"""Snapshots: reads that all show the database at one point in time."""

from collections.abc import Collection, Mapping, Sequence

from registry.jsonapi.filtering import Condition
from registry.jsonapi.query import Query
from registry.model.attributes import Operator
from registry.model.record import Record
from registry.model.resource_type import Relationship, ResourceType
from registry.storage.errors import RecordNotFound
from registry.storage.mongo.read_commands import PointInTime
from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.listings import Listing
from registry.storage.reads.lookups import Lookups
from registry.storage.reads.read_context import ReadContext
from registry.storage.visible_fields import fields_of, visible_fields


class Snapshot:
    """The resources at one point in time, for one document.

    The time is that of the write to show, if there is one. Otherwise the first read determines it,
    and the snapshot has every write acknowledged before that read. The methods raise Unavailable,
    also when the snapshot is older than MongoDB keeps them (five minutes by default).
    """

    __slots__ = ("_context", "_lookups", "_point")

    def __init__(self, lookups: Lookups, context: ReadContext, point: PointInTime) -> None:
        self._lookups = lookups
        self._context = context
        self._point = point

    async def get(self, resource: ResourceType, id_: int) -> Record:
        """Return the record with this id. Raises RecordNotFound or BulkheadFull."""
        fields = visible_fields(resource)
        async with self._context.bulkheads.small_requests:
            records = await self._lookups.find(resource, "_id", (id_,), fields, self._point)
        if not records:
            raise RecordNotFound.by_id(resource.type, id_)
        return records[0]

    async def find(
        self, resource: ResourceType, field: str, ids: Collection[int], attributes: frozenset[str]
    ) -> list[Record]:
        """Return the records in which the field has one of the ids, by ascending `_id`.

        attributes: the names of the attributes to return.
        """
        fields = fields_of(resource, attributes)
        return await self._lookups.find(resource, field, ids, fields, self._point)

    async def find_first(
        self,
        resource: ResourceType,
        relationship: Relationship,
        ids: Sequence[int],
        limit: int,
        attributes: frozenset[str],
    ) -> list[Record]:
        """Return the first members, by ascending id, of a to-many relationship of each resource.

        limit: members per resource. attributes: the names of the attributes to return.
        """
        return await self._lookups.find_first(
            resource, relationship, ids, limit, attributes, self._point
        )

    def listing(
        self, resource: ResourceType, query: Query, within: Mapping[str, int] | None = None
    ) -> Listing:
        """Return the collection for a query. within: values of stored fields, by field."""
        common = (Condition(field, Operator.EQ, key) for field, key in (within or {}).items())
        filters = [*common, *query.filters]
        return Listing(
            self._context, CollectionQuery(self._context, resource, filters, query, self._point)
        )
