"""The commands of a query: for records by their own fields, or joined with related ones."""

from collections.abc import Iterator, Mapping
from typing import Any

from registry.jsonapi.sorting import Order
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.storage.mongo.read_commands import Command
from registry.storage.reads.filter_queries import all_of
from registry.storage.reads.sort_keys import RELATED, Conditions, sort_document, split
from registry.storage.records import ONE_BATCH, Stage

_TARGET = "_target"
"""The field with the record of a related resource within the pipeline."""


class QueryCommands:
    """The commands that read records of a type, which may be too many for memory.

    order: of the query; it names all related fields that the commands sort by. projection: of the
    records.
    """

    def __init__(
        self, resource: ResourceType, graph: Graph, order: Order, projection: Mapping[str, Any]
    ) -> None:
        self._resource = resource
        self._graph = graph
        self._order = order
        self._projection = projection

    def find(self, conditions: Conditions, order: Order, **options: int) -> Command:
        """Return a command for the records in the order of their own fields.

        options: of the command, such as `limit`; without it, all records are found.
        """
        return {
            "find": self._resource.collection,
            "filter": all_of(conditions),
            "projection": self._projection,
            "sort": sort_document(order),
            "allowDiskUse": True,
            "batchSize": ONE_BATCH,
            **options,
        }

    def join(
        self,
        conditions: Conditions,
        order: Order,
        size: int = 0,
        offset: int = 0,
        batch_size: int = ONE_BATCH,
    ) -> Command:
        """Return a command that joins records with their targets, then sorts all of them.

        size: the maximum number of records, 0 for no limit.
        """
        own, related = split(conditions)
        stages: list[Stage] = [
            {"$match": all_of(own)},
            *self._lookups(),
            {"$match": all_of(related)},
            {"$sort": sort_document(order)},
            *([{"$skip": offset}] if offset else []),
            *([{"$limit": size}] if size else []),
            {"$project": self._projection},
        ]
        cursor = {"batchSize": batch_size}
        name = self._resource.collection
        return {"aggregate": name, "pipeline": stages, "cursor": cursor, "allowDiskUse": True}

    def _lookups(self) -> Iterator[Stage]:
        """Yield the stages that add the sort fields of each related resource."""
        for relationship in {key.relationship for key in self._order if key.relationship}:
            fields = [key.stored_name for key in self._order if key.relationship == relationship]
            # With a pipeline of its own, a `$lookup` takes seven times as long.
            lookup = {
                "from": self._graph[relationship.target].collection,
                "localField": relationship.foreign_key,
                "foreignField": "_id",
                "as": _TARGET,
            }
            yield {"$lookup": lookup}
            values = {field: {"$first": f"${_TARGET}.{field}"} for field in fields}
            yield {"$set": {f"{RELATED}.{relationship.name}": values, _TARGET: "$$REMOVE"}}
