"""Computed fields that external writers have left out, which queries need for their indexes."""

from collections.abc import Iterator
from functools import partial

from registry.capacity import SHARING_CALLERS
from registry.jsonapi.filtering import filtered_fields
from registry.jsonapi.query import Query
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.storage.errors import translated_errors
from registry.storage.mongo.batching import Coalescer
from registry.storage.mongo.mongo_client import Database
from registry.storage.records import recompute

_BATCH_SIZE = 10_000
"""Records per update."""


class ComputedFields:
    """The computed fields of stored records."""

    def __init__(self, database: Database, graph: Graph) -> None:
        self._database = database
        self._graph = graph
        self._completions = Coalescer[None](name="recomputations", max_callers=SHARING_CALLERS)

    async def recompute_missing(self, resource: ResourceType) -> None:
        """Store the computed fields of records that have none. Raises PyMongoError."""
        collection = self._database[resource.collection]
        for field in resource.computed:
            while records := await collection.find({field: None}, {"_id": True}).to_list(
                _BATCH_SIZE
            ):
                ids = [record["_id"] for record in records]
                await collection.update_many({"_id": {"$in": ids}}, recompute(resource))

    async def recompute_for(self, resource: ResourceType, query: Query) -> None:
        """Recompute missing fields of the types that a query filters or sorts by them.

        Raises Unavailable.
        """
        named = self._named_fields(resource, query)
        for each in {each for each, name in named if name in each.computed}:
            with translated_errors():
                await self._completions.load(each.type, partial(self.recompute_missing, each))

    def _named_fields(
        self, resource: ResourceType, query: Query
    ) -> Iterator[tuple[ResourceType, str]]:
        """Yield the type and the field of each part of the filters and the order of a query."""
        for part in query.filters:
            yield from filtered_fields(part, resource)
        for key in query.order:
            target = key.relationship and self._graph[key.relationship.target]
            yield target or resource, key.stored_name
