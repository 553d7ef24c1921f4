"""How much one process does at once, and why.

Each request that needs the database or much memory belongs to a class with a limit and a queue of
its own: a Bulkhead. The commands of all classes leave in batches, in groups of writes or alone,
each on a thread.
"""

import os
from dataclasses import dataclass
from typing import Self

from registry.settings import CORES, Settings


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of one kind of batches.

    max_size: keys in a batch. max_in_flight: batches under way at the same time. min_parallel:
    smaller batches are not dispatched in parallel, as each takes CPU time.
    """

    max_size: int
    max_in_flight: int = 1
    min_parallel: int = 8

    def size(self, waiting: int, in_flight: int) -> int:
        """Return the size of the next batch: an equal share of all keys for each batch in flight.

        Otherwise the service and the database would take turns even with many callers.
        """
        share = -(-(waiting + in_flight) // self.max_in_flight)
        return min(self.max_size, max(share, self.min_parallel))

    def may_start(self, waiting: int, in_flight: int, batches: int) -> bool:
        """Whether a batch leaves now. waiting, in_flight: keys. batches: those in flight.

        At once if none is in flight, and in parallel if enough keys wait.
        """
        if batches == self.max_in_flight or not waiting:
            return False
        if not batches:
            return True
        return waiting >= self.min_parallel and waiting >= self.size(waiting, in_flight)


LOOKUPS_OF_ONE = BatchLimits(256, 2, min_parallel=64)
"""Lookups of one id, per type. With many callers, the service renders the records of one batch
while the database reads the other. At 64 connections, two batches of 32 instead of one would take
14 % more CPU time for each read."""

LOOKUPS_OF_MANY = BatchLimits(12, 3)
"""Lookups of several ids, per type and link. The results of larger batches would exceed processor
caches. Three in flight serve 1.28 times as many pages."""

PAGES_BY_ID = BatchLimits(12, 3)
"""Pages in the order of the ids, per type, for the same reasons."""

COUNTER_READS = BatchLimits(10_000)
"""Reads of counters, for totals and for pages by number."""

TOKENS = BatchLimits(1_000, 2)
"""Lookups of access tokens."""

GROUP_SIZE = 128
"""Requests that share a transaction. In transactions of their own, writes take several times the
CPU time."""

SHARING_CALLERS = 256
"""Requests that share one result: a page, a document, a ping."""

PAST_READS = 20
"""Batches in flight that read past snapshots: each snapshot has its own batches. The parts of a
batch with too many members count as well."""

RETRIED_WRITES = 16
"""Requests that are tried again alone, after a conflict, between two groups of writes."""

_BATCH_THREADS = 100
"""Threads of the batches above. Three types with a link each never have more in flight; more types
may wait for a thread."""

SLOW_THREADS = 25 * max(2, CORES)
"""Threads of heavy requests and streams, which may take seconds."""

THREADS = _BATCH_THREADS + SLOW_THREADS
"""Threads for commands, and their connections, in total; both start on demand. Transactions and
change streams have threads of their own, and use the same connections.

Pages in other orders than by id are not batched: they take a free thread, or wait. With
motor's default, five threads per core, ten slow queries would block every write on two cores.
"""

# Motor reads this variable when it is imported, which must be after this module.
os.environ["MOTOR_MAX_WORKERS"] = str(THREADS)


QUEUE_SECONDS = 4.0
"""How long a request waits for its class. With the default time limit of a query, it is answered
before the ten seconds after which many clients give up."""

_OTHER_SECONDS = 0.5
"""How long a request may take besides its wait and its query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many requests of each class are in progress, and how long they take; the others wait.

    small_requests: reads by id, pages along an index, small writes; also, counted separately,
    lookups of access tokens. Most wait for threads: refusing them would take as much CPU time.
    heavy_requests: queries that no index serves, chunks of long linkage, and writes of many
    resources. They leave half of the cores to others.
    streams: documents that are sent while they are read, and changes that are older than those
    followers share. Each may be as slow as its client, in constant memory.
    uploads: requests with a large body, which arrives at the pace of the client. While it waits,
    each takes 0.4 MB; they are parsed one by one.
    followers: of the change feed. Each takes 40 kB while it waits, and no slot of another class.
    queue_length: the requests that wait for each limit; others are refused at once.
    queue_seconds, query_seconds: the limits of a wait and of a query. response_seconds: the time
    until a response begins.
    quiet_seconds: without events before a follower gets the position, where it continues when it
    reconnects; that also keeps proxies from closing the connection.
    recent_seconds: how far back the shared changes begin, so that followers that reconnect after a
    restart of the service need no change streams of their own. kept_changes: for followers that
    reconnect or are slow. kept_audiences: audiences for which the events of a commit are kept;
    they are encoded again for others.
    token_seconds: how long the lookup of an access token counts, from when it was sent: a
    revocation takes effect within a second, also in a process that cannot reach the database any
    more. known_tokens: those in memory; when there are more, all are forgotten.
    small_collection: records whose indexes are built in less than a second, before the service is
    ready. index_retry_seconds: the pause after a build that has failed; queries are slower until
    one succeeds.
    members: of to-many relationships that one query returns: of one request, and of all those of a
    batch. A request for more reads them in chunks, as a heavy request. few_records: fewer than this
    are read as a page; of more, the response is a stream. chunk: records of a stream in memory at a
    time. kept_records: records and identifiers of one document in memory.
    """

    small_requests: int
    heavy_requests: int
    streams: int
    uploads: int
    followers: int
    queue_length: int = 2_000
    queue_seconds: float
    query_seconds: float
    response_seconds: float
    quiet_seconds: float = 15.0
    recent_seconds: int = 60
    kept_changes: int = 10_000
    kept_audiences: int = 8
    token_seconds: float = 0.9
    known_tokens: int = 10_000
    small_collection: int = 10_000
    index_retry_seconds: float = 30.0
    members: int = 5_000
    few_records: int = 100
    chunk: int = 1_000
    kept_records: int = 10_000

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the limits for the cores of this machine and these settings."""
        heavy_requests, requests = max(2, CORES // 2), settings.capacity
        return cls(
            small_requests=requests,
            heavy_requests=heavy_requests,
            streams=min(max(1, requests // 125), SLOW_THREADS - heavy_requests),
            uploads=max(1, requests // 60),
            followers=4 * requests,
            queue_seconds=QUEUE_SECONDS,
            query_seconds=settings.query_seconds,
            response_seconds=QUEUE_SECONDS + settings.query_seconds + _OTHER_SECONDS,
        )
