"""Filters -> MongoDB queries, with the ids of candidates that text blocks find for `contains`."""

import re
from collections.abc import Sequence
from typing import Any, assert_never

from registry.jsonapi.filtering import AllOf, AnyOf, Condition, Filter, Not, Related
from registry.model.attributes import Operator
from registry.model.record import ID, TEXT_BLOCK
from registry.model.resource_type import ResourceType
from registry.storage.mongo.read_commands import aggregate_command, find_command
from registry.storage.reads.snapshot import Snapshot
from registry.storage.records import Stage, searched_names
from registry.storage.text_blocks import (
    NO_BLOCK,
    collection_of,
    fold,
    has_text,
    matched_ids,
)

_OPERATORS = {
    Operator.EQ: "$eq",
    Operator.NE: "$ne",
    Operator.LT: "$lt",
    Operator.LE: "$lte",
    Operator.GT: "$gt",
    Operator.GE: "$gte",
    Operator.IN: "$in",
}

_MAX_OUTSIDE = 20_000
"""Records outside blocks that a search compares one by one. While there are more, as after a large
import, MongoDB's own plans serve the filter."""

_MAX_CANDIDATES = 5_000
"""Ids that are added to a filter. A text in more records is soon found in any order."""

_SAMPLED_BLOCKS, _MAX_SAMPLED_IDS = 8, 10
"""Random blocks that are searched first, and the records in them that make a text common: searching
all blocks for it would take longer than reading a page in the order of an index."""

_MAX_SEARCHES = 4
"""Searches per request: each reads all text blocks of a type."""

_OUTSIDE_BLOCKS = {TEXT_BLOCK: {"$in": [None, NO_BLOCK]}}
"""The query for records outside blocks."""

_MAX_CHARACTER, _SURROGATES = "\U0010ffff", range(0xD800, 0xE000)


def to_query(condition: Filter) -> dict[str, Any]:
    """Return the query for records that satisfy a filter, which names no related resources.

    A missing field equals null. Text is compared by code point; `contains` ignores case, letter by
    letter: `É` equals `é`, but `ß` does not equal `ss`. Of letters newer than Unicode 3.2, such as
    `Ა` and `ა` (Georgian), the version of MongoDB determines whether they are equal.
    """
    match condition:
        case AllOf(parts):
            return {"$and": [to_query(part) for part in parts]} if parts else {}
        case AnyOf(parts):
            return {"$or": [to_query(part) for part in parts]}
        case Not(part):
            return {"$nor": [to_query(part)]}
        case Condition():
            return {condition.stored_name: _comparison(condition)}
        case Related(relationship):
            raise TypeError(f"a condition on {relationship.name}, which is another collection")
    assert_never(condition)


def _comparison(condition: Condition) -> dict[str, Any]:
    # Always below an operator: a value that looks like one would be interpreted.
    match condition:
        case Condition(operator=Operator.PREFIX, value=str(prefix)):
            return _prefix_range(prefix)
        case Condition(operator=Operator.CONTAINS, value=str(text)):
            # A BSON pattern ends at NUL.
            return {"$regex": re.escape(text).replace("\0", r"\x00"), "$options": "i"}
    return {_OPERATORS[condition.operator]: condition.value}


def _prefix_range(prefix: str) -> dict[str, str]:
    """Return a range: an index serves it for every prefix, but a pattern only for some."""
    significant = prefix.rstrip(_MAX_CHARACTER)
    if not significant:
        return {"$gte": prefix}  # no greater text has another prefix
    following = ord(significant[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return {"$gte": prefix, "$lt": significant[:-1] + chr(following)}


class TextSearch:
    """The search for the filters of one request."""

    def __init__(self, resource: ResourceType, snapshot: Snapshot) -> None:
        self._resource = resource
        self._snapshot = snapshot
        self._searches_left = _MAX_SEARCHES

    async def with_candidates(self, filters: Sequence[Filter]) -> tuple[Filter, ...]:
        """Return filters that match the same records, with the ids of candidates if these are few.

        They are added to the filter that probably matches the fewest records; one is enough for
        all. Where text is common, the filters stay as they are. Raises PyMongoError.
        """
        longest = max(filters, key=_length, default=None)
        return tuple([await self._add_ids(one) if one is longest else one for one in filters])

    async def _add_ids(self, condition: Filter) -> Filter:
        match condition:
            case Condition(operator=Operator.CONTAINS):
                ids = await self._search(condition)
                if ids is not None:
                    return AllOf((Condition(ID, Operator.IN, tuple(ids)), condition))
            case AllOf(parts):
                return AllOf(await self.with_candidates(parts))
            case AnyOf(parts) if sum(map(bool, map(_length, parts))) <= self._searches_left:
                return AnyOf(tuple([await self._add_ids(part) for part in parts]))
        return condition

    async def _search(self, condition: Condition) -> list[Any] | None:
        """Return the ids of all records that may match, None if they are too many."""
        is_searched = condition.stored_name in searched_names(self._resource)
        if not condition.value or not self._searches_left or not is_searched:
            return None
        self._searches_left -= 1
        name, part = condition.stored_name, fold(condition.value)
        blocks, sampled = collection_of(self._resource), {"$sample": {"size": _SAMPLED_BLOCKS}}
        sample = aggregate_command(blocks, [sampled, *_id_stages(name, part, _MAX_SAMPLED_IDS)])
        if len(await self._snapshot.run(sample)) == _MAX_SAMPLED_IDS:
            return None
        stages = [*_id_stages(name, part, _MAX_CANDIDATES + 1), self._outside_count()]
        found = await self._snapshot.run(aggregate_command(blocks, stages))
        ids: list[Any] = [each["id"] for each in found if "id" in each]
        outside = sum(each.get("outside", 0) for each in found[-1:])
        if len(ids) > _MAX_CANDIDATES or outside > _MAX_OUTSIDE:
            return None
        if outside:
            query, shown = {**_OUTSIDE_BLOCKS, **to_query(condition)}, {ID: True}
            limit = _MAX_CANDIDATES + 1
            command = find_command(self._resource.collection, query, shown, limit=limit)
            ids += [record[ID] for record in await self._snapshot.run(command)]
        return ids if len(ids) <= _MAX_CANDIDATES else None

    def _outside_count(self) -> Stage:
        """Return the stage that appends how many records are outside blocks, if there are any."""
        limit, count = {"$limit": _MAX_OUTSIDE + 1}, {"$count": "outside"}
        stages: list[Stage] = [{"$match": _OUTSIDE_BLOCKS}, limit, count]
        return {"$unionWith": {"coll": self._resource.collection, "pipeline": stages}}


def _id_stages(name: str, part: str, limit: int) -> list[Stage]:
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
