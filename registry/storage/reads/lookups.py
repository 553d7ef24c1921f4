"""Look-ups of records by id or key, which requests in flight make together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher
from registry.storage.client import answering_unavailable
from registry.storage.commands import Commands
from registry.storage.projections import only
from registry.storage.records import RECORDS_A_REPLY, Stage, by_id, key_of

_Values: TypeAlias = "Collection[int]"
_Columns: TypeAlias = "tuple[str, ...]"
_Asked: TypeAlias = "tuple[_Values, _Columns]"

_OF_ONE = 256, 2
"""How many look-ups of one value each leave together, and how many trips may be under way: while
the service shows what one has found, the database looks for what another wants."""

_OF_SEVERAL = 12, 3
"""The same of those of several; what more of them find no longer fits in a processor's cache."""

_VALUES_TO_SHARE = 1_000
"""A look-up of more than these goes alone, or it would hold up those of few."""

_VALUES_A_QUERY = 100_000
"""A query document is limited to 16 MiB; an id takes up to 16 bytes of it."""


@dataclass(frozen=True, slots=True)
class Members:
    """The first so many resources of a type that hold the id of another in a field of theirs.

    columns: the stored fields to find of each.
    """

    resource: Resource
    field: str
    most: int
    columns: _Columns

    def lookup(self) -> Stage:
        """Return the `$lookup` that finds them for each record."""
        first: list[Stage] = [{"$sort": {"_id": 1}}, {"$limit": self.most}]
        return {
            "from": self.resource.collection,
            "localField": "_id",
            "foreignField": self.field,
            "pipeline": [*first, {"$project": only(self.columns)}],
            "as": "members",
        }


class Lookups:
    """The look-ups of one database. Its methods raise Unavailable if that does not answer."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._shared: dict[tuple[str, str, bool], Batcher[_Asked, list[Record]]] = {}

    async def find(
        self, resource: Resource, field: str, values: _Values, columns: _Columns
    ) -> list[Record]:
        """Return the records in which the field has one of the values, by rising id.

        columns: the stored fields that they need to have, and the field among them or the id. The
        records are those of other requests too: nobody may change them, and they may have more.
        """
        if len(values) > _VALUES_TO_SHARE:
            return by_id(await self._query(resource, field, values, columns))
        several = len(values) > 1  # which take longer than whoever looks for one is to wait
        place = resource.type, field, several
        if place not in self._shared:
            send = partial(self._find_each, resource, field)
            size, in_flight = _OF_SEVERAL if several else _OF_ONE
            self._shared[place] = Batcher(send, max_batch_size=size, max_in_flight=in_flight)
        return await self._shared[place].load((values, columns))

    async def find_first(
        self, resource: Resource, numbers: _Values, members: Members
    ) -> list[Record]:
        """Return, by rising id, the first members of each resource of this type."""
        found: list[Record] = []
        with answering_unavailable():
            for some in _batches(numbers):
                stages: list[Stage] = [
                    {"$match": {"_id": {"$in": some}}},
                    {"$project": {"_id": True}},
                    {"$lookup": members.lookup()},
                ]
                options = {"pipeline": stages, "cursor": {"batchSize": RECORDS_A_REPLY}}
                for one in await self._commands.find_all(resource.collection, "aggregate", options):
                    found += one["members"]
        return by_id(found)

    async def _find_each(
        self, resource: Resource, field: str, asked: Sequence[_Asked]
    ) -> list[list[Record]]:
        wanted = set[int]().union(*(values for values, _ in asked))
        columns = set[str]().union(*(columns for _, columns in asked))
        records = await self._query(resource, field, wanted, columns)
        if field == "_id":  # of which each is there once
            known = dict(zip(map(itemgetter("_id"), records), records, strict=True))
            return [list(filter(None, map(known.get, sorted(values)))) for values, _ in asked]
        found: dict[int, list[Record]] = defaultdict(list)
        for record in records:
            if (value := key_of(record, field)) is not None:
                found[value].append(record)
        return [
            by_id(chain.from_iterable(found[one] for one in values if one in found))
            for values, _ in asked
        ]

    async def _query(
        self, resource: Resource, field: str, values: _Values, columns: Collection[str]
    ) -> list[Record]:
        found: list[Record] = []
        with answering_unavailable():
            for some in _batches(values):
                found += await self._commands.find_all(
                    resource.collection,
                    "find",
                    {
                        # One id takes MongoDB less time to find than a list of one.
                        "filter": {field: {"$in": some} if len(some) > 1 else some[0]},
                        "projection": only(columns),
                        "batchSize": RECORDS_A_REPLY,
                    },
                )
        return found


def _batches(values: _Values) -> Iterator[list[int]]:
    wanted = list(values)
    for start in range(0, len(wanted), _VALUES_A_QUERY):
        yield wanted[start : start + _VALUES_A_QUERY]
