"""Text search: finds the records that a filter `contains` may match, by the text blocks."""

from collections.abc import Callable, Sequence
from typing import Any

from registry.jsonapi.filtering import AllOf, AnyOf, Condition, Filter
from registry.model.attributes import Operator
from registry.model.record import TEXT_BLOCK
from registry.model.resource_type import ResourceType
from registry.model.stored_fields import ID
from registry.storage.mongo.read_commands import Command, RunCommand
from registry.storage.reads.filter_queries import match
from registry.storage.records import ONE_BATCH, Stage
from registry.storage.text_blocks import NO_BLOCK, collection_of, fold, has_text, matched_ids

MAX_OUTSIDE = 20_000
"""Records outside blocks that a search compares one by one. While there are more, which takes a
large import, the plans of MongoDB serve the filter."""

_MAX_IDS = 5_000
"""Ids that narrow a filter. Text that more records contain is found soon in any order."""

_SAMPLED_BLOCKS, _MAX_SAMPLED_IDS = 8, 10
"""Random blocks that are searched first. Text that they contain in so many records is common: then
searching all blocks would take longer than reading a page in the order of an index."""

_MAX_SEARCHES = 4
"""Searches per request: each reads all text blocks of a type."""

_MAX_LENGTH = 128
"""Folded characters that blocks are searched for; the filter itself compares all."""


class TextSearch:
    """The search for the filters of one request.

    run: of the collection of the type. on_outside: called with the number of records outside
    blocks, at most MAX_OUTSIDE + 1.
    """

    def __init__(
        self, resource: ResourceType, run: RunCommand, on_outside: Callable[[int], None]
    ) -> None:
        self._resource = resource
        self._run = run
        self._on_outside = on_outside
        self._searches_left = _MAX_SEARCHES

    async def narrowed(self, filters: Sequence[Filter]) -> Sequence[Filter]:
        """Return filters that match the same records, with the ids of candidates if these are few.

        They are the same filters where text is common. Raises PyMongoError.
        """
        return await self._narrow_one(tuple(filters))

    async def _narrow(self, condition: Filter) -> Filter:
        match condition:
            case Condition(operator=Operator.CONTAINS):
                ids = await self._search(condition)
                if ids is not None:
                    return AllOf((Condition(ID, Operator.IN, tuple(ids)), condition))
            case AllOf(parts):
                return AllOf(await self._narrow_one(parts))
            case AnyOf(parts) if sum(map(bool, map(_length, parts))) <= self._searches_left:
                return AnyOf(tuple([await self._narrow(part) for part in parts]))
        return condition

    async def _narrow_one(self, parts: tuple[Filter, ...]) -> tuple[Filter, ...]:
        """Narrow the part that probably matches the fewest records; one is enough for all."""
        longest = max(parts, key=_length, default=None)
        return tuple([await self._narrow(one) if one is longest else one for one in parts])

    async def _search(self, condition: Condition) -> list[Any] | None:
        """Return the ids of all records that may match, None if they are too many."""
        if not condition.value or not self._searches_left:
            return None
        self._searches_left -= 1
        name, part = condition.stored_name, fold(condition.value)[:_MAX_LENGTH]
        sample = [{"$sample": {"size": _SAMPLED_BLOCKS}}, *_ids(name, part, _MAX_SAMPLED_IDS)]
        if len(await self._run(self._in_blocks(sample))) == _MAX_SAMPLED_IDS:
            return None
        searched = self._in_blocks([*_ids(name, part, _MAX_IDS + 1), self._outside_count()])
        found = await self._run(searched)
        ids: list[Any] = [each["id"] for each in found if "id" in each]
        outside = sum(each.get("outside", 0) for each in found[-1:])
        self._on_outside(outside)
        if len(ids) > _MAX_IDS or outside > MAX_OUTSIDE:
            return None
        if outside:
            ids += [record[ID] for record in await self._run(self._outside_blocks(condition))]
        return ids if len(ids) <= _MAX_IDS else None

    def _in_blocks(self, stages: list[Stage]) -> Command:
        name = collection_of(self._resource)
        return {"aggregate": name, "pipeline": stages, "cursor": {"batchSize": ONE_BATCH}}

    def _outside_count(self) -> Stage:
        """Return the stage that appends how many records are outside blocks, if there are any."""
        limit, count = {"$limit": MAX_OUTSIDE + 1}, {"$count": "outside"}
        stages: list[Stage] = [{"$match": _OUTSIDE_BLOCKS}, limit, count]
        return {"$unionWith": {"coll": self._resource.collection, "pipeline": stages}}

    def _outside_blocks(self, condition: Condition) -> Command:
        return {
            "find": self._resource.collection,
            "filter": {**_OUTSIDE_BLOCKS, **match(condition)},
            "projection": {ID: True},
            "limit": _MAX_IDS + 1,
            "batchSize": ONE_BATCH,
        }


_OUTSIDE_BLOCKS = {TEXT_BLOCK: {"$in": [None, NO_BLOCK]}}


def _ids(name: str, part: str, limit: int) -> list[Stage]:
    """Return the stages that find ids in blocks, by the folded part of a text."""
    return [
        {"$match": has_text(name, part)},
        # Not a projection, which MongoDB would compute for many blocks before the limit.
        {"$set": {"id": matched_ids(name, part)}},
        {"$unwind": "$id"},
        {"$limit": limit},
        {"$project": {ID: False, "id": True}},
    ]


def _length(condition: Filter) -> int:
    """Return the length of the shortest text that a filter searches for, 0 if there is none."""
    match condition:
        case Condition(operator=Operator.CONTAINS, value=str(text)):
            return len(text)
        case AllOf(parts) | AnyOf(parts):
            return min(filter(None, map(_length, parts)), default=0)
    return 0
