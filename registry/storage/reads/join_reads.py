"""The reads of a join: of records, and of the targets of one of their to-one relationships."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from registry.jsonapi.sorting import BY_ID, Key, Order
from registry.model.record import Record
from registry.model.resource import Relationship, Resource
from registry.storage.reads.bounded_sorts import Find
from registry.storage.reads.commands import Command, RunCommand
from registry.storage.reads.filter_queries import all_of
from registry.storage.reads.sort_keys import (
    RELATED,
    Conditions,
    accepts_null,
    sort_document,
    split,
)
from registry.storage.records import ONE_BATCH, Stage, key_of
from registry.storage.visible_fields import only


@dataclass(frozen=True, slots=True)
class JoinConditions:
    """Conditions on records themselves, and on the fields of their targets."""

    own: Conditions
    related: Conditions

    @property
    def all(self) -> Conditions:
        """All conditions, for records that have been joined."""
        return [*self.own, *self.related]

    @property
    def includes_untargeted(self) -> bool:
        """Whether records without a target satisfy the conditions on fields of the target."""
        return all(accepts_null(one) for condition in self.related for one in condition.values())

    def where(self, *conditions: Mapping[str, Any]) -> Self:
        """Return these conditions and further ones."""
        own, related = split(conditions)
        return replace(self, own=[*self.own, *own], related=[*self.related, *related])


@dataclass(frozen=True)
class JoinReads:
    """Reads of records of a type and of their targets, all at one point in time.

    find: finds records without joining any. sort_all: joins all records that satisfy conditions,
    then sorts them. run: executes a command. projection: of the records. All raise PyMongoError.
    """

    resource: Resource
    relationship: Relationship
    target: Resource
    projection: Mapping[str, Any]
    find: Find
    sort_all: Find
    run: RunCommand

    @property
    def path(self) -> str:
        """The path of the fields of the target in a joined record."""
        return f"{RELATED}.{self.relationship.name}"

    async def are_more(self, limit: int, conditions: Conditions) -> bool:
        """Whether more records than a limit satisfy the conditions."""
        sort = {} if conditions else {"sort": {"_id": 1}}
        command = self._command(
            self.resource.collection, conditions, only(()), skip=limit, limit=1, **sort
        )
        return bool(await self.run(command))

    async def count(self, limit: int, conditions: Conditions) -> int:
        """Return how many records satisfy the conditions, at most a limit."""
        pipeline = [{"$match": all_of(conditions)}, {"$limit": limit}, {"$count": "count"}]
        found = await self.run(
            {"aggregate": self.resource.collection, "pipeline": pipeline, "cursor": {}}
        )
        return found[0]["count"] if found else 0

    async def find_targets(
        self, conditions: JoinConditions, projection: Mapping[str, Any], **options: Any
    ) -> list[Record]:
        """Return the targets of records. options: those of the command."""
        query = self.on_targets(conditions)
        return await self.run(self._command(self.target.collection, query, projection, **options))

    async def find_linked(
        self, conditions: JoinConditions, targets: Sequence[Record], order: Order, limit: int
    ) -> list[Record] | None:
        """Find at most so many records by the index of the foreign key, and join them with targets.

        targets: in an order that continues by the ids of records, all in one direction. None if an
        external writer stored an id that is not an integer: MongoDB and Python may compare it
        differently, and an array links to several targets.
        """
        name, descending = self.relationship.foreign_key, order[0].descending
        linked = conditions.where({name: {"$in": [target["_id"] for target in targets]}})
        by_key = (Key(name, descending), Key(BY_ID[0].stored_name, descending))
        records = await self.find(linked.own, by_key, limit, 0)
        if not (_are_keys(targets, "_id") and _are_keys(records, name)):
            return None
        groups = defaultdict[int | None, list[Record]](list)
        for record in records:
            groups[key_of(record, name)].append(record)
        return [
            {**record, RELATED: {self.relationship.name: target}}
            for target in targets
            for record in groups.pop(key_of(target, "_id"), ())
        ]

    def on_targets(self, conditions: JoinConditions) -> Conditions:
        """Return the conditions on the targets of the records."""
        related = [
            {path.removeprefix(f"{self.path}."): one for path, one in condition.items()}
            for condition in conditions.related
        ]
        keys = [
            {"_id": condition[self.relationship.foreign_key]}
            for condition in conditions.own
            if condition.keys() == {self.relationship.foreign_key}
        ]
        return [*related, *keys]

    async def sort_some(
        self,
        conditions: JoinConditions,
        order: Order,
        limit: int,
        *last: Stage,
        join: Stage | None = None,
    ) -> list[Record]:
        """Find at most so many records by the index of the foreign key, then sort them.

        join: the stage that adds the related fields. last: stages after the sort.
        """
        pipeline: list[Stage] = [
            {"$match": all_of(conditions.own)},
            {"$sort": {self.relationship.foreign_key: 1, "_id": 1}},
            {"$limit": limit},
            *([join] if join else []),
            {"$sort": sort_document(order)},
            *last,
            {"$project": self.projection},
        ]
        cursor = {"batchSize": ONE_BATCH}
        command = {"aggregate": self.resource.collection, "pipeline": pipeline, "cursor": cursor}
        return await self.run(command)

    def _command(
        self, collection: str, query: Conditions, projection: Mapping[str, Any], **options: Any
    ) -> Command:
        return {
            "find": collection,
            "filter": all_of(query),
            "projection": projection,
            "batchSize": ONE_BATCH,
            **options,
        }


def _are_keys(records: Sequence[Record], field: str) -> bool:
    """Whether a field has only integers, and null."""
    return all(key_of(record, field) is not None or record.get(field) is None for record in records)
