"""What the collection queries of one database share."""

from bson.timestamp import Timestamp

from registry.capacity import SHARING_CALLERS, Capacity
from registry.jsonapi.pagination import Window
from registry.model.graph import Graph
from registry.storage.backlog import Backlog
from registry.storage.bulkheads import Bulkheads
from registry.storage.mongo.batching import Coalescer
from registry.storage.mongo.read_commands import PointInTime, ReadCommands
from registry.storage.reads.id_index import IdIndex
from registry.storage.reads.range_scans import RangeScans


class ReadContext:
    """The indexes, shared fetches and limits of the collection queries of one database.

    seconds: the time limit of a query. total_seconds: that of a heavy page with its wait.
    id_indexes, range_scans: by type. pages, totals, bulkheads: coalescing, and the limits on
    queries in progress. backlog: indexes and text blocks that are not complete.
    """

    def __init__(
        self,
        commands: ReadCommands,
        graph: Graph,
        capacity: Capacity,
        bulkheads: Bulkheads,
        backlog: Backlog,
    ) -> None:
        self.commands = commands
        self.graph = graph
        self.seconds = capacity.query_seconds
        self.total_seconds = capacity.queue_seconds + capacity.query_seconds
        names = {resource.type: resource.collection for resource in graph.values()}
        self.id_indexes = {key: IdIndex(commands, name) for key, name in names.items()}
        self.range_scans = {key: RangeScans(commands, name) for key, name in names.items()}
        self.pages = Coalescer[tuple[Window, PointInTime]](
            name="pages", max_callers=SHARING_CALLERS
        )
        self.totals = Coalescer[tuple[int, Timestamp | None]](
            name="totals", max_callers=SHARING_CALLERS
        )
        self.bulkheads = bulkheads
        self.backlog = backlog

    async def close(self) -> None:
        """Stop reading in the background, and end the sessions."""
        for index in self.id_indexes.values():
            await index.close()
        await self.commands.close()
